package plan

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

func TestPlan(t *testing.T) {
	m := model(t)
	p := Planning{App: app(t, m, "bt.D.64"), Overhead: 0.3, AppSeconds: 1137.53, Keep: 2}
	for _, aim := range []Aim{LeastTime, LeastStorage, LeastLost} {
		p.Minimize = aim
		options, err := Compare(m, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(options) != 7*2*2 || !options[0].Best || slices.ContainsFunc(options[1:], func(o Option) bool { return o.Best }) {
			t.Fatalf("%s: %d options, first %+v", aim, len(options), options[0])
		}
		key := map[Aim]func(Option) float64{LeastTime: func(o Option) float64 { return o.CheckpointS },
			LeastStorage: func(o Option) float64 { return float64(o.StorageMiB) }, LeastLost: func(o Option) float64 { return o.LostS }}[aim]
		if b := options[0]; b.LowS <= 0 || b.Extrapolation >= 5 {
			t.Errorf("%s: the best is a guess: %+v", aim, b)
		}
		for _, o := range options[1:] {
			if o.Fits && !o.Guess && key(o) < key(options[0]) {
				t.Errorf("%s: %+v is better than the best, %+v", aim, o, options[0])
			}
			if o.StorageMiB != 3*o.GstoredMiB {
				t.Errorf("storage of two kept and one written is %g of %g", o.StorageMiB, o.GstoredMiB)
			}
		}
	}
	// A store that is too small for anything: no best.
	p.CapacityMiB = 1
	options, err := Compare(m, p)
	if err != nil || slices.ContainsFunc(options, func(o Option) bool { return o.Fits || o.Best }) {
		t.Errorf("fits into 1 MiB: %v", err)
	}
}

// Table 5.14: the run alone is fastest on one node, the checkpoint on four, both together
// on two nodes with buffers of 32 MiB.
func TestPlanTotal(t *testing.T) {
	m := model(t)
	times, err := dataset.CollectiveTimes()
	if err != nil {
		t.Fatal(err)
	}
	best := dataset.CollectiveTime{TotalSeconds: math.Inf(1)}
	p := Planning{App: app(t, m, "bt.B.16"), Checkpoints: 1, Minimize: LeastTotal, MPI: []string{"mpich"}, Codecs: []string{"none"}, IO: predict.FullIO}
	for _, c := range times {
		if c.System != "AFS-1" {
			continue
		}
		p.Runs = append(p.Runs, AppRun{len(c.Mapping), c.BufferMiB, c.AppSeconds})
		if c.TotalSeconds < best.TotalSeconds {
			best = c
		}
	}
	options, err := Compare(m, p)
	if err != nil {
		t.Fatal(err)
	}
	b := options[0]
	if len(options) != len(p.Runs) || !b.Best || b.Nodes != 2 || b.PPN != 8 || b.BufferMiB != 32 || b.Extrapolation > Within {
		t.Errorf("%d options, best %+v", len(options), b)
	}
	if math.Abs(b.TotalS/best.TotalSeconds-1) > 0.05 || b.TotalS != b.AppS+b.CheckpointS {
		t.Errorf("best total %.2f s, measured %.2f", b.TotalS, best.TotalSeconds)
	}
	for aim, nodes := range map[Aim]int{LeastTime: 4, LeastStorage: 4} {
		p.Minimize = aim
		if options, err = Compare(m, p); err != nil || options[0].Nodes != nodes {
			t.Errorf("%s: %d nodes, want %d: %v", aim, options[0].Nodes, nodes, err)
		}
	}
}

// A limit on nodes keeps to it, and uses all that it allows.
func TestPlanMaxNodes(t *testing.T) {
	m := model(t)
	options, err := Compare(m, Planning{App: app(t, m, "bt.D.64"), Overhead: 0.3, AppSeconds: 7200, MaxNodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	most := slices.MaxFunc(options, func(a, b Option) int { return a.Nodes - b.Nodes }).Nodes
	if most != 3 {
		t.Errorf("up to %d nodes are tried, want 3", most)
	}
}

// Where the best is extrapolated, the best within the measurements is marked as well.
func TestPlanBestMeasured(t *testing.T) {
	m := model(t)
	p := Planning{App: app(t, m, "bt.D.64"), Overhead: 0.3, AppSeconds: 7200}
	for _, ppn := range [][]int{nil, {16, 32}} {
		p.PPN = ppn
		options, err := Compare(m, p)
		if err != nil {
			t.Fatal(err)
		}
		marked := slices.IndexFunc(options, func(o Option) bool { return o.BestMeasured })
		within := slices.IndexFunc(options, func(o Option) bool { return o.Fits && !o.Guess && o.Extrapolation <= Within })
		if options[0].Extrapolation > Within && marked != within || options[0].Extrapolation <= Within && marked >= 0 {
			t.Errorf("ppn %v: best ×%.2g, option %d is marked, %d lies within", ppn, options[0].Extrapolation, marked, within)
		}
		if (ppn == nil) != (marked > 0) {
			t.Errorf("ppn %v: option %d is marked", ppn, marked)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	m := model(t)
	good := Planning{App: app(t, m, "bt.B.4"), Overhead: 0.1, AppSeconds: 100}
	for _, c := range []struct {
		change func(*Planning)
		want   string
	}{
		{func(p *Planning) { p.Overhead = 0 }, "overhead"},
		{func(p *Planning) { p.AppSeconds = math.NaN() }, "cannot be planned"},
		{func(p *Planning) { p.Keep = -1 }, "cannot be kept"},
		{func(p *Planning) { p.Minimize = "fun" }, "fun"},
		{func(p *Planning) { p.Minimize = LeastTotal }, "by their total"},
		{func(p *Planning) { p.Checkpoints = 1 }, "with an overhead"},
		{func(p *Planning) { p.Checkpoints, p.Overhead = -1, 0 }, "overhead"},
		{func(p *Planning) { p.MaxNodes = -1 }, "-1 nodes"},
		{func(p *Planning) { p.MaxNodes, p.PPN = 1, []int{1, 2} }, "keeps to 1 nodes"},
		{func(p *Planning) { p.Runs = []AppRun{{1, 32, 9}} }, "only for collective I/O"},
		{func(p *Planning) { p.Runs = []AppRun{{Nodes: 1}} }, "0 seconds on 1 nodes"},
		{func(p *Planning) { p.AppSeconds, p.PPN, p.Runs = 0, []int{2}, []AppRun{{1, 0, 9}} }, "no run of bt.B.4"},
		{func(p *Planning) { p.PPN = []int{5} }, "5 processes per node"},
		{func(p *Planning) { p.Codecs = []string{"rar"} }, "rar"},
		{func(p *Planning) { p.MPI = []string{"lam"} }, "lam"},
	} {
		p := good
		c.change(&p)
		_, err := Compare(m, p)
		var input *fit.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", p, err, c.want)
		}
	}
}

// Fit and predict take well below 10 ms, see docs/PREDICT.md.
func BenchmarkFitPredict(b *testing.B) {
	rows, err := dataset.Measurements()
	if err != nil {
		b.Fatal(err)
	}
	model(b)
	rows = slices.DeleteFunc(rows, func(r dataset.Measurement) bool { return r.Series() != "bt.D mpich" || r.Table != "4.3" })
	for b.Loop() {
		m, err := predict.Fit(rows)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Size(predict.Request{App: app(b, m, "bt.D.324"), Mapping: predict.Blocks(324, 54)}); err != nil {
			b.Fatal(err)
		}
	}
}

// 10,000 configurations: 25 mappings × 2 libraries × 4 codecs × 10 numbers of
// aggregators × 5 buffers.
func BenchmarkPlan(b *testing.B) {
	m := model(b)
	p := Planning{App: app(b, m, "bt.D.256"), Overhead: 0.1, AppSeconds: 7200, IO: predict.FullIO, Codecs: fit.Codecs(), BuffersMiB: []float64{4, 8, 16, 32, 64}}
	for i := range 25 {
		p.PPN = append(p.PPN, 4+5*i)
	}
	for i := range 10 {
		p.Aggregators = append(p.Aggregators, 1+i)
	}
	for b.Loop() {
		options, err := Compare(m, p)
		if err != nil {
			b.Fatal(err)
		}
		if len(options) != 10_000 {
			b.Fatalf("%d configurations", len(options))
		}
	}
}
