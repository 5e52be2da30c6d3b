package service

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/zones"
)

const heat = `
name: heat
kernel: generic
procs: any
classes:
  big: {iterations: 100, params: {n: 4000000}}
arrays:
  - {name: t,     elem: float64, count: "ceildiv(n, p)", rewrite: 1}
  - {name: kappa, elem: float64, count: "ceildiv(n, p)", rewrite: 0}
  - {name: half,  elem: float64, count: "ceildiv(n, p)", rewrite: 0.25, used: 0.5}
`

func heatOn(t *testing.T, np int) *dataset.Instance {
	t.Helper()
	w, err := dataset.ParseWorkload([]byte(heat), "heat")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance("big", np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// extents is how many bytes of a region are stored if its leading part is not zero, or has
// changed.
func extents(size, part int64) int64 {
	return min(zones.PageRound(size), (part+extentBytes-1)/extentBytes*extentBytes)
}

// A machine makes jobs of heat with known parameters: how much of half is really used, the
// packing of a codec, and what checkpoints cost.
type machine struct {
	used, ratio      float64
	perFile, perByte float64
	perRank, noise   float64
	fixed            float64 // of a checkpoint of any size
	coordination     func(ranks float64) float64
	rng              *rand.Rand
}

// job is what a job on the machine measures, of some checkpoints.
func (m *machine) job(t *testing.T, np, checkpoints int) dataset.JobRun {
	inst := heatOn(t, np)
	run := dataset.JobRun{Job: fmt.Sprintf("heat-%d", np), App: "heat", Class: "big", Engine: dataset.Ckpt, MPI: "mpich", NP: np, Mapping: []int{np},
		Mode: "coordinated", Codec: "zstd", Layout: "per-rank", Incremental: true, Workload: heat, Storage: "/scratch"}
	for i := range checkpoints {
		run.Checkpoints = append(run.Checkpoints, m.checkpoint(inst, i))
	}
	return run
}

func (m *machine) checkpoint(inst *dataset.Instance, i int) dataset.JobCheckpoint {
	ranks := int64(inst.NP)
	c := dataset.JobCheckpoint{Number: i + 1, Ranks: inst.NP, Iterations: 5, Full: i == 0, Files: inst.NP}
	add := func(name string, size, used, changed int64) {
		part := changed
		if i%cycle == 0 {
			part = used
		}
		unpacked := extents(size, part)
		stored := int64(float64(unpacked) * m.ratio)
		c.Regions = append(c.Regions, dataset.JobRegion{Name: name, Zone: zones.Data, Memory: zones.PageRound(size) * ranks, Unpacked: unpacked * ranks, Stored: stored * ranks})
		c.Stored.Data += stored * ranks
	}
	for _, a := range inst.Arrays {
		used := a.Used
		if a.Name == "half" {
			used = m.used
		}
		add(a.Name, a.Bytes(), int64(used*float64(a.Bytes())), int64(min(used, a.Rewrite)*float64(a.Bytes())))
	}
	add("runtime", inst.Runtime, inst.Runtime, zones.PageSize)
	c.Overhead = int64(inst.NP) * 4 * zones.PageSize
	c.Stored.Shared = zones.PageSize
	c.StoredBytes = c.Stored.Data + c.Stored.Shared + c.Overhead
	if i == 0 {
		c.Stored.Library = 25 << 20
	}
	jitter := func() float64 { return math.Exp(m.noise * m.rng.NormFloat64()) }
	c.CoordinationS = m.perRank * float64(ranks) * jitter()
	c.ManagementS = m.perRank / 2 * float64(ranks) * jitter()
	if m.coordination != nil {
		c.CoordinationS = m.coordination(float64(ranks)) * jitter()
	}
	c.StorageS = (m.fixed + m.perFile*float64(c.Files) + m.perByte*float64(c.StoredBytes+c.Stored.Library)) * jitter()
	c.PauseS = c.LatencyS()
	return c
}

func newMachine(seed uint64) *machine {
	return &machine{used: 0.5, ratio: 0.7, perFile: 0.004, perByte: 1 / 150e6, perRank: 0.0004, noise: 0.02, rng: rand.New(rand.NewPCG(seed, 1))}
}

func predicted(t *testing.T, f *Fit, np int) (*Size, Job) {
	t.Helper()
	j := Job{Instance: heatOn(t, np), App: "heat", Class: "big", NP: np, Mapping: []int{np}, MPI: "mpich", Codec: "zstd", Layout: "per-rank"}
	return f.Size(j), j
}

func off(a fit.Range, v int64) float64 { return a.Value/float64(v) - 1 }

// TestSize predicts a larger job from three small ones, where the spec is right about the
// used share of an array and where it is not.
func TestSize(t *testing.T) {
	for _, used := range []float64{0.5, 0.8} {
		m := newMachine(1)
		m.used = used
		f := New([]dataset.JobRun{m.job(t, 4, 3), m.job(t, 8, 3), m.job(t, 16, 3)})
		if err := f.Check(); err != nil {
			t.Fatal(err)
		}
		s, _ := predicted(t, f, 32)
		large := m.job(t, 32, 2)
		for i, c := range []Checkpoint{s.Full, s.Next} {
			want := large.Checkpoints[i]
			if d := off(c.Total, want.StoredBytes); math.Abs(d) > 0.03 || !c.Total.Contains(float64(want.StoredBytes)) || c.Files != 32 {
				t.Errorf("used share %g, checkpoint %d: %+v, stored %d, off by %.2f %%", used, i+1, c, want.StoredBytes, 100*d)
			}
		}
		if s.Library.Value != 25<<20 || s.Extrapolation != 2 || s.Assumed || !s.Measured {
			t.Errorf("%+v", s)
		}
	}
}

// TestWithoutJobs: the spec alone gives a size, with a wide interval.
func TestWithoutJobs(t *testing.T) {
	var f *Fit
	s, j := predicted(t, f, 8)
	want := newMachine(1).job(t, 8, 2)
	if s.Measured || !s.Assumed || !s.Full.Total.Contains(float64(want.Checkpoints[0].StoredBytes)) || s.Full.Total.Half() < 0.1*s.Full.Total.Value {
		t.Errorf("%+v, stored %d", s, want.Checkpoints[0].StoredBytes)
	}
	if tt := f.Time(&j, &s.Full, s.Library, false, 0); !tt.Default || tt.Total.High < 4*tt.Total.Value || tt.Total.Low > tt.Total.Value/4 {
		t.Errorf("%+v", tt)
	}
}

// TestOtherCodec: a codec that no job measured has an assumed ratio, no codec a known one.
func TestOtherCodec(t *testing.T) {
	m := newMachine(1)
	f := New([]dataset.JobRun{m.job(t, 4, 3), m.job(t, 8, 3)})
	_, j := predicted(t, f, 8)
	j.Codec = "none"
	raw := f.Size(j)
	m.ratio = 1
	if want := m.job(t, 8, 2).Checkpoints[0].Stored.Data; raw.Assumed || math.Abs(off(raw.Full.Data, want)) > 0.01 {
		t.Errorf("%+v, want %d", raw, want)
	}
	j.Codec = "s2"
	if s2 := f.Size(j); !s2.Assumed || s2.Full.Data.Half() < 0.2*s2.Full.Data.Value {
		t.Errorf("%+v", s2)
	}
}

// TestRefresh: memory that never changes is stored again in each sixteenth checkpoint,
// which is no measure of an incremental one.
func TestRefresh(t *testing.T) {
	m := newMachine(1)
	long, short := New([]dataset.JobRun{m.job(t, 4, 33)}), New([]dataset.JobRun{m.job(t, 4, 3)})
	a, _ := predicted(t, long, 4)
	b, _ := predicted(t, short, 4)
	if math.Abs(a.Next.Data.Value/b.Next.Data.Value-1) > 1e-9 {
		t.Errorf("incremental: %.0f after 33 checkpoints, %.0f after 3", a.Next.Data.Value, b.Next.Data.Value)
	}
	sum := 0.0
	for i := range 33 {
		sum += float64(m.checkpoint(heatOn(t, 4), i).StoredBytes)
	}
	if mean := a.Mean(33); math.Abs(mean/(sum/33)-1) > 0.02 {
		t.Errorf("mean %.0f, stored %.0f", mean, sum/33)
	}
}

// TestShare: stored extents bound a share from both sides.
func TestShare(t *testing.T) {
	const size = 10 * extentBytes
	for _, want := range []float64{0.05, 0.33, 0.61, 0.97} {
		var s Share
		for _, n := range []float64{size, size * 7 / 3, size * 31} {
			s.measure(math.Ceil(want*n/extentBytes)*extentBytes, n, -1)
		}
		if s.Low > want || s.High < want || s.High-s.Low > 0.01 {
			t.Errorf("share %g: between %g and %g", want, s.Low, s.High)
		}
		bytes, half := s.stored(size*100, -1)
		if math.Abs(bytes-want*size*100) > half+extentBytes {
			t.Errorf("share %g: %g ± %g bytes", want, bytes, half)
		}
	}
	var none Share
	none.measure(0, size, 0)
	if bytes, _ := none.stored(size, 0); bytes != 0 || !none.Spec {
		t.Errorf("%+v: %g bytes", none, bytes)
	}
}

// TestTimes: the parts of a latency come back from jobs with known parameters, with
// some checkpoints that the machine disturbed by a factor of ten.
func TestTimes(t *testing.T) {
	inside := 0
	const trials = 100
	for seed := range uint64(trials) {
		m := newMachine(seed)
		m.noise = 0.1
		var runs []dataset.JobRun
		for _, np := range []int{4, 9, 16} {
			run := m.job(t, np, 6)
			run.Checkpoints[3].StorageS *= 10
			runs = append(runs, run)
		}
		f := New(runs)
		s, j := predicted(t, f, 16)
		got := f.Time(&j, &s.Next, fit.Range{}, false, 0)
		m.noise = 0
		want := m.job(t, 16, 2).Checkpoints[1]
		if math.Abs(got.Storage/want.StorageS-1) > 0.35 || math.Abs(got.Coordination/want.CoordinationS-1) > 0.35 {
			t.Errorf("seed %d: storage %.3f s for %.3f, coordination %.4f for %.4f", seed, got.Storage, want.StorageS, got.Coordination, want.CoordinationS)
		}
		m.noise = 0.1
		c := m.job(t, 16, 2).Checkpoints[1]
		if got.Total.Contains(c.LatencyS()) {
			inside++
		}
	}
	if inside < 90 {
		t.Errorf("%d of %d latencies are inside their intervals", inside, trials)
	}
}

// TestRate: enough checkpoints of different sizes tell files from bytes, and both from what a
// checkpoint of any size costs.
func TestRate(t *testing.T) {
	m := newMachine(7)
	m.fixed = 0.02
	f := New([]dataset.JobRun{m.job(t, 2, 6), m.job(t, 8, 6), m.job(t, 32, 6), m.job(t, 128, 6)})
	for _, w := range []Load{{Files: 16, Bytes: 50e6}, {Files: 64, Bytes: 50e6}, {Files: 16, Bytes: 200e6}, {Files: 128, Bytes: 100e6}} {
		want := m.fixed + m.perFile*w.Files + m.perByte*w.Bytes
		if got := f.Times.of(&f.Times.Storage, w).Value; math.Abs(got/want-1) > 0.15 {
			t.Errorf("%+v: %g s, want %g", w, got, want)
		}
	}
	s, j := predicted(t, f, 8)
	want := m.fixed + 8*m.perFile
	if fast := f.Time(&j, &s.Next, fit.Range{}, false, 1e12); math.Abs(fast.Storage/want-1) > 0.5 {
		t.Errorf("on storage without limit: %g s, want %g for the files", fast.Storage, want)
	}
}

// TestGrowth: whatever way coordination grows, three small jobs predict it far beyond them; a
// law that is linear in the ranks is taken where it was seen, and where it was not the interval
// tells.
func TestGrowth(t *testing.T) {
	for name, of := range map[string]func(p float64) float64{
		"constant":  func(float64) float64 { return 0.02 },
		"logarithm": func(p float64) float64 { return 0.005 + 0.004*math.Log2(p) },
		"linear":    func(p float64) float64 { return 0.002 + 0.004*p },
	} {
		const trials = 30
		inside, median := 0, []float64{}
		for seed := range uint64(trials) {
			m := newMachine(seed)
			m.noise, m.coordination = 0.08, of
			f := New([]dataset.JobRun{m.job(t, 4, 4), m.job(t, 9, 4), m.job(t, 16, 4)})
			s, j := predicted(t, f, 64)
			got := f.Time(&j, &s.Next, fit.Range{}, false, 0)
			c := m.job(t, 64, 2).Checkpoints[1]
			if got.Total.Contains(c.LatencyS()) {
				inside++
			}
			median = append(median, math.Abs(got.Coordination/of(64)-1))
			if got.TooFar != nil || f.Time(&Job{NP: 16*fit.Farthest + 1}, &s.Next, fit.Range{}, false, 0).TooFar == nil {
				t.Error("a time is refused within 64 times of what was measured, or not beyond")
			}
		}
		if e := Median(median); inside < 27 || e > 0.3 {
			t.Errorf("%s: %d of %d inside, coordination off by %.0f %%", name, inside, trials, 100*e)
		}
	}
}

// TestParts: a group pays the fixed part of a checkpoint, whoever measured it.
func TestParts(t *testing.T) {
	m := newMachine(5)
	m.fixed, m.perFile = 0.1, 0
	runs := []dataset.JobRun{m.job(t, 4, 6), m.job(t, 9, 6), m.job(t, 16, 6)}
	f := New(runs)
	one := Checkpoint{Total: fit.Exactly(1 << 20), Files: 1}
	got := f.Time(&Job{Part: true}, &one, fit.Range{}, false, 0)
	if want := m.fixed + m.perByte*(1<<20); math.Abs(got.Storage/want-1) > 0.2 {
		t.Errorf("a group of one rank stores in %g s, want %g", got.Storage, want)
	}
	wide := got.Total.High / got.Total.Value
	for i := range runs {
		for k := range runs[i].Checkpoints {
			runs[i].Checkpoints[k].Ranks = runs[i].NP / 2
		}
	}
	measured := New(runs).Time(&Job{Part: true}, &one, fit.Range{}, false, 0)
	if measured.Total.High/measured.Total.Value >= wide {
		t.Errorf("groups that were timed are as uncertain as others: %+v", measured.Total)
	}
}

// TestFarTimes: a linear law that was seen goes on without a step, and then as a tree does.
func TestFarTimes(t *testing.T) {
	times := Times{NP: Range{4, 16}}
	l := Line{Law: Linear, Coef: []float64{0, 1}}
	last := 0.
	for p := 1.; p < 1e6; p *= 1.1 {
		v := times.of(&l, Load{Ranks: p}).Value
		if v <= last || p <= reach*16 && v != p || v > last*1.11+1 {
			t.Errorf("%g ranks: %g after %g", p, v, last)
		}
		last = v
	}
	if last > 3000 {
		t.Errorf("a million ranks take %g times as long as one", last)
	}
}

// TestAsync: asynchronous checkpoints pause the application for a copy only.
func TestAsync(t *testing.T) {
	const copyRate = 2e9
	m := newMachine(3)
	var runs []dataset.JobRun
	for _, np := range []int{4, 8, 16} {
		run := m.job(t, np, 4)
		run.Async = true
		for i := range run.Checkpoints {
			c := &run.Checkpoints[i]
			c.Memory.Data = heatOn(t, np).DataBytes() * int64(np)
			c.PauseS = c.CoordinationS + float64(c.Memory.Data)/copyRate
		}
		runs = append(runs, run)
	}
	f := New(runs)
	if f.Times.Copy == nil || math.Abs(f.Times.of(f.Times.Copy, Load{Bytes: 100e6}).Value*copyRate/100e6-1) > 0.05 {
		t.Fatalf("%+v", f.Times.Copy)
	}
	s, j := predicted(t, f, 8)
	got := f.Time(&j, &s.Full, s.Library, true, 0)
	if got.Pause.Value > got.Total.Value/2 || !(got.Pause.Low > 0 && got.Pause.Low < got.Pause.Value) {
		t.Errorf("%+v", got)
	}
}

// TestFiles counts the files of each layout.
func TestFiles(t *testing.T) {
	for _, tt := range []struct {
		layout                       string
		np, nodes, aggregators, want int
	}{{"per-rank", 8, 2, 0, 8}, {"aggregated", 8, 2, 0, 2}, {"aggregated", 8, 2, 3, 3}, {"shared", 8, 2, 3, 1}} {
		if got := Files(tt.layout, tt.np, tt.nodes, tt.aggregators); got != tt.want {
			t.Errorf("%+v: %d files", tt, got)
		}
	}
}

// TestCheck refuses models that no jobs make.
func TestCheck(t *testing.T) {
	m := newMachine(1)
	for name, harm := range map[string]func(*Fit){
		"share above 1":        func(f *Fit) { f.Apps[0].Regions[0].Used.High = 2 },
		"share upside down":    func(f *Fit) { f.Apps[0].Regions[0].Used = Share{Low: 0.5, High: 0.4} },
		"nameless application": func(f *Fit) { f.Apps[0].Name = "" },
		"no ranks":             func(f *Fit) { f.Apps[0].Points[0].NP = 0 },
		"negative size":        func(f *Fit) { f.Apps[0].Points[0].Full = -1 },
		"ratio without ranks":  func(f *Fit) { f.Apps[0].Regions[0].Packing["zstd"].Full.NP = nil },
		"negative rate":        func(f *Fit) { f.Times.Storage.Coef[1] = -1 },
		"no coefficients":      func(f *Fit) { f.Times.Storage.Coef = nil },
		"segments cut":         func(f *Fit) { f.Segments["mpich"].Next = nil },
		"no segment":           func(f *Fit) { f.Segments["mpich"] = nil },
		"library of 0":         func(f *Fit) { f.Library[0] = 0 },
		"missing region":       func(f *Fit) { f.Apps[0].Regions[0] = nil },
	} {
		f := New([]dataset.JobRun{m.job(t, 4, 3)})
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var read Fit
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		if err := read.Check(); err != nil {
			t.Errorf("sound model: %v", err)
		}
		harm(&read)
		if read.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestAutoMayPack: where auto stored all extents raw, or none, the next job may do the other.
func TestAutoMayPack(t *testing.T) {
	for _, measured := range []float64{1, 0.7} {
		r := &Region{Name: "u", Packing: map[string]*Packing{}}
		for _, np := range []int{4, 9, 16} {
			r.packing("auto").Next.add(np, measured*1e6, 1e6, 1)
		}
		if got := r.ratio("auto", 25, 1, false); math.Abs(got.Value-measured) > 1e-9 || got.Low > 0.7 || got.High < 1 {
			t.Errorf("%g: %+v", measured, got)
		}
	}
	for _, v := range []float64{100, 100 / 1.26, 126} {
		if !AutoStored(fit.Range{Value: 100, Low: 99, High: 101}).Contains(v) {
			t.Errorf("%g is not possible", v)
		}
	}
}
