package launch

import (
	"slices"
	"testing"
)

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
