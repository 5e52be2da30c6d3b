package predict

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// fitOf fits rows of an application without a workload spec.
func fitOf(t *testing.T, data map[int]float64, shared map[int]float64) *Model {
	t.Helper()
	var rows []dataset.Measurement
	for np, mib := range data {
		rows = append(rows, dataset.Measurement{Table: "mine", App: "mine", Class: "x", MPI: "mpich", NP: np, PPN: np, Data: mib, Shared: shared[np]})
	}
	m, err := Fit(rows)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sizeOf(t *testing.T, m *Model, mapping ...int) *Size {
	t.Helper()
	np := 0
	for _, n := range mapping {
		np += n
	}
	a, err := m.Application("mine.x", np)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Size(Request{App: a, Mapping: mapping})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWeakScaling: 1000 MiB at every count stay 1000 MiB, and do not become 124.
func TestWeakScaling(t *testing.T) {
	for name, c := range map[string]struct {
		data map[int]float64
		want float64
	}{
		"constant":          {map[int]float64{4: 1000, 16: 1000, 64: 1000}, 1000},
		"nearly constant":   {map[int]float64{4: 1003, 16: 998, 64: 1001}, 1000.7},
		"two points":        {map[int]float64{4: 1000, 16: 1000}, 1000},
		"a table of a rank": {map[int]float64{4: 1004, 16: 1016, 64: 1064}, 1256},
	} {
		s := sizeOf(t, fitOf(t, c.data, nil), 64, 64, 64, 64)
		if math.Abs(float64(s.Zones.Data)/c.want-1) > 0.01 || s.Files[0].Low > s.Files[0].MiB {
			t.Errorf("%s: data of %.2f MiB, want %.2f (%s)", name, s.Zones.Data, c.want, s.Model)
		}
		if strings.Contains(s.Note, "no law") {
			t.Errorf("%s: %s", name, s.Note)
		}
	}
}

// TestMisfit: measurements that no law describes give a warning and a wide interval.
func TestMisfit(t *testing.T) {
	s := sizeOf(t, fitOf(t, map[int]float64{4: 1000, 8: 200, 16: 900, 32: 150}, nil), 16)
	if !strings.Contains(s.Note, "no law fits the measurements") {
		t.Errorf("note %q", s.Note)
	}
	if f := s.Files[0]; f.High-f.Low < f.MiB/2 {
		t.Errorf("a confident %.0f MiB, %.0f to %.0f", f.MiB, f.Low, f.High)
	}
}

// TestSingleProcess: a process that is alone on its node has no segment. Its row does
// not drive the law of the others into one that fits worse.
func TestSingleProcess(t *testing.T) {
	data, shared := map[int]float64{}, map[int]float64{1: 0.2}
	for _, np := range []int{2, 4, 8, 16} {
		shared[np] = 25.5 + 4*float64(np) + float64(np*np)/16
	}
	for np := range shared {
		data[np] = 1000 / float64(np)
	}
	m := fitOf(t, data, shared)
	for _, np := range []int{1, 2, 16, 32} {
		want := shared[np]
		if np == 32 {
			want = 25.5 + 4*32 + 32*32/16.
		}
		if got := float64(sizeOf(t, m, np).Zones.Shared); math.Abs(got-want) > 0.02*want+0.01 {
			t.Errorf("%d processes: shared zone of %.2f MiB, want %.2f", np, got, want)
		}
	}
	var text strings.Builder
	if err := m.Write(&text); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadModel(strings.NewReader(text.String())); err != nil || again.Shared["mpich"].Single == nil {
		t.Errorf("the model does not come back: %v", err)
	}
}

// TestNodeOfAMillion: no node runs a million processes, and no number says what they
// would store.
func TestNodeOfAMillion(t *testing.T) {
	m := model(t)
	a := app(t, m, "bt.D.1000000")
	if _, err := m.Size(Request{App: a}); err == nil || !strings.Contains(err.Error(), "no node runs so many") {
		t.Errorf("%v", err)
	}
}

// TestShare fits a checkpointer that leaves out pages of zeros: 0.29 of the arrays of cg are
// stored, whatever the number of processes. A constant alone would have to be negative.
func TestShare(t *testing.T) {
	var rows []dataset.Measurement
	at := func(np int) float64 {
		w, err := dataset.LoadWorkload("cg")
		if err != nil {
			t.Fatal(err)
		}
		inst, err := w.Instance("B", np)
		if err != nil {
			t.Fatal(err)
		}
		return 0.29*fit.Structure(inst).All + 0.4
	}
	for i, np := range []int{2, 4, 8} {
		noise := 1 + 0.002*float64(i-1)
		rows = append(rows, dataset.Measurement{Table: "mine", App: "cg", Class: "B", MPI: "mpich", NP: np, PPN: np, Data: at(np) * noise, Library: 24, Shared: 40})
	}
	m, err := Fit(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, np := range []int{16, 32, 64} {
		e, err := m.DataZone(app(t, m, fmt.Sprintf("cg.B.%d", np)), "mpich", fit.Auto, 1)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(e.Value/at(np)-1) > 0.06 || !e.Contains(at(np)) {
			t.Errorf("%d processes: %+v, want %g", np, e.Estimate, at(np))
		}
		if !strings.Contains(e.Basis, "share of 0.29 of the arrays") {
			t.Errorf("basis %q", e.Basis)
		}
	}
}

// TestVariant: measurements that do not follow the spec are left to the laws.
func TestVariant(t *testing.T) {
	var rows []dataset.Measurement
	for _, np := range []int{4, 9, 16, 25} {
		rows = append(rows, dataset.Measurement{Table: "mine", App: "bt", Class: "A", MPI: "mpich", NP: np, PPN: np, Data: 300})
	}
	m, err := Fit(rows)
	if err != nil {
		t.Fatal(err)
	}
	s := size(t, m, Request{App: app(t, m, "bt.A.64")})
	if math.Abs(float64(s.Zones.Data)/300-1) > 0.01 || !strings.Contains(s.Note, "do not follow the workload spec of bt") {
		t.Errorf("data of %.2f MiB by %s, note %q", s.Zones.Data, s.Model, s.Note)
	}
}

// TestZeros: a checkpointer that leaves out pages of zeros stores what is written. The share
// of that changes with the processes, where a share of all arrays would not; other classes
// have it, too.
func TestZeros(t *testing.T) {
	for _, name := range []string{"cg", "sp", "bt"} {
		w, err := dataset.LoadWorkload(name)
		if err != nil {
			t.Fatal(err)
		}
		at := func(class string, np int) float64 {
			inst, err := w.Instance(class, np)
			if err != nil {
				t.Fatal(err)
			}
			return 0.9*fit.Structure(inst).Written + 1.3
		}
		var rows []dataset.Measurement
		for _, np := range []int{1, 4, 16} {
			rows = append(rows, dataset.Measurement{Table: "mine", App: name, Class: "B", MPI: "mpich", NP: np, PPN: np, Data: at("B", np), Library: 24, Shared: 40})
		}
		m, err := Fit(rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, class := range []string{"B", "C"} {
			for _, np := range []int{64, 256} {
				e, err := m.DataZone(app(t, m, fmt.Sprintf("%s.%s.%d", name, class, np)), "mpich", fit.Auto, 1)
				if err != nil {
					t.Fatal(err)
				}
				want := at(class, np)
				t.Logf("%s.%s.%d: %.2f MiB (%.2f to %.2f), want %.2f; %s", name, class, np, e.Value, e.Low, e.High, want, e.Basis)
				if math.Abs(e.Value/want-1) > 0.05 || !e.Contains(want) {
					t.Errorf("%s.%s.%d: %.2f MiB (%.2f to %.2f), want %.2f", name, class, np, e.Value, e.Low, e.High, want)
				}
			}
		}
	}
}
