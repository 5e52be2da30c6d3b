package job

import (
	"strings"
	"testing"

	"ckpt/dataset"
)

// After the last iteration nothing is computed anew, so that all arrays are stored.
func TestStores(t *testing.T) {
	inst, err := dataset.ParseApp("ring.S.2", 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := NewSpec(inst)
	spec.Level = Application
	r, err := spec.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		region string
		iter   int
		want   bool
	}{{"state", 1, true}, {"table", 1, false}, {"table", r.Iterations - 1, false}, {"table", r.Iterations, true}, {"runtime", r.Iterations, false}} {
		if got, replicated := r.Stores(inst, c.region, c.iter); got != c.want || replicated {
			t.Errorf("%s after iteration %d: stored %t, replicated %t", c.region, c.iter, got, replicated)
		}
	}
}

func TestLevels(t *testing.T) {
	inst, err := dataset.ParseApp("ring.S.2", 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := NewSpec(inst)
	for _, c := range []struct {
		level   Level
		program *Program
		origin  string
		of      Level
		wrong   string
	}{
		{"", nil, "", System, ""},
		{System, nil, "", System, ""},
		{Application, nil, "", Application, ""},
		{"user", nil, "", "user", "is unknown"},
		{"", &Program{}, "", Application, ""},
		{"", &Program{}, "dmtcp", System, ""},
		{"", nil, "dmtcp", System, ""},
		{Application, &Program{}, "", Application, ""},
	} {
		s := spec
		s.Level, s.Program, s.Origin = c.level, c.program, c.origin
		if got := s.LevelOf(); got != c.of {
			t.Errorf("%+v: level %s, want %s", c, got, c.of)
		}
		err := s.checkLevel()
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestProgramName: a program has the name of its file, not of its launcher.
func TestProgramName(t *testing.T) {
	for command, want := range map[string]string{
		"mpiexec.mpich -n 4 /bin/cat 7":  "cat",
		"srun --mpi pmi2 -N 2 cat x":     "cat",
		"mpirun -np 2 python3 ./heat.py": "heat",
		"cat":                            "cat",
		"sh -c something":                "sh",
		"mpiexec.mpich -n 2 ./nothing":   "mpiexec-mpich",
	} {
		p := Program{Command: strings.Fields(command), Dir: "/"}
		if got := p.name(); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}
