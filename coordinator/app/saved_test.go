package app

import (
	"slices"
	"strings"
	"testing"

	"ckpt/dataset"
	"ckpt/zones"
)

// savedSpec has arrays of all types that are computed anew, and some that are the same on
// all ranks.
const savedSpec = `
name: saved
kernel: generic
procs: any
classes:
  S: {iterations: 20, params: {n: 3000}}
arrays:
  - {name: temperature, elem: float64, count: n}
  - {name: model,       elem: float64, count: n, replicated: true}
  - {name: heap,        elem: bytes,   count: n, replicated: true}
  - {name: fields,      elem: float64, count: n, save: false, rewrite: 0.5}
  - {name: floats,      elem: float32, count: n, save: false}
  - {name: keys,        elem: int64,   count: n, save: false}
  - {name: ids,         elem: int32,   count: n, save: false, replicated: true}
  - {name: raw,         elem: bytes,   count: n, save: false, rewrite: 0.1}
  - {name: table,       elem: int64,   count: n, save: false, rewrite: 0}
`

func savedInstance(t testing.TB, np int) *dataset.Instance {
	t.Helper()
	return instanceOf(t, savedSpec, np)
}

// resume is a new job that continues j from what is saved at application level, without
// the array named lost.
func (j *job) resume(lost string) *job {
	j.t.Helper()
	out := newJob(j.t, j.inst).init()
	for rank := range j.regions {
		for _, a := range j.inst.Arrays {
			if !a.Save || a.Name == lost || a.Count == 0 {
				continue
			}
			from := rank
			if a.Replicated {
				from = 0
			}
			copy(out.region(rank, a.Name), j.region(from, a.Name))
		}
		out.apps[rank].Resume(slices.Clone(j.apps[0].Progress()))
	}
	out.world = j.world.clone()
	return out
}

func (j *job) region(rank int, name string) []byte {
	i := slices.IndexFunc(j.regions[rank], func(r region) bool { return r.name == name })
	return j.regions[rank][i].mem
}

// everySaved is everyApp, and a spec that marks its arrays.
func everySaved(t *testing.T, f func(t *testing.T, inst *dataset.Instance)) {
	everyApp(t, f)
	for _, np := range counts("saved") {
		t.Run(savedInstance(t, np).String(), func(t *testing.T) {
			t.Parallel()
			f(t, savedInstance(t, np))
		})
	}
}

// A restart at application level ends in the same bytes, scratch included.
func TestResume(t *testing.T) {
	everySaved(t, func(t *testing.T, inst *dataset.Instance) {
		const last = 8
		want := newJob(t, inst).init().run(last).digest()
		for _, stop := range sampled(2, last-1, 1, 5) {
			j := newJob(t, inst).init().run(stop).resume("")
			if j.apps[0].Iteration() != stop {
				t.Fatalf("resumed at iteration %d, want %d", j.apps[0].Iteration(), stop)
			}
			if got := j.run(last).digest(); got != want {
				t.Errorf("resuming after iteration %d ends in other bytes", stop)
			}
		}
	})
}

// The built-in specs save nothing that need not be saved.
func TestSavedIsNeeded(t *testing.T) {
	for _, name := range dataset.Names() {
		t.Run(name, func(t *testing.T) {
			const stop, last = 5, 6
			inst := instance(t, name+".S", 4)
			j := newJob(t, inst).init().run(stop)
			at := j.resume("") // a copy
			want := j.run(last).digest()
			for _, a := range inst.Arrays {
				if a.Save && at.resume(a.Name).run(last).digest() == want {
					t.Errorf("the run does not depend on %s, which is saved", a.Name)
				}
			}
		})
	}
}

// Replicated arrays are the same on all ranks.
func TestReplicated(t *testing.T) {
	everySaved(t, func(t *testing.T, inst *dataset.Instance) {
		j := newJob(t, inst).init().run(3)
		for _, a := range inst.Arrays {
			for rank := range inst.NP {
				if a.Replicated && a.Count > 0 && string(j.region(rank, a.Name)) != string(j.region(0, a.Name)) {
					t.Errorf("%s of rank %d is not that of rank 0", a.Name, rank)
				}
			}
		}
		for rank, a := range j.apps {
			if string(a.Progress()) != string(j.apps[0].Progress()) {
				t.Errorf("rank %d has another progress than rank 0", rank)
			}
		}
	})
}

func TestMarks(t *testing.T) {
	for _, c := range []struct{ app, old, new, want string }{
		{"minighost.yaml", "{name: grid1, ", "{name: grid1, save: false, ", "array grid1: each iteration needs its earlier values"},
		{"minighost.yaml", "{name: grid1, ", "{name: grid1, replicated: true, ", "array grid1: it differs from rank to rank"},
		{"bt.yaml", "{name: us, ", "{name: us, replicated: true, ", "array us: it differs from rank to rank"},
	} {
		w, err := dataset.LoadWorkload(strings.TrimSuffix(c.app, ".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(w.Source()), c.old, c.new, 1)
		if w, err = dataset.ParseWorkload([]byte(text), c.app); err != nil {
			t.Fatal(err)
		}
		inst, err := w.Instance("S", 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(inst, 0, func(_ string, _ zones.Elem, n int64) ([]byte, error) { return aligned(n), nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.new, err, c.want)
		}
	}
}
