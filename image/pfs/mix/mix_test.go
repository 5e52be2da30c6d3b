package mix

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"

	"ckpt/image/pfs"
)

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
