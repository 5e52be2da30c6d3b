package benchmarks

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/image/pfs"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A ticker is a clock that moves on each time it is read.
type ticker struct {
	mu  sync.Mutex
	now time.Time
}

func (t *ticker) read() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = t.now.Add(time.Millisecond)
	return t.now
}

// few are options under which a Run makes a few probes, drawn by the seed.
func few(seed uint64) *probing {
	return &probing{time: 12 * time.Millisecond, maxBytes: 4 << 20, seed: seed, now: new(ticker).read}
}

func newFS(t *testing.T) *memfs.FS {
	t.Helper()
	fsys := memfs.New()
	if err := fsys.Mkdir("/d"); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func left(t *testing.T, fsys vfs.FS) {
	t.Helper()
	entries, err := fsys.ReadDir("/d")
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestAllProbesInAllRounds(t *testing.T) {
	fsys := newFS(t)
	share := 0.0
	r, err := (&probing{time: 600 * time.Millisecond, maxBytes: 8 << 20, now: new(ticker).read, progress: func(s float64) { share = s }}).run(t.Context(), fsys, "/d")
	if err != nil {
		t.Fatal(err)
	}
	left(t, fsys)
	if r.Rounds < 2 || share < 0.9 {
		t.Errorf("%d rounds, progress ended at %v", r.Rounds, share)
	}
	held, writes := 0, 0
	for _, p := range r.Probes {
		if len(p.Seconds) < r.Rounds || p.Bytes() > 8<<20 || p.Direct != r.Direct && p.Direct {
			t.Errorf("%v: %d rounds, %d bytes", &p, len(p.Seconds), p.Bytes())
		}
		if p.HeldOut {
			held++
		}
		if p.Kind == probeWrite {
			writes++
		}
	}
	if held != writes/4 || held == 0 {
		t.Errorf("%d of %d probes are held out", held, writes)
	}
	if len(r.Unknown) < 4 {
		t.Errorf("unknown: %q", r.Unknown)
	}
}

// TestCrowd has more writers than usual write small files. A description then knows how they share
// the target; without the space for them it says so.
func TestCrowd(t *testing.T) {
	for most, crowd := range map[int64]int{16 << 20: 64, 4 << 20: usualWriters} {
		r, err := (&probing{time: 150 * time.Millisecond, maxBytes: most, writers: 64, now: new(ticker).read}).run(t.Context(), newFS(t), "/d")
		if err != nil {
			t.Fatal(err)
		}
		said := slices.Contains(r.Unknown, "64 writers: the time or the space was too short")
		sharing := (&fitter{res: r, base: &pfs.System{}}).system(make([]float64, fitCreates+1)).Targets.Sharing
		if got := sharing[len(sharing)-1].Writers; r.crowd() != crowd || got != crowd || said != (crowd < 64) {
			t.Errorf("%d bytes: probes of %d writers, sharing up to %d; unknown %q", most, r.crowd(), got, r.Unknown)
		}
	}
}

// TestShortTimeIsSaid lets the time end in the first round.
func TestShortTimeIsSaid(t *testing.T) {
	r, err := few(1).run(t.Context(), newFS(t), "/d")
	if err != nil {
		t.Fatal(err)
	}
	said := false
	for _, u := range r.Unknown {
		said = said || strings.Contains(u, "the time was too short")
	}
	if r.Rounds != 0 || !said {
		t.Errorf("%d rounds, unknown %q", r.Rounds, r.Unknown)
	}
}

// TestEveryFault fails operations, one in each run: nothing is left behind, and the
// error names the operation.
func TestEveryFault(t *testing.T) {
	for seed := range uint64(2) {
		count := memfs.WithFault(newFS(t), memfs.Fault{})
		if _, err := few(seed).run(t.Context(), count, "/d"); err != nil {
			t.Fatal(err)
		}
		ops := count.Ops()
		for at := 1; at <= len(ops); at += 1 + len(ops)/6 {
			fsys := newFS(t)
			_, err := few(seed).run(t.Context(), memfs.WithFault(fsys, memfs.Fault{At: at, Err: syscall.ENOSPC}), "/d")
			if !errors.Is(err, durable.ErrStorageFull) {
				t.Errorf("seed %d, operation %d, %v: error is %v", seed, at, ops[at-1], err)
			}
			if ops[at-1].Name == "remove" || ops[at-1].Name == "readdir" {
				continue // the operation that cleans up is the one that fails
			}
			left(t, fsys)
		}
	}
}

func TestFullStorage(t *testing.T) {
	fsys := smallDisk{newFS(t)}
	if _, err := few(1).run(t.Context(), fsys, "/d"); !errors.Is(err, durable.ErrStorageFull) {
		t.Errorf("error is %v", err)
	}
	left(t, fsys)
}

type smallDisk struct{ vfs.FS }

func (smallDisk) Free(string) (int64, error) { return 1 << 20, nil }

func TestCanceled(t *testing.T) {
	fsys := newFS(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := few(2)
	o.progress = func(float64) { cancel() }
	if _, err := o.run(ctx, fsys, "/d"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	left(t, fsys)
}

func TestNoDirectory(t *testing.T) {
	if _, err := few(1).run(t.Context(), vfs.OS{}, "/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// TestRealDirectory measures a real one, where direct I/O may work.
func TestRealDirectory(t *testing.T) {
	dir := t.TempDir()
	o := few(3)
	o.maxBytes = 4 << 20
	r, err := o.run(t.Context(), vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Most > 4<<20 {
		t.Errorf("%d bytes at a time", r.Most)
	}
	if entries, err := (vfs.OS{}).ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
