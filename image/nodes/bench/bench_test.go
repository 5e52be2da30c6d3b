package bench

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/faultfs"
	"ckpt/internal/vfs/memfs"
)

func schemes(t *testing.T, texts ...string) (list []nodes.Scheme) {
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

// options are those of a small run in memory, on a clock that goes on by a second with
// every look at it.
func options(t *testing.T, fsys vfs.FS) Options {
	t.Helper()
	now := 0.0
	return Options{FS: fsys, Ranks: 12, Nodes: 6, Bytes: 1 << 20, Local: "/nodes/{node}", Store: "/store", Rounds: 2,
		Schemes: schemes(t, "partner", "partner:2", "xor:3", "rs:4+2"), Now: func() float64 { now++; return now }}
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

// TestRun: every way is saved, read and, where anything protects it, recovered; redundancy
// is what the scheme says, in the order of its cost. Nothing is left.
func TestRun(t *testing.T) {
	fsys := memfs.New()
	o := options(t, fsys)
	told := int64(0)
	count := make(chan int64)
	over := make(chan struct{})
	go func() {
		for n := range count {
			told += n
		}
		close(over)
	}()
	o.Progress = func(n int64) { count <- n }
	r, err := Run(context.Background(), o)
	close(count)
	<-over
	if err != nil {
		t.Fatal(err)
	}
	if told < o.Total()*9/10 || told > o.Total()*12/10 {
		t.Errorf("progress was told %d bytes of %d", told, o.Total())
	}
	want := map[string]float64{WayLocal: 0, "partner": 1, "partner:2": 2, "xor:3": 0.5, "rs:4+2": 0.5, WayTwice: 1}
	for name, share := range want {
		w := r.way(name)
		if w == nil || len(w.Saves) != 2 || len(w.Reads) != 2 {
			t.Fatalf("%s: %+v", name, w)
		}
		// Units of parity are as long as a quarter of these small files.
		if w.Redundancy < share*0.95 || w.Redundancy > share*1.2+0.02 {
			t.Errorf("%s writes %.3f of redundancy, want %.3f", name, w.Redundancy, share)
		}
		if protected := name != WayLocal && name != WayTwice; (w.Recovery != nil) != protected || protected && w.Recovered < 2<<20 {
			t.Errorf("%s: recovered %d bytes, %v", name, w.Recovered, w.Recovery)
		}
	}
	if s := r.way(WayStore); s == nil || s.Recovery == nil || s.Written < 12<<20 {
		t.Errorf("store: %+v", s)
	}
	if a, b, c := r.way(WayLocal).Written, r.way("partner").Written, r.way("partner:2").Written; a > b || b > c {
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
	b := &bench{o: &Options{}}
	partner := schemes(t, "partner")[0]
	ways := []*way{{name: WayLocal}, {name: "partner", scheme: partner}}
	r := &Result{Ways: []Way{{Name: WayLocal, Save: 2, Read: 1}, {Name: "partner", Save: 6}, {Name: WayTwice, Save: 4}, {Name: WayHalf, Read: 0.5}, {Name: WayStore, Save: 8}}}
	for name, want := range map[string]bool{
		"time to save, partner by local": true, "time to save, partner by local twice": false, "time, reading by saving, local": true,
		"time of reading, half the bytes by all": true, "time to save, local by store": true,
	} {
		found := false
		for _, x := range b.ratios(r, ways) {
			if x.Name == name {
				found = true
				if x.Holds != want {
					t.Errorf("%+v", x)
				}
			}
		}
		if !found {
			t.Errorf("no ratio %q", name)
		}
	}
}

// TestNothingLeft fails operations in turn, and ends the run in the middle: it leaves
// nothing behind.
func TestNothingLeft(t *testing.T) {
	count := faultfs.New(memfs.New(), faultfs.Fault{})
	if _, err := Run(context.Background(), small(t, count)); err != nil {
		t.Fatal(err)
	}
	ops := len(count.Ops())
	for at := 1; at < ops; at += 1 + ops/60 {
		disk := memfs.New()
		fsys := faultfs.New(disk, faultfs.Fault{At: at, Err: syscall.EIO})
		_, err := Run(context.Background(), small(t, fsys))
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
	o := small(t, disk)
	o.Progress = func(int64) { cancel() }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left := names(t, disk, "/"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func small(t *testing.T, fsys vfs.FS) Options {
	o := options(t, fsys)
	o.Ranks, o.Nodes, o.Bytes, o.Rounds, o.Schemes = 3, 3, 64<<10, 1, schemes(t, "partner", "xor:3")
	return o
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
		_, err := Run(context.Background(), options(t, scarce{fsys, free}))
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
	for name, change := range map[string]func(*Options){
		"more nodes than ranks": func(o *Options) { o.Nodes = 13 },
		"no rank":               func(o *Options) { o.Ranks = 0 },
		"no bytes":              func(o *Options) { o.Bytes = 0 },
		"no round":              func(o *Options) { o.Rounds = 0 },
		"a scheme for more":     func(o *Options) { o.Schemes = schemes(t, "rs:6+2") },
	} {
		fsys := memfs.New()
		o := options(t, fsys)
		change(&o)
		if _, err := Run(context.Background(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left := names(t, fsys, "/"); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}
