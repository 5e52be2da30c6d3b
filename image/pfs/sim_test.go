package pfs

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ckpt/image/plan"
)

// read makes a description of one target of 100 MiB/s and what is added.
func read(t testing.TB, more string) *System {
	t.Helper()
	s, err := Read(strings.NewReader("name: x\ntargets: {count: 4, rate: 104857600B/s}\n" + more))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// finish runs and returns the time at which an operation was done.
func finish(t *testing.T, sim *Sim, begin func(done func())) float64 {
	t.Helper()
	at := -1.0
	begin(func() { at = sim.Now() })
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return at
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9+want*1e-6 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestTargetsByFreeSpace: files are dealt to targets in turn, until their free space differs by more
// than 17 %: then the full ones get few files, and a file never has a target twice.
func TestTargetsByFreeSpace(t *testing.T) {
	deal := func(free string, stripes int) (files [4]int) {
		s, err := Read(strings.NewReader("name: x\ntargets: {count: 4, rate: 104857600B/s, free: " + free + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		sim := NewSim(s, Options{})
		for i := range 400 {
			f := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: stripes, First: i * stripes})
			had := make(map[*target]bool)
			for _, x := range f.targets {
				had[x] = true
				files[slices.Index(sim.targetsOf(0), x)]++
			}
			if len(had) != stripes {
				t.Fatalf("free %s: a file of %d stripes has %d targets", free, stripes, len(had))
			}
		}
		return files
	}
	if files := deal("[100GiB, 90GiB, 84GiB, 100GiB]", 1); files != [4]int{100, 100, 100, 100} {
		t.Errorf("%v files on targets with about as much space: want them in turn", files)
	}
	files := deal("[100GiB, 10GiB, 100GiB, 100GiB]", 1)
	if files[1] > 25 || files[0] < 100 || files[2] < 100 || files[3] < 100 { // 13 of 400 on average
		t.Errorf("%v files: the target with a tenth of the space gets too many", files)
	}
	if files := deal("[100GiB, 1B, 100GiB, 100GiB]", 3); files[1] != 0 {
		t.Errorf("%d files on a full target", files[1])
	}
}

func TestWriteTime(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		what, more string
		stripes    int
		bytes      int64
		want       float64
	}{
		{"a target", "", 1, 100 * mib, 1},
		{"four targets", "", 4, 100 * mib, 0.25},
		{"the stream of a process", "host: {stream: 52428800B/s}", 4, 100 * mib, 2 + 1./100},
		{"the network of the node", "host: {network: 52428800B/s}", 4, 100 * mib, 2 + 1./100},
		{"a router", "routers: {count: 1, rate: 52428800B/s, cache: 64MiB}", 4, 100 * mib, 2 + 1./100},
		{"a server", "servers: {count: 1, rate: 52428800B/s}", 4, 100 * mib, 2 + 1./100},
		{"a request", "rpc: 1MiB", 1, mib, 0.01},
		{"latency", "host: {latency: 2ms}", 1, mib, 0.012},
		{"requests", "", 1, 4 * mib, 0.04},
		{"a processor of a server beside its target", "servers: {per_request: 1ms}", 1, 4 * mib, 0.001 + 0.04},
		{"a processor that is slower than the target", "servers: {count: 1, per_request: 20ms}", 4, 16 * mib, 16*0.020 + 0.010},
		{"a processor of reads", "servers: {per_read: 20ms}", 1, mib, 0.01},
		{"dirty bytes", "host: {dirty: 50MiB}", 1, 100 * mib, 0.52}, // the chunk of 4 MiB is answered as a whole
		{"a copy", "host: {dirty: 1GiB, copy: 104857600B/s}", 1, 100 * mib, 1},
		{"a cache", "servers: {write_behind: true, cache: 1GiB, cache_rate: 1GiB/s}", 1, 100 * mib, 100. / 1024},
		{"a full cache", "servers: {write_behind: true, cache: 40MiB, cache_rate: 0}", 1, 100 * mib, 0.6},
		{"a lock", "locks: {kind: extent-to-end, grant: 5ms}", 4, 100 * mib, 0.255},
	} {
		sim := NewSim(read(t, test.more), Options{})
		f, c := sim.File(FileSpec{StripeSize: mib, StripeCount: test.stripes}), sim.Client(0)
		near(t, test.what, finish(t, sim, func(done func()) { c.Write(f, 0, test.bytes, done) }), test.want)
	}
}

// TestSeek writes two files in turn to one target.
func TestSeek(t *testing.T) {
	s := read(t, "")
	s.Targets.Seek, s.Targets.PerRequest = 0.1, 0.001
	sim := NewSim(s, Options{})
	var at float64
	for i := range 2 {
		f, c := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 1}), sim.Client(i)
		c.Write(f, 0, 8<<20, func() { at = sim.Now() })
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Chunks of 4 MiB: A B A B, or A A B B.
	near(t, "two files in turn", at, 0.16+16*0.001+2*0.1)
}

// TestLock has two processes write to one file on one target. The second waits
// until the bytes of the first are at the server.
func TestLock(t *testing.T) {
	const mib = 1 << 20
	s := read(t, "locks: {kind: extent-to-end, grant: 1ms, callback: 10ms, per_waiter: 2ms}\nhost: {dirty: 32MiB}")
	sim := NewSim(s, Options{})
	f := sim.File(FileSpec{StripeSize: mib, StripeCount: 1})
	a, b := sim.Client(0), sim.Client(1)
	var first, second, again float64
	a.Write(f, 0, 10*mib, func() { first = sim.Now() })
	b.Write(f, 500*mib, 10*mib, func() { second = sim.Now() })
	sim.At(0.2, func() { a.Write(f, 10*mib, 10*mib, func() { again = sim.Now() }) })
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	near(t, "the first leaves its bytes dirty", first, 0.001)
	near(t, "the second waits for them", second, 0.001+0.1+0.001+0.010+0.002)
	near(t, "the first has lost its lock", again, 0.001+0.1+0.013+0.1+0.013)
	if a.lockWaits != 1 || b.lockWaits != 1 {
		t.Errorf("%d and %d waits, want 1 and 1", a.lockWaits, b.lockWaits)
	}
}

// TestDrop has a process drop what it has written when its lock is called back: 10 MiB at first, and
// no more than it has written since later.
func TestDrop(t *testing.T) {
	const mib = 1 << 20
	sim := NewSim(read(t, "locks: {kind: extent-to-end, drop: 1000MiB/s}\nhost: {dirty: 32MiB}"), Options{})
	f := sim.File(FileSpec{StripeSize: mib, StripeCount: 1})
	a, b := sim.Client(0), sim.Client(1)
	var again, third float64
	a.Write(f, 0, 10*mib, func() {})
	b.Write(f, 500*mib, 5*mib, func() {})
	sim.At(0.2, func() { a.Write(f, 10*mib, 20*mib, func() { again = sim.Now() }) })
	sim.At(0.3, func() { b.Write(f, 505*mib, mib, func() { third = sim.Now() }) })
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	near(t, "the first has its lock again", again, 0.2+0.005)
	near(t, "and has written 20 MiB when it loses it", third, 0.2+0.005+0.2+0.020)
}

// TestOwnLock has one process write on and on, for which it needs the lock once.
func TestOwnLock(t *testing.T) {
	sim := NewSim(read(t, "locks: {kind: extent-to-end, grant: 10ms, callback: 1, per_waiter: 1}"), Options{})
	f, c := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 1}), sim.Client(0)
	at := finish(t, sim, func(done func()) {
		c.Write(f, 0, 10<<20, func() { c.Write(f, 10<<20, 10<<20, done) })
	})
	near(t, "two writes", at, 0.21)
}

func TestRead(t *testing.T) {
	s := read(t, "host: {latency: 2ms}")
	s.Targets.ReadRate *= 2
	sim := NewSim(s, Options{})
	f, c := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 4}), sim.Client(0)
	at := finish(t, sim, func(done func()) { c.Read(f, 0, 16<<20, done) })
	near(t, "four targets", at, 0.02+0.002)
}

// TestFactor takes the rate of a target between the entries of its table.
func TestFactor(t *testing.T) {
	targets := Targets{Sharing: []Sharing{{2, 0.8}, {8, 0.2}}}
	for writers, want := range map[int]float64{0: 1, 1: 1, 2: 0.8, 4: 0.4, 8: 0.2, 100: 0.2} {
		near(t, "factor", targets.factor(writers), want)
	}
}

// TestDeterministic runs twice what has much at the same time.
func TestDeterministic(t *testing.T) {
	s := mustLoad(t, "eos-spider2")
	s.Targets.Stragglers = Stragglers{Share: 0.3, Factor: 0.5}
	p := mustPlan(t, sources(64, 4, 40<<20), plan.Settings{Layout: plan.Shared, Strategy: plan.Individual, P1: true})
	run := func(seed uint64) *Result {
		r, err := Run(context.Background(), s, []Job{{Plan: p}, {Plan: p, Start: 0.1}}, Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run(1), run(1)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("two runs differ:\n%+v\n%+v", a, b)
	}
	if reflect.DeepEqual(a, run(2)) && reflect.DeepEqual(a, run(3)) {
		t.Errorf("other slow targets make no difference: %v", a.Jobs[0].Seconds)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := mustPlan(t, sources(64, 1, 1<<30), plan.Settings{Layout: plan.Shared, P1: true})
	_, err := Run(ctx, mustLoad(t, "eos-spider2"), []Job{{Plan: p}}, Options{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestRunRefuses(t *testing.T) {
	s := mustLoad(t, "eos-spider2")
	p := mustPlan(t, sources(4, 1, 4<<20), plan.Settings{Layout: plan.Shared, P1: true})
	perRank := mustPlan(t, sources(4, 1, 4<<20), plan.Settings{})
	for _, test := range []struct {
		jobs []Job
		o    Options
		want string
	}{
		{nil, Options{}, "no jobs"},
		{[]Job{{}}, Options{}, "job 0: no plan"},
		{[]Job{{Plan: p}, {Plan: p, Start: -1}}, Options{}, "job 1: start of -1"},
		{[]Job{{Plan: p}}, Options{Background: 1}, "background of 1"},
		{[]Job{{Plan: p}}, Options{Background: math.NaN()}, "background of NaN"},
		{[]Job{{Plan: perRank, Array: &Array{1, 1}}}, Options{}, "shared layout"},
		{[]Job{{Plan: p, Array: &Array{3, 4096}}}, Options{}, "must divide 4 ranks"},
		{[]Job{{Plan: p, Array: &Array{2, 4097}}}, Options{}, "segments of 4097 bytes"},
	} {
		if _, err := Run(context.Background(), s, test.jobs, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
