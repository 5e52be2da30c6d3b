package predict

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// variedRow is a measurement of a problem size.
func variedRow(n float64, np int, mib float64) dataset.Measurement {
	return dataset.Measurement{Table: "mine.csv", App: "wave", Class: dataset.Varied{Param: "n", Value: n}.Class(), MPI: "mpich", NP: np, PPN: np, Data: mib}
}

// variedData predicts a data zone.
func variedData(t *testing.T, m *Model, class string, np int) fit.Zone {
	t.Helper()
	a, err := m.Application("wave."+class, np)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.DataZone(a, "mpich", fit.Auto, 1)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestVariedLaws: whatever the dimensions and the surface are, six small runs with 1 %
// of noise predict a problem 64 times as large on four times as many processes, and the
// interval knows how well.
func TestVariedLaws(t *testing.T) {
	problems := map[string]func(n, p float64) float64{
		"blocks in 3-D":  func(n, p float64) float64 { return 40*n*n*n/p/(1<<20) + 60*n*n*math.Pow(p, -2./3)/(1<<20) + 3 },
		"pencils in 3-D": func(n, p float64) float64 { return 40*n*n*n/p/(1<<20) + 80*n*n/math.Sqrt(p)/(1<<20) + 3 },
		"slabs in 2-D":   func(n, p float64) float64 { return 1600*n*n/p/(1<<20) + 800*n/(1<<20) + 1 },
		"a list":         func(n, p float64) float64 { return 90000*n/p/(1<<20) + 2 },
	}
	for name, truth := range problems {
		r := rand.New(rand.NewPCG(15, 8))
		inside, worst := 0, 0.
		const trials = 12
		for range trials {
			var rows []dataset.Measurement
			for _, n := range []float64{64, 128, 256} {
				for _, np := range []int{4, 9, 16} {
					rows = append(rows, variedRow(n, np, truth(n, float64(np))*(1+0.01*r.NormFloat64())))
				}
			}
			m, err := FitSizes(rows)
			if err != nil {
				t.Fatal(err)
			}
			e, want := variedData(t, m, "n=1024", 64), truth(1024, 64)
			worst = max(worst, math.Abs(e.Value/want-1))
			if e.Contains(want) {
				inside++
			}
			if e.Extrapolation != 4 {
				t.Fatalf("extrapolated by %g", e.Extrapolation)
			}
		}
		t.Logf("%s: error up to %.1f %%, %d of %d inside", name, 100*worst, inside, trials)
		if inside < trials*9/10 || worst > 0.2 {
			t.Errorf("%s: error up to %.1f %%, %d of %d inside", name, 100*worst, inside, trials)
		}
	}
}

// TestVariedOfSpecs: sizes of NPB at N = 24, 64, 102 on 4 and 9 processes predict N = 162
// on 16. With the spec the structure does it from two classes; without, laws of both.
func TestVariedOfSpecs(t *testing.T) {
	for _, app := range []string{"bt", "sp", "lu"} {
		w, err := dataset.LoadWorkload(app)
		if err != nil {
			t.Fatal(err)
		}
		mib := func(n float64, np int) float64 {
			inst, err := w.VariedInstance(dataset.Varied{Param: "n", Value: n}.Class(), np)
			if err != nil {
				t.Fatal(err)
			}
			return float64(inst.DataBytes()) / (1 << 20)
		}
		var rows, own []dataset.Measurement
		for _, n := range []float64{24, 64, 102} {
			for _, np := range []int{4, 9} {
				r := variedRow(n, np, mib(n, np))
				rows = append(rows, r)
				if r.App = app; n < 100 {
					own = append(own, r)
				}
			}
		}
		m, err := FitSizes(rows)
		if err != nil {
			t.Fatal(err)
		}
		e, want := variedData(t, m, "n=162", 16), mib(162, 16)
		t.Logf("%s: %.2f MiB (%.2f to %.2f), want %.2f; %s; %s", app, e.Value, e.Low, e.High, want, e.Law, e.Basis)
		if !e.Contains(want) || math.Abs(e.Value/want-1) > 0.1 {
			t.Errorf("%s without a spec: %.2f MiB (%.2f to %.2f), want %.2f by %s", app, e.Value, e.Low, e.High, want, e.Law)
		}
		if m, err = FitSizes(own); err != nil || len(m.Varied) > 0 {
			t.Fatal(m.Varied, err)
		}
		for _, name := range []string{app + ".C.16", app + ".n=162"} {
			a, err := m.Application(name, 16)
			if err != nil {
				t.Fatal(err)
			}
			s, err := m.DataZone(a, "mpich", fit.Auto, 1)
			if err != nil || s.Law != string(fit.Structural) || !s.Contains(want) || math.Abs(s.Value/want-1) > 0.01 || !(s.Low < s.High) {
				t.Errorf("%s: %+v, %v; want %.2f", name, s, err, want)
			}
		}
	}
}

// TestVariedRefused: too few sizes, and parameters that nobody measured.
func TestVariedRefused(t *testing.T) {
	var input *fit.InputError
	for name, rows := range map[string][]dataset.Measurement{
		"one size":    {variedRow(64, 4, 9), variedRow(64, 9, 5), variedRow(64, 16, 3), variedRow(64, 25, 2)},
		"one count":   {variedRow(64, 4, 9), variedRow(32, 4, 5), variedRow(16, 4, 3), variedRow(8, 4, 2)},
		"three alone": {variedRow(64, 4, 9), variedRow(32, 4, 5), variedRow(16, 9, 3)},
	} {
		if _, err := FitSizes(rows); !errors.As(err, &input) || !strings.Contains(err.Error(), "cannot fix a law of both") || input.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := FitSizes([]dataset.Measurement{variedRow(64, 4, 16.5), variedRow(64, 9, 8), variedRow(128, 4, 65), variedRow(128, 9, 29)})
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]string{"k=7": "that vary k, but n", "n=64": "number of processes is missing"} {
		np := 4
		if class == "n=64" {
			np = 0
		}
		if _, err := m.Application("wave."+class, np); !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", class, err)
		}
	}
}

// wholeModel has files of 60 MiB and a data zone of 4 GiB in all.
func wholeModel(t *testing.T) *Model {
	t.Helper()
	var rows []dataset.Measurement
	for i, np := range []int{4, 8, 16} {
		rows = append(rows, dataset.Measurement{Table: "files.csv", Line: i + 2, App: "wave", Class: "x", MPI: "mpich", NP: np, PPN: np, File: 60 + 4096/float64(np)})
	}
	m, err := Fit(rows)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWholeFiles: sizes of files alone predict files, and say that zones are unknown.
func TestWholeFiles(t *testing.T) {
	m := wholeModel(t)
	a, err := m.Application("wave.x.64", 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Size(Request{App: a, Mapping: []int{32, 32}})
	if err != nil {
		t.Fatal(err)
	}
	if want := MiB(64 * (60 + 4096./64)); math.Abs(float64(s.TotalMiB/want)-1) > 0.001 || !(s.LowMiB < want && want < s.HighMiB) || s.HighMiB > 2*want {
		t.Errorf("%.1f MiB, %.1f to %.1f; want %.1f", s.TotalMiB, s.LowMiB, s.HighMiB, want)
	}
	if !s.ZonesUnknown || s.Zones != (ZonesMiB{}) || !strings.Contains(s.Note, "zones are unknown") || !strings.Contains(s.Note, "factor of 4") || !strings.Contains(s.Basis, "files.csv") {
		t.Errorf("%+v", s)
	}
	var input *fit.InputError
	if _, err := m.Size(Request{App: a, IO: FullIO}); !errors.As(err, &input) {
		t.Errorf("aggregators of unknown zones: %v", err)
	}
	if _, err := m.Time(Request{App: a}, "gzip", nil); !errors.As(err, &input) || !strings.Contains(err.Error(), "zones") {
		t.Errorf("the ratio of a codec depends on zones: %v", err)
	}
	if _, err := m.Time(Request{App: a}, "", nil); err != nil {
		t.Error(err)
	}
	_, err = Fit([]dataset.Measurement{{App: "wave", Class: "x", MPI: "mpich", NP: 4, PPN: 4, File: 9}, {App: "wave", Class: "x", MPI: "mpich", NP: 9, PPN: 9, File: 7}})
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "2 process count(s)") {
		t.Errorf("two counts: %v", err)
	}
}

// TestRepeatsWiden: three runs of each configuration that differ by 20 % make the interval
// of a single run wider than their means alone, by what they differ.
func TestRepeatsWiden(t *testing.T) {
	interval := func(scatter float64) (data, file fit.Estimate) {
		var rows []dataset.Measurement
		for _, np := range []int{4, 8, 16} {
			mib := 60 + 4096/float64(np)
			for _, off := range []float64{-scatter, 0, scatter} {
				rows = append(rows, dataset.Measurement{App: "wave", Class: "x", MPI: "mpich", NP: np, PPN: np, Data: mib * (1 + off)},
					dataset.Measurement{App: "wave", Class: "y", MPI: "mpich", NP: np, PPN: np, File: mib * (1 + off)})
			}
		}
		m, err := FitSizes(dataset.Means(rows))
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.DataZone(App{Name: "wave", Class: "x", NP: 16}, "mpich", fit.Auto, 1)
		if err != nil {
			t.Fatal(err)
		}
		return e.Estimate, m.whole("wave", "y", "mpich").Predict(16)
	}
	data, file := interval(0)
	wideData, wideFile := interval(0.2)
	for name, e := range map[string][2]fit.Estimate{"data": {data, wideData}, "file": {file, wideFile}} {
		narrow, wide := e[0], e[1]
		want := math.Hypot(narrow.High-narrow.Value, fit.Student(6)*0.2*narrow.Value)
		if math.Abs(wide.Value/narrow.Value-1) > 1e-6 || math.Abs((wide.High-wide.Value)/want-1) > 1e-6 || wide.Low >= narrow.Low {
			t.Errorf("%s: %+v from equal runs, %+v from others; want a half width of %g", name, narrow, wide, want)
		}
	}
}

// TestFiguresOfSizes: a figure has the law of the prediction, also of problem sizes, of
// whole files, and of a class that was never run.
func TestFiguresOfSizes(t *testing.T) {
	whole := wholeModel(t)
	varied, err := Fit([]dataset.Measurement{variedRow(64, 4, 16.5), variedRow(64, 9, 8), variedRow(128, 4, 65), variedRow(128, 9, 29)})
	if err != nil {
		t.Fatal(err)
	}
	classes, err := Fit([]dataset.Measurement{{App: "bt", Class: "W", MPI: "mpich", NP: 4, PPN: 4, Data: 2.8}, {App: "bt", Class: "A", MPI: "mpich", NP: 4, PPN: 4, Data: 30.6}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m      *Model
		app    string
		points int
		below  int // points of all sizes
		low    float64
	}{{whole, "wave.x.64", 3, 3, 4}, {varied, "wave.n=128", 2, 4, 4}, {varied, "wave.n=512", 0, 4, math.Inf(1)}, {classes, "bt.C.16", 0, 0, 16}} {
		np := 0
		if strings.Contains(c.app, "=") {
			np = 16
		}
		a, err := c.m.Application(c.app, np)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.m.Figure(Request{App: a})
		if err != nil {
			t.Fatalf("%s: %v", c.app, err)
		}
		s, err := c.m.Size(Request{App: a})
		if err != nil {
			t.Fatal(err)
		}
		want := float64(s.Zones.Data)
		if s.ZonesUnknown {
			want = float64(s.TotalMiB) / float64(a.NP)
		}
		if len(f.Fitted) != c.points || len(f.Residuals) != c.below || f.Low != c.low || f.Asked == nil || math.Abs(f.Asked.Y/want-1) > 1e-9 || len(f.Curve) < 3 {
			t.Errorf("%s: %d points, %d residuals, from %g, asked %+v, want %g", c.app, len(f.Fitted), len(f.Residuals), f.Low, f.Asked, want)
		}
		for _, b := range f.Curve {
			if b.X == f.Asked.X && b.Y != f.Asked.Y {
				t.Errorf("%s: the curve passes %g at %g", c.app, b.Y, b.X)
			}
		}
	}
}

// TestVariedFile: a model from a file predicts the same; a damaged one is refused.
func TestVariedFile(t *testing.T) {
	m := wholeModel(t)
	base, err := Fit([]dataset.Measurement{variedRow(64, 4, 16.5), variedRow(64, 9, 8), variedRow(128, 4, 65), variedRow(128, 9, 29)})
	if err != nil {
		t.Fatal(err)
	}
	m.Varied = base.Varied
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	read, err := ReadModel(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := variedData(t, read, "n=256", 16), variedData(t, m, "n=256", 16); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, damage := range []func(f *fit.Varied){
		func(f *fit.Varied) { f.Laws = nil }, func(f *fit.Varied) { f.Laws[0].Coef = nil }, func(f *fit.Varied) { f.Laws[0].Weight = 0.3 },
		func(f *fit.Varied) { f.Points[0].MiB = -1 }, func(f *fit.Varied) { f.Laws[0].Terms[0].P = 2 }, func(f *fit.Varied) { f.Laws[0].Coef[0] = -1 },
	} {
		damaged, err := Fit([]dataset.Measurement{variedRow(64, 4, 16.5), variedRow(64, 9, 8), variedRow(128, 4, 65), variedRow(128, 9, 29)})
		if err != nil {
			t.Fatal(err)
		}
		damage(damaged.Varied[0])
		if err := damaged.check(); err == nil {
			t.Errorf("%+v is accepted", damaged.Varied[0].Laws)
		}
	}
	m.Whole[0].Points[0].MiB = -1
	if err := m.check(); err == nil {
		t.Error("a file of -1 MiB is accepted")
	}
}
