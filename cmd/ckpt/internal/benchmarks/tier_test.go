package benchmarks

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

func schemesOf(t *testing.T, texts ...string) (list []nodes.Scheme) {
	t.Helper()
	for _, text := range texts {
		s, err := nodes.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// small is a measurement in memory, on a clock that goes on by a second with every look at
// it.
func small(t *testing.T, fsys vfs.FS, ranks, nodes int, each int64, rounds int, schemes ...string) (*tierBench, error) {
	t.Helper()
	now := 0.0
	b := &tierBench{Ranks: ranks, Nodes: nodes, Rounds: rounds, local: "/nodes/{node}", store: "/store", Scratch: durable.Scratch{FS: fsys},
		progress: func(int64) {}, now: func() float64 { now++; return now }}
	return b, b.begin(each, schemesOf(t, schemes...))
}

// six has six nodes, and every kind of scheme.
func six(t *testing.T, fsys vfs.FS) *tierBench {
	t.Helper()
	b, err := small(t, fsys, 12, 6, 1<<20, 2, "partner", "partner:2", "xor:3", "rs:4+2")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names lists all files and directories below one.
func names(t *testing.T, fsys vfs.FS, dir string) (list []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if list = append(list, name); e.IsDir() {
			list = append(list, names(t, fsys, name)...)
		}
	}
	return list
}

// TestTierWays: every way is saved, read and, where anything protects it, recovered; redundancy
// is what the scheme says, in the order of its cost. Nothing is left.
func TestTierWays(t *testing.T) {
	fsys := memfs.New()
	r := six(t, fsys)
	told := int64(0)
	count := make(chan int64)
	over := make(chan struct{})
	go func() {
		for n := range count {
			told += n
		}
		close(over)
	}()
	r.progress = func(n int64) { count <- n }
	err := r.run(context.Background())
	close(count)
	<-over
	if err != nil {
		t.Fatal(err)
	}
	if told < r.total()*9/10 || told > r.total()*12/10 {
		t.Errorf("progress was told %d bytes of %d", told, r.total())
	}
	want := map[string]float64{wayLocal: 0, "partner": 1, "partner:2": 2, "xor:3": 0.5, "rs:4+2": 0.5, wayTwice: 1}
	for name, share := range want {
		w := r.way(name)
		if w == nil || len(w.Saves) != 2 || len(w.Reads) != 2 {
			t.Fatalf("%s: %+v", name, w)
		}
		// Units of parity are as long as a quarter of these small files.
		if w.Redundancy < share*0.95 || w.Redundancy > share*1.2+0.02 {
			t.Errorf("%s writes %.3f of redundancy, want %.3f", name, w.Redundancy, share)
		}
		if protected := name != wayLocal && name != wayTwice; (w.Recovery != nil) != protected || protected && w.Recovered < 2<<20 {
			t.Errorf("%s: recovered %d bytes, %v", name, w.Recovered, w.Recovery)
		}
	}
	if s := r.way(wayStore); s == nil || s.Recovery == nil || s.Written < 12<<20 {
		t.Errorf("store: %+v", s)
	}
	if a, b, c := r.way(wayLocal).Written, r.way("partner").Written, r.way("partner:2").Written; a > b || b > c {
		t.Errorf("none, one and two copies take %d, %d and %d bytes", a, b, c)
	}
	if len(r.Ratios) != 8 {
		t.Errorf("%d ratios: %+v", len(r.Ratios), r.Ratios)
	}
	if left := names(t, fsys, "/"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestHolds: a ratio holds when it is within its bounds.
func TestHolds(t *testing.T) {
	b := &tierBench{Ways: []*tierWay{{Name: wayLocal, Save: 2, Read: 1}, {Name: "partner", scheme: schemesOf(t, "partner")[0], Save: 6},
		{Name: wayTwice, Save: 4}, {Name: wayHalf, Read: 0.5}, {Name: wayStore, Save: 8}}}
	b.compare()
	for name, want := range map[string]bool{
		"time to save, partner by local": true, "time to save, partner by local twice": false, "time, reading by saving, local": true,
		"time of reading, half the bytes by all": true, "time to save, local by store": true,
	} {
		i := slices.IndexFunc(b.Ratios, func(x tierRatio) bool { return x.Name == name })
		if i < 0 || b.Ratios[i].Holds != want {
			t.Errorf("%s: %d of %+v", name, i, b.Ratios)
		}
	}
}

// TestNothingLeft fails operations in turn, and ends the run in the middle: it leaves
// nothing behind.
func TestNothingLeft(t *testing.T) {
	three := func(fsys vfs.FS) *tierBench {
		b, err := small(t, fsys, 3, 3, 64<<10, 1, "partner", "xor:3")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	count := memfs.WithFault(memfs.New(), memfs.Fault{})
	if err := three(count).run(context.Background()); err != nil {
		t.Fatal(err)
	}
	ops := len(count.Ops())
	for at := 1; at < ops; at += 1 + ops/60 {
		disk := memfs.New()
		fsys := memfs.WithFault(disk, memfs.Fault{At: at, Err: syscall.EIO})
		err := three(fsys).run(context.Background())
		left := names(t, disk, "/")
		if op := fsys.Ops()[at-1]; op.Name == "remove" || op.Name == "readdir" {
			continue // what cannot be removed stays
		}
		if len(left) > 0 {
			t.Errorf("operation %d failed (%v): left behind: %v", at, err, left)
		}
	}
	disk := memfs.New()
	ctx, cancel := context.WithCancel(context.Background())
	b := three(disk)
	b.progress = func(int64) { cancel() }
	if err := b.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left := names(t, disk, "/"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// scarce is a file system with little space.
type scarce struct {
	vfs.FS
	free map[string]int64 // by the beginning of names
}

func (s scarce) Free(name string) (int64, error) {
	for prefix, n := range s.free {
		if strings.HasPrefix(name, prefix) {
			return n, nil
		}
	}
	return 1 << 40, nil
}

// TestSpace: a run that does not fit is refused before it writes.
func TestSpace(t *testing.T) {
	for name, free := range map[string]map[string]int64{
		"store": {"/store": 0}, "a node": {"/nodes/1": 0},
	} {
		fsys := memfs.New()
		err := six(t, scarce{fsys, free}).run(context.Background())
		if !errors.Is(err, durable.ErrStorageFull) || !strings.Contains(err.Error(), "MiB") {
			t.Errorf("%s: %v", name, err)
		}
		if left := names(t, fsys, "/"); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}

// TestMistakes: ranks, nodes and schemes that do not go together are refused.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		ranks, nodes, rounds int
		each                 int64
		scheme               string
	}{
		"more nodes than ranks": {12, 13, 1, 1 << 20, "partner"},
		"no rank":               {0, 6, 1, 1 << 20, "partner"},
		"no bytes":              {12, 6, 1, 0, "partner"},
		"no round":              {12, 6, 0, 1 << 20, "partner"},
		"a scheme for more":     {12, 6, 1, 1 << 20, "rs:6+2"},
	} {
		if _, err := small(t, memfs.New(), c.ranks, c.nodes, c.each, c.rounds, c.scheme); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
