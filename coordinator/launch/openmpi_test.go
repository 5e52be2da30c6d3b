package launch

import (
	"slices"
	"testing"
)

// TestForCommand: Open MPI ends with an error if variables are passed in both ways.
func TestForCommand(t *testing.T) {
	env := []string{"CKPT_TOKEN=secret"}
	for _, c := range []struct {
		command []string
		listed  bool
		lacks   string
	}{
		{[]string{"mpirun", "-n", "2", "./a"}, true, ""},
		{[]string{"mpirun", "-x", "PATH", "./a"}, false, "-x CKPT_SOCKET -x CKPT_TOKEN -x CKPT_INCARNATION -x CKPT_BEAT -x CKPT_AGENT"},
		{[]string{"mpirun", "-x", "CKPT_SOCKET", "-x", "CKPT_TOKEN", "-x", "CKPT_BEAT", "-x", "CKPT_AGENT", "./a"}, false, "-x CKPT_INCARNATION"},
	} {
		if got := forCommand(c.command, env); (len(got) > len(env)) != c.listed || NotPassed(c.command) != c.lacks {
			t.Errorf("%v: %v, lacks %q", c.command, got, NotPassed(c.command))
		}
	}
}

// TestForOpenMPI: our variables are passed besides those of the user, by name only.
func TestForOpenMPI(t *testing.T) {
	env := []string{"HOME=/root", "CKPT_SOCKET=tls:10.0.0.1:7", "CKPT_TOKEN=secret"}
	for _, c := range []struct {
		of   []string
		want string
	}{
		{nil, "CKPT_SOCKET;CKPT_TOKEN"},
		{[]string{"OMPI_MCA_mca_base_env_list=A;B=1"}, "A;B=1;CKPT_SOCKET;CKPT_TOKEN"},
		{[]string{"OMPI_MCA_mca_base_env_list=A,CKPT_TOKEN", "OMPI_MCA_mca_base_env_list_delimiter=,"}, "A,CKPT_TOKEN,CKPT_SOCKET"},
	} {
		got := forOpenMPI(slices.Concat(env, c.of))
		if last := got[len(got)-1]; last != "OMPI_MCA_mca_base_env_list="+c.want {
			t.Errorf("of %v: %s, want %s", c.of, last, c.want)
		}
	}
}
