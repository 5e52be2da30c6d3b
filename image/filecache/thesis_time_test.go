package filecache_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// simple is a machine of which single times can be added up.
func simple(t *testing.T) *Machine {
	t.Helper()
	m := mustLoad(t, "lap06")
	m.Memory = Memory{Access: 1e-6, Persist: 3e-6, Bandwidth: 4e9, Divisor: 4, Line: 64, Outstanding: 4}
	m.Network = Network{Rate: 1e9, Latency: 10e-6, Local: 2e-6, Copy: 1e9}
	m.Manager = Manager{Local: 5e-6, Remote: 7e-6}
	return m
}

// alone returns how long one process, on the first of two nodes, is busy with a file in
// the cache.
func alone(t *testing.T, p Levels, do func(k *cache, p *process)) float64 {
	t.Helper()
	c := newCluster(simple(t), 2, 2)
	k := c.cache(2000, flags{create: true, remove: true}, p)
	seconds := -1.0
	err := c.run(context.Background(), 1, func(p *process) {
		k.open(p)
		if p.rank == 0 {
			before := c.sim.Now()
			do(k, p)
			seconds = c.sim.Now() - before
		}
		k.close(p)
	})
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// TestRequest adds up the times of single requests, in microseconds.
func TestRequest(t *testing.T) {
	const (
		us    = 1e6
		there = 10 + 0.064 // a message that has only a header
		local = 2 + 0.064
	)
	// 128 bytes are two lines, for which a core waits together.
	memory := 1 + 0.128
	for _, c := range []struct {
		what   string
		levels Levels
		do     func(k *cache, p *process)
		want   float64
	}{
		{"a local read", Levels{}, func(k *cache, p *process) { k.read(p, 0, 128) }, local + 5 + memory + local + 0.128},
		{"a remote read", Levels{}, func(k *cache, p *process) { k.read(p, 1000, 128) }, there + 7 + memory + there + 0.128},
		{"a local write", Levels{}, func(k *cache, p *process) { k.write(p, 0, 128) }, local + 0.128 + 5 + memory + 3 + local},
		{"a remote write", Levels{}, func(k *cache, p *process) { k.write(p, 1872, 128) }, there + 0.128 + 7 + memory + 3 + there},
		{"over two fragments", Levels{}, func(k *cache, p *process) { k.read(p, 872, 256) }, there + 7 + memory + there + 0.128},
		{"many lines", Levels{}, func(k *cache, p *process) { k.read(p, 0, 640) }, local + 5 + 2.5 + 0.64 + local + 0.64},
		{"a record", Levels{Records: true}, func(k *cache, p *process) { k.write(p, 0, 128) },
			(1 + 0.192 + 3) + local + 0.128 + 5 + memory + 3 + local + (1 + 0.064 + 3)},
		{"a journal", Levels{Replicas: 1}, func(k *cache, p *process) { k.write(p, 0, 128) },
			local + 0.128 + 5 + memory + 3 + (3.5 + there + 0.128 + 7 + 1 + 0.192 + 3 + there) + local},
	} {
		if got := alone(t, c.levels, c.do) * us; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %.4f µs, want %.4f", c.what, got, c.want)
		}
	}
}

// TestQueue has all processes ask one manager: it handles one request after the other.
func TestQueue(t *testing.T) {
	m := simple(t)
	c := newCluster(m, 3, 2)
	k := c.cache(3000, flags{create: true, remove: true}, Levels{})
	var last float64
	err := c.run(context.Background(), 4, func(p *process) {
		k.open(p)
		before := c.sim.Now()
		k.read(p, 2000, 64)
		last = max(last, c.sim.Now()-before)
		k.close(p)
	})
	if err != nil {
		t.Fatal(err)
	}
	// Four requests come from the same node and find the manager waiting. Eight come from
	// others while it works.
	want := 2 + 0.064 + 4*(5+1.064) + 8*(7+1.064) + 10 + 0.128
	if got := last * 1e6; math.Abs(got-want) > 0.01 {
		t.Errorf("the last of 12 requests took %.3f µs, want %.3f", got, want)
	}
	if q := k.managers[2].most; q != 10 {
		t.Errorf("%d requests waited, want 10", q)
	}
}

// TestNoTraffic: a file that is made and removed never reaches the storage. One that
// stays does once, and one that exists twice.
func TestNoTraffic(t *testing.T) {
	t.Parallel()
	w := Walk{Iterations: 3, Size: 1e6, Bytes: 512}
	removed := w
	removed.Remove = true
	blocks := Blocks{Requests: 1000, Bytes: 1000, Write: true}
	for _, c := range []struct {
		what string
		w    workload
		want int64
	}{{"made and removed", removed, 0}, {"made", blocks, 1e6}, {"changed", w, 2e6}, {"read", Blocks{Requests: 1000, Bytes: 1000}, 1e6}} {
		if got := mustRun(t, c.w, Setup{Cached: true}).Stored; got != c.want {
			t.Errorf("%s: %d bytes from and to the storage, want %d", c.what, got, c.want)
		}
	}
}

// TestSame runs everything twice.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, w := range []workload{Blocks{Requests: 500, Bytes: 900}, Walk{Iterations: 5, Size: 1e6, Bytes: 512, Steps: 1000, SyncEvery: 2}, Images{Width: 300, Height: 300, Passes: 3, Buffer: 512, Overlap: true}} {
		for _, cached := range []bool{false, true} {
			s := Setup{Nodes: 3, PerNode: 4, Cached: cached, Levels: Levels{Records: true, Replicas: 2, Versions: true}}
			if a, b := mustRun(t, w, s), mustRun(t, w, s); !reflect.DeepEqual(a, b) || a.Requests == 0 || a.Seconds <= 0 {
				t.Errorf("%+v: two runs differ:\n%+v\n%+v", w, a, b)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := walk.Run(ctx, Setup{Machine: mustLoad(t, "lap06"), Cached: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		w    workload
		s    Setup
		want string
	}{
		{walk, Setup{Nodes: 7}, "7 nodes: lap06 has 1 to 6"},
		{walk, Setup{PerNode: 100}, "100 ranks on each node"},
		{walk, Setup{Nodes: 2, Levels: Levels{Replicas: 2}}, "must be 0 to 1"},
		{Walk{}, Setup{}, "walk of 0 iterations"},
		{Blocks{Requests: 10, Bytes: 1}, Setup{}, "10 requests"},
		{Images{Width: 2, Height: 2, Passes: 1, Buffer: 512}, Setup{}, "image of 2 by 2"},
	} {
		c.s.Machine = mustLoad(t, "lap06")
		if _, err := c.w.Run(context.Background(), c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.w, err, c.want)
		}
	}
}
