package levels

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// A fakeGroup does what is posted when it is waited for.
type fakeGroup struct {
	Group
	mu     sync.Mutex
	posted []func()
	beside sync.WaitGroup
	life   Life
	over   bool
	heard  []string // what levels and the protocol were told
}

func (g *fakeGroup) Post(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.posted = append(g.posted, do)
}

func (g *fakeGroup) Go(do func())     { g.beside.Go(do) }
func (g *fakeGroup) Over() bool       { return g.over }
func (g *fakeGroup) Thin()            {}
func (g *fakeGroup) Passed(int)       {}
func (g *fakeGroup) Life() Life       { return g.life }
func (g *fakeGroup) End() End         { return End{Failed: g.over} }
func (g *fakeGroup) Event(any)        {}
func (g *fakeGroup) Warn(text string) { g.heard = append(g.heard, text) }
func (g *fakeGroup) Later(ev protocol.Event) {
	g.heard = append(g.heard, fmt.Sprintf("%T", ev))
}
func (g *fakeGroup) Failed(number int, err error) { g.heard = append(g.heard, err.Error()) }

// Await does what is posted, and what that starts, while busy.
func (g *fakeGroup) Await(busy func() bool) {
	for first := true; first || busy(); first = false {
		g.beside.Wait()
		g.mu.Lock()
		list := g.posted
		g.posted = nil
		g.mu.Unlock()
		for _, do := range list {
			do()
		}
	}
}

func (g *fakeGroup) Interruptible(do func(context.Context) error) error {
	return do(context.Background())
}

// A lastLevel stands for the store.
type lastLevel struct {
	Level
	refuses error
	told    []string
}

func (l *lastLevel) Prepare(int) error {
	l.told = append(l.told, "prepare")
	return l.refuses
}
func (l *lastLevel) Place(protocol.Write) { l.told = append(l.told, "place") }
func (l *lastLevel) InStore(int)          { l.told = append(l.told, "in store") }
func (l *lastLevel) Drain()               { l.told = append(l.told, "drain") }
func (l *lastLevel) Aborted(int, error)   { l.told = append(l.told, "aborted") }

// awayFS is the disk of a host that is off the network.
type awayFS struct{ vfs.OS }

func (awayFS) Open(name string) (vfs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EHOSTUNREACH}
}

func (awayFS) Stat(name string) (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.EHOSTUNREACH}
}

// newTestTier is the tier of a job of one rank on a disk.
func newTestTier(t *testing.T, disk vfs.FS) (*Tier, *fakeGroup, *lastLevel) {
	t.Helper()
	store, err := image.CreateStore(vfs.OS{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Unlock() })
	drain, err := nodes.ParseDrain("none")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	on, err := nodes.Open("job", nil, nodes.Setting{Dir: filepath.Join(dir, "{node}"), Drain: drain}, []int{0}, []nodes.Node{{FS: disk, Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	g, last := &fakeGroup{life: Life{Started: true}}, &lastLevel{}
	set := Setting{Ranks: []int{0}, Job: j, Spec: &job.Resolved{}}
	return newTier(set, g, last, newDirectories(on, j, nil, nil)), g, last
}

// TestEndsWithoutNode: a run whose outcome is known ends, although a checkpoint waits
// for the slot of a version on a node that is off the network.
func TestEndsWithoutNode(t *testing.T) {
	t.Parallel()
	tier, g, _ := newTestTier(t, awayFS{})
	for number := range nodes.Slots {
		tier.ledger.Begin(number+1, 0)
		tier.ledger.Commit(number + 1)
	}
	if err := tier.Prepare(nodes.Slots + 1); err != nil {
		t.Fatal(err)
	}
	if len(tier.reclaiming) != 1 {
		t.Fatalf("%d versions are being removed, want one", len(tier.reclaiming))
	}
	g.over = true
	tier.Drain()
}

// TestRefusedPast: when the nodes and the store both refuse a version, the tier aborts it and
// tells no rank to write it.
func TestRefusedPast(t *testing.T) {
	t.Parallel()
	tier, g, last := newTestTier(t, vfs.OS{})
	if err := tier.Prepare(1); err != nil {
		t.Fatal(err)
	}
	tier.attempt.waits, tier.attempt.order = true, &protocol.Write{Number: 1}
	last.refuses = syscall.ENOSPC
	tier.passBy()
	if !slices.Equal(last.told, []string{"prepare"}) || !slices.Equal(g.heard, []string{syscall.ENOSPC.Error()}) {
		t.Errorf("the store was told %q, the group %q", last.told, g.heard)
	}
	tier.refusal.left = 1
	if err := tier.Prepare(2); err == nil {
		t.Error("a version past the nodes, which the store refuses, is prepared")
	}
	g.beside.Wait()
}

// TestPassedOn: the level below hears of each version in the store, and of each that was
// aborted.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	tier, _, last := newTestTier(t, vfs.OS{})
	tier.kept[1] = &image.Manifest{Number: 1}
	tier.InStore(1)
	tier.InStore(2)
	tier.Aborted(3, syscall.ENOSPC)
	if want := []string{"in store", "in store", "aborted"}; !slices.Equal(last.told, want) {
		t.Errorf("the level below was told %q, want %q", last.told, want)
	}
	if n, ok := tier.ledger.Unstored(); ok {
		t.Errorf("version %d counts as not stored", n)
	}
}
