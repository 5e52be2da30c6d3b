package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// TestSetting reads and writes settings, and refuses those that cannot be.
func TestSetting(t *testing.T) {
	good := Setting{Dir: "/nvme/{node}/x", Protect: scheme(t, "rs:2+1"), Domains: []int{0, 1, 1}, Drain: Drain{Mode: DrainEvery, Every: 4}, Rate: 5}
	b, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	var again Setting
	if err := json.Unmarshal(b, &again); err != nil || !equalSettings(good, again) {
		t.Errorf("%s becomes %+v, %v", b, again, err)
	}
	if err := good.Check(3); err != nil {
		t.Error(err)
	}
	if dir := good.NodeDir(12); dir != "/nvme/12/x" {
		t.Errorf("the directory of node 12 is %s", dir)
	}
	for name, spoil := range map[string]func(*Setting){
		"relative":     func(s *Setting) { s.Dir = "{node}" },
		"no node":      func(s *Setting) { s.Dir = "/nvme" },
		"rate":         func(s *Setting) { s.Rate = -1 },
		"domains":      func(s *Setting) { s.Domains = s.Domains[:2] },
		"drain":        func(s *Setting) { s.Drain = Drain{} },
		"too few":      func(s *Setting) { s.Protect = scheme(t, "rs:3+1") },
		"every, never": func(s *Setting) { s.Drain = Drain{Mode: DrainNone, Every: 2} },
	} {
		bad := good
		if spoil(&bad); bad.Check(3) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, text := range []string{"behind", "every=1", "every=30", "none"} {
		if d, err := ParseDrain(text); err != nil || d.String() != text {
			t.Errorf("%s becomes %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "every", "every=", "every=0", "every=-1", "behind=2", "none=0", "Behind"} {
		if d, err := ParseDrain(text); err == nil {
			t.Errorf("%q becomes %v", text, d)
		}
	}
}

func equalSettings(a, b Setting) bool {
	return a.Dir == b.Dir && a.Protect == b.Protect && slices.Equal(a.Domains, b.Domains) && a.Drain == b.Drain && a.Rate == b.Rate
}

// fakeClock is a clock that only sleeping moves.
type fakeClock struct{ now time.Time }

func (c *fakeClock) clock() Clock {
	return Clock{Now: func() time.Time { return c.now },
		Sleep: func(ctx context.Context, d time.Duration) error { c.now = c.now.Add(d); return ctx.Err() }}
}

// TestLimiter keeps a rate, makes up for idle time only for a moment, and ends with its ctx.
func TestLimiter(t *testing.T) {
	ctx := context.Background()
	c := &fakeClock{now: noon}
	l := NewLimiter(1000, c.clock())
	for range 10 {
		if err := l.Wait(ctx, 500); err != nil {
			t.Fatal(err)
		}
	}
	if took := c.now.Sub(noon); took < 4800*time.Millisecond || took > 5*time.Second {
		t.Errorf("5000 bytes at 1000 per second took %v", took)
	}
	c.now = c.now.Add(time.Hour)
	begin := c.now
	if err := l.Wait(ctx, 2000); err != nil {
		t.Fatal(err)
	}
	if took := c.now.Sub(begin); took < 1800*time.Millisecond {
		t.Errorf("after an hour, 2000 bytes took %v", took)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Wait(over, 5000); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if none := NewLimiter(0, c.clock()); none.Wait(ctx, 1<<30) != nil {
		t.Error("no limit has one")
	}
}

// TestRecord writes what the nodes have into the store, and reads it.
func TestRecord(t *testing.T) {
	w := newWorld(t, "partner", 2, 1)
	if r, err := ReadRecord(w.store); r != nil || err != nil {
		t.Fatalf("before: %+v, %v", r, err)
	}
	m := w.version(t, 3)
	r := &Record{Setting: w.setting, Mapping: w.mapping(), Hosts: []string{"a", "b"}, Versions: []Known{KnownOf(m, Protected)}}
	if err := r.Write(w.store); err != nil {
		t.Fatal(err)
	}
	again, err := ReadRecord(w.store)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again, cmp.Comparer(equalSettings)); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if k, ok := again.Of(3); !ok || k.ID != m.ID || k.Bytes != m.StoredBytes || k.Bytes == 0 {
		t.Errorf("version 3: %+v, %v", k, ok)
	}
	if next, err := Next(w.store, again, nil); next != 4 || err != nil {
		t.Errorf("the next number is %d, %v", next, err)
	}
	name := filepath.Join(w.store.Dir(), "tier.json")
	for text, want := range map[string]string{"{": "JSON", `{"format":9}`: "newer", `{"format":1}`: "mapping", `{"format":1,"mapping":[1]}`: "directory"} {
		if err := durable.Replace(w.storage, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecord(w.store); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFullNode has a node without space: the checkpoint is aborted, what was there stays,
// and the same number of versions fits again when there is space.
func TestFullNode(t *testing.T) {
	ctx := context.Background()
	for _, protection := range []string{"none", "partner", "xor:3", "rs:1+2"} {
		w := newWorld(t, protection, 3, 1)
		m := w.version(t, 1)
		disk := w.disks[1]
		count := memfs.WithFault(disk.(*memfs.FS).CrashClone(memfs.Crash{Mode: memfs.Kept}), memfs.Fault{})
		w.disks[1] = count
		w.reopen(t)
		w.version(t, 2)
		for at := 1; at <= len(count.Ops()); at += 3 {
			w.disks[1] = memfs.WithFault(disk, memfs.Fault{At: at, Err: syscall.ENOSPC, Short: true, Stop: true})
			w.reopen(t)
			number := at + 1
			full, err := w.write(ctx, number, 70)
			if err == nil {
				err = w.tier.Commit(ctx, full)
			}
			if !errors.Is(err, durable.ErrStorageFull) {
				t.Errorf("%s, operation %d: %v is not ErrStorageFull", protection, at, err)
			}
			w.disks[1] = disk
			w.reopen(t)
			if err := w.tier.Discard(number); err != nil {
				t.Fatal(err)
			}
			if _, err := w.recovered(ctx, m); err != nil {
				t.Errorf("%s, operation %d: %v", protection, at, err)
			}
		}
		w.version(t, 5000)
		if versions, errs := w.tier.Versions(ctx); len(versions) != 2 || len(errs) > 0 {
			t.Errorf("%s: %d versions, %v", protection, len(versions), errs)
		}
	}
}

// TestDrainDamaged drains a file that is damaged on its node: nothing is committed, and the
// error says which file it is.
func TestDrainDamaged(t *testing.T) {
	w := newWorld(t, "none", 2, 1)
	m := w.version(t, 1)
	spoil(t, w.disks[1], w.file(1, 1, 1), 6000)
	err := w.drain(context.Background(), m)
	if damage := (*durable.DamageError)(nil); !errors.As(err, &damage) || damage.File != w.file(1, 1, 1) {
		t.Errorf("drained: %v", err)
	}
	if n, err := w.store.Latest(); n != 0 || err != nil {
		t.Errorf("the store has version %d, %v", n, err)
	}
}

// TestSweep removes what belongs to no version, and nothing else.
func TestSweep(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "partner", 2, 1)
	m := w.version(t, 1)
	if _, err := w.write(ctx, 2, 20); err != nil {
		t.Fatal(err)
	}
	left := w.file(0, 1, 0) + durable.TempSuffix
	if err := durable.Replace(w.disks[0], left, []byte("half")); err != nil {
		t.Fatal(err)
	}
	w.version(t, 3)
	for n := range w.disks {
		spoil(t, w.disks[n], w.setting.NodeDir(n)+"/jobs/"+testJob+"/"+manifestPath(3), 9)
	}
	versions, _ := w.tier.Versions(ctx)
	if errs := w.tier.Sweep(ctx, versions); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, disk := range w.disks {
		for _, name := range filesBelow(disk, "/") {
			if strings.Contains(name, "/0002/") {
				t.Errorf("%s is left", name)
			}
		}
	}
	if _, err := w.disks[0].Stat(w.file(0, 3, 0)); err != nil {
		t.Errorf("a version whose manifest cannot be read: %v", err)
	}
	if _, err := w.disks[0].Stat(left); err == nil {
		t.Errorf("%s is left", left)
	}
	if _, err := w.recovered(ctx, m); err != nil {
		t.Error(err)
	}
}
