// A mix is applications at one storage in virtual time, each of them some processes that read
// or write a file, one operation after the other: the workloads of Lebre (thesis, INPG 2006).
package pfs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"ckpt/image/pfs"
)

// An App is an application whose processes read or write at the same time. Each
// begins its next operation when the one before is answered.
type App struct {
	Name string `json:"name"`
	User string `json:"user,omitempty"`
	// Write says that it writes, otherwise it reads.
	Write bool `json:"write"`
	// Random says that operations are in random order, not by ascending offset.
	Random bool `json:"random,omitempty"`
	// Own says that each process has a file of its own, not all one.
	Own bool `json:"own,omitempty"`
	// Processes work on a node each. Of one file they take operations in turn: process
	// r begins with operation r, and goes on with r + Processes.
	Processes int     `json:"processes"`
	Bytes     int64   `json:"bytes"` // of all processes
	Grain     int64   `json:"grain"` // of one operation
	Start     float64 `json:"start"` // seconds
}

// Limits of an App: far beyond the thesis.
const (
	maxProcesses  = 1 << 16
	maxOperations = 1 << 26
)

func (a *App) check() error {
	switch {
	case a.Processes < 1 || a.Processes > maxProcesses:
		return fmt.Errorf("mix: %s: %d processes, want 1 to %d", a.Name, a.Processes, maxProcesses)
	case a.Grain < 1:
		return fmt.Errorf("mix: %s: operations of %d bytes, want 1 or more", a.Name, a.Grain)
	case a.Bytes < 1 || a.Bytes/a.Grain > maxOperations:
		return fmt.Errorf("mix: %s: %d bytes, want 1 to %d operations", a.Name, a.Bytes, maxOperations)
	case !(a.Start >= 0 && a.Start <= 1e6):
		return fmt.Errorf("mix: %s: start after %v s, want 0 to 1e6", a.Name, a.Start)
	}
	return nil
}

// Options of Run.
type Options struct {
	// Seed decides random orders, and when within Spread a process begins.
	Seed   uint64
	Spread float64 // seconds; default 0.05
	// Think is how many seconds a process lets pass, at most, between an answer and its
	// next operation. Each time is drawn.
	Think float64
	// Scheduler, if not nil, replaces the one of the description.
	Scheduler *pfs.Scheduler
}

// Result is what Run found.
type Result struct {
	Apps     []AppResult `json:"apps"`
	Makespan float64     `json:"makespan"` // seconds from the first start to the last end
	MaxFlow  float64     `json:"max_flow"`
	SumFlow  float64     `json:"sum_flow"`
	// Units are the targets with what their schedulers counted.
	Units []pfs.Unit `json:"units,omitempty"`
}

// AppResult is how an application fared.
type AppResult struct {
	Name       string  `json:"name"`
	Bytes      int64   `json:"bytes"`
	Operations int64   `json:"operations"`
	Start      float64 `json:"start"`
	End        float64 `json:"end"`
	Flow       float64 `json:"flow"` // from its start to its end
	Rate       float64 `json:"rate"` // bytes per second
}

// Run runs applications until all are done. The same input gives the same result.
func Run(ctx context.Context, s *pfs.System, apps []App, o Options) (*Result, error) {
	if o.Scheduler != nil {
		if err := o.Scheduler.Check(); err != nil {
			return nil, fmt.Errorf("mix: %w", err)
		}
	}
	sim := pfs.NewSim(s, pfs.Options{Seed: o.Seed, Scheduler: o.Scheduler})
	m, err := Begin(sim, apps, o)
	if err != nil {
		return nil, err
	}
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	return m.Result(), nil
}

// Alone runs each application by itself, and returns its flow time without others.
func Alone(ctx context.Context, s *pfs.System, apps []App, o Options) ([]float64, error) {
	flows := make([]float64, len(apps))
	for i, a := range apps {
		a.Start = 0
		r, err := Run(ctx, s, []App{a}, o)
		if err != nil {
			return nil, err
		}
		flows[i] = r.Apps[0].Flow
	}
	return flows, nil
}

// A Mix is applications at work in a Sim, beside whatever else works there.
type Mix struct {
	sim  *pfs.Sim
	apps []*running
}

// running is an application at work.
type running struct {
	App
	operations int64
	end        float64
}

// Begin has applications begin at their times. Run the Sim afterwards.
func Begin(sim *pfs.Sim, apps []App, o Options) (*Mix, error) {
	if len(apps) == 0 {
		return nil, errors.New("mix: no applications")
	}
	if o.Spread == 0 {
		o.Spread = 0.05
	}
	m := &Mix{sim: sim}
	if !(o.Spread > 0 && o.Spread <= 1e6) || !(o.Think >= 0 && o.Think <= 1e6) {
		return nil, fmt.Errorf("mix: a spread of %v s, %v s between operations, want 0 to 1e6", o.Spread, o.Think)
	}
	for i := range apps {
		if err := apps[i].check(); err != nil {
			return nil, err
		}
	}
	node := 0
	for i := range apps {
		a := &running{App: apps[i]}
		m.apps = append(m.apps, a)
		a.begin(sim, rand.New(rand.NewPCG(o.Seed, uint64(i))), o, node)
		node += a.Processes
	}
	return m, nil
}

// Result says how the applications fared that are done.
func (m *Mix) Result() *Result {
	r := &Result{Units: m.sim.Units()}
	first, last := m.apps[0].Start, 0.0
	for _, a := range m.apps {
		f := AppResult{Name: a.Name, Bytes: a.Bytes, Operations: a.operations, Start: a.Start, End: a.end, Flow: a.end - a.Start}
		if f.Flow > 0 {
			f.Rate = float64(f.Bytes) / f.Flow
		}
		r.Apps = append(r.Apps, f)
		r.MaxFlow = max(r.MaxFlow, f.Flow)
		r.SumFlow += f.Flow
		first, last = min(first, a.Start), max(last, a.end)
	}
	r.Makespan = last - first
	return r
}

// process is one of an application.
type process struct {
	app    *running
	client *pfs.Client
	file   *pfs.File
	next   int64   // operation, if they are in order
	step   int64   // to the operation after it
	end    int64   // bytes of the file
	order  []int64 // operations that are left, if their order is random
	again  func()  // act, or act later
}

// begin has the processes of an application begin, on nodes of their own.
func (a *running) begin(sim *pfs.Sim, rng *rand.Rand, o Options, node int) {
	spec := pfs.FileSpec{StripeSize: 1 << 20, StripeCount: 1, Name: a.Name, Node: node}
	shared := sim.File(spec)
	var order []int64
	if a.Random {
		order = shuffled(rng, (a.Bytes+a.Grain-1)/a.Grain)
	}
	for rank := range a.Processes {
		p := &process{app: a, file: shared, next: int64(rank), step: int64(a.Processes), end: a.Bytes}
		p.client = sim.Process(node+rank, pfs.Process{App: a.Name, User: a.User, Rank: rank, Burst: a.Bytes})
		switch {
		case a.Own:
			p.own(sim, spec, rank)
			if a.Random {
				p.order = shuffled(rng, (p.end+a.Grain-1)/a.Grain)
			}
		case a.Random:
			p.order = deal(order, rank, a.Processes)
		}
		start := a.Start
		if a.Processes > 1 {
			start += rng.Float64() * o.Spread
		}
		p.again = p.act
		if o.Think > 0 {
			p.again = func() { sim.At(sim.Now()+rng.Float64()*o.Think, p.act) }
		}
		sim.At(start, p.act)
	}
}

// own gives a process a file of its own, with its share of the bytes.
func (p *process) own(sim *pfs.Sim, spec pfs.FileSpec, rank int) {
	a := p.app
	spec.Name, spec.Node, spec.First = fmt.Sprintf("%s.%d", a.Name, rank), spec.Node+rank, rank
	p.file = sim.File(spec)
	p.next, p.step = 0, 1
	n := int64(a.Processes)
	p.end = a.Bytes*int64(rank+1)/n - a.Bytes*int64(rank)/n
}

func shuffled(rng *rand.Rand, n int64) []int64 {
	order := make([]int64, n)
	for i := range order {
		order[i] = int64(i)
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// deal returns every n-th operation, from a rank's first.
func deal(order []int64, rank, n int) []int64 {
	var mine []int64
	for i := rank; i < len(order); i += n {
		mine = append(mine, order[i])
	}
	return mine
}

// act begins the next operation, or ends the process.
func (p *process) act() {
	a := p.app
	at := p.next * a.Grain
	if a.Random {
		at = p.end
		if len(p.order) > 0 {
			at, p.order = p.order[0]*a.Grain, p.order[1:]
		}
	}
	if at >= p.end {
		p.client.Drain(0, p.done)
		return
	}
	p.next += p.step
	a.operations++
	n := min(a.Grain, p.end-at)
	if a.Write {
		p.client.Write(p.file, at, n, p.again)
	} else {
		p.client.Read(p.file, at, n, p.again)
	}
}

func (p *process) done() {
	a := p.app
	a.end = max(a.end, p.client.Now())
}

func sophia(t testing.TB) *pfs.System {
	t.Helper()
	s, err := pfs.Load("sophia")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, s *pfs.System, o Options, apps ...App) *Result {
	t.Helper()
	r, err := Run(context.Background(), s, apps, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func policy(name string, without ...string) Options {
	return Options{Scheduler: &pfs.Scheduler{Policy: name, Without: without}}
}

func TestOperations(t *testing.T) {
	for _, test := range []struct {
		app        App
		operations int64
		files      int
	}{
		{App{Name: "strided", Processes: 3, Bytes: 10 * mib, Grain: mib}, 10, 1},
		{App{Name: "own", Own: true, Processes: 3, Bytes: 10 * mib, Grain: mib, Write: true}, 12, 3},
		{App{Name: "random", Random: true, Processes: 3, Bytes: 10*mib + 1, Grain: mib}, 11, 1},
		{App{Name: "own, random", Own: true, Random: true, Processes: 3, Bytes: 3 * mib, Grain: mib, Start: 2}, 3, 3},
		{App{Name: "short", Processes: 5, Bytes: 1, Grain: mib}, 1, 1},
	} {
		r := run(t, sophia(t), policy("fifo"), test.app)
		a, bytes := r.Apps[0], int64(0)
		for _, f := range r.Units[0].Files {
			bytes += f.Bytes
		}
		if a.Operations != test.operations || bytes != test.app.Bytes || len(r.Units[0].Files) != test.files {
			t.Errorf("%s: %d operations, %d bytes, %d files; want %d, %d, %d", test.app.Name, a.Operations, bytes, len(r.Units[0].Files), test.operations, test.app.Bytes, test.files)
		}
		if a.Flow != a.End-test.app.Start || a.Flow <= 0 || r.Makespan != a.Flow || r.MaxFlow != a.Flow || a.Rate != float64(a.Bytes)/a.Flow {
			t.Errorf("%s: %+v", test.app.Name, r)
		}
	}
}

// TestSeeds has the same seed give the same result, and another another.
func TestSeeds(t *testing.T) {
	a := App{Name: "a", Processes: 8, Bytes: 8 * mib, Grain: 64 * kib}
	b := App{Name: "b", Processes: 8, Bytes: 8 * mib, Grain: 64 * kib, Random: true}
	first := run(t, sophia(t), Options{Seed: 1}, a, b)
	if again := run(t, sophia(t), Options{Seed: 1}, a, b); !reflect.DeepEqual(first, again) {
		t.Error("the same seed gave another result")
	}
	if other := run(t, sophia(t), Options{Seed: 2}, a, b); reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same result")
	}
}

func TestRefuses(t *testing.T) {
	good := App{Name: "a", Processes: 1, Bytes: 1, Grain: 1}
	for _, test := range []struct {
		change func(*App, *Options)
		want   string
	}{
		{func(a *App, _ *Options) { a.Processes = 0 }, "mix: a: 0 processes"},
		{func(a *App, _ *Options) { a.Grain = 0 }, "operations of 0 bytes"},
		{func(a *App, _ *Options) { a.Bytes = math.MaxInt64 }, "want 1 to"},
		{func(a *App, _ *Options) { a.Start = math.NaN() }, "start after NaN s"},
		{func(_ *App, o *Options) { o.Think = math.NaN() }, "NaN s between operations"},
		{func(_ *App, o *Options) { o.Scheduler = &pfs.Scheduler{Policy: "lifo"} }, `unknown policy "lifo"`},
	} {
		a, o := good, Options{}
		test.change(&a, &o)
		if _, err := Run(context.Background(), sophia(t), []App{a}, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
	if _, err := Run(context.Background(), sophia(t), nil, Options{}); err == nil {
		t.Error("nothing was run")
	}
}

// TestAlone runs each application without the others.
func TestAlone(t *testing.T) {
	apps := []App{
		{Name: "a", Processes: 1, Bytes: 57 * mib, Grain: 32 * kib, Start: 1},
		{Name: "b", Processes: 1, Bytes: 114 * mib, Grain: 32 * kib, Write: true},
	}
	flows, err := Alone(context.Background(), sophia(t), apps, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// One seek, and 0.1 ms of latency for each request of 32 KiB.
	for i, want := range []float64{1 + 0.009 + 57*32*0.0001, 2 + 0.009 + 114*32*0.0001} {
		if math.Abs(flows[i]-want) > 1e-6 {
			t.Errorf("%s: %v s, want %v", apps[i].Name, flows[i], want)
		}
	}
	both := run(t, sophia(t), Options{}, apps...)
	if both.Apps[0].Flow <= flows[0] || both.Apps[1].Flow <= flows[1] {
		t.Errorf("together %+v, alone %v", both.Apps, flows)
	}
}

// TestTen holds the sums of the thesis: 94 nodes and 6088 MB, which the disk moves in
// 106.8 s.
func TestTen(t *testing.T) {
	var nodes int
	var bytes int64
	for _, a := range ten() {
		nodes += a.Processes
		bytes += a.Bytes
	}
	if nodes != 94 || bytes != 6088*mib {
		t.Errorf("%d nodes, %d MiB", nodes, bytes/mib)
	}
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// ten returns the ten applications of Lebre's mix (thesis, tables 4.2 and 7.2). The
// sequential ones begin 15 s after the others. Applications of 4 KiB have operations of
// 32 KiB: their client asks for whole requests of the protocol, each of which serves
// eight reads (Lebre 2006, section 7.3).
func ten() []App {
	const late = 15
	return []App{
		{Name: "1 read 2 GB by 32", Processes: 32, Bytes: 2048 * mib, Grain: 128 * kib},
		{Name: "2 write 2 GB by 32", Write: true, Processes: 32, Bytes: 2048 * mib, Grain: 128 * kib},
		{Name: "3 read 256 MB by 16", Processes: 16, Bytes: 256 * mib, Grain: 8 * kib},
		{Name: "4 write 128 MB by 8", Write: true, Processes: 8, Bytes: 128 * mib, Grain: 64 * kib},
		{Name: "5 read 32 MB", Processes: 1, Bytes: 32 * mib, Grain: 32 * kib, Start: late},
		{Name: "6 write 32 MB", Write: true, Processes: 1, Bytes: 32 * mib, Grain: 32 * kib, Start: late},
		{Name: "7 read 4 MB", Processes: 1, Bytes: 4 * mib, Grain: 32 * kib, Start: late},
		{Name: "8 write 4 MB", Write: true, Processes: 1, Bytes: 4 * mib, Grain: 32 * kib, Start: late},
		{Name: "9 read 1 GB", Processes: 1, Bytes: 1024 * mib, Grain: 2 * mib, Start: late},
		{Name: "10 write 512 MB", Write: true, Processes: 1, Bytes: 512 * mib, Grain: 2 * mib, Start: late},
	}
}
