package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A life is what a small job does: it takes checkpoints, drains and reclaims them, loses
// nodes and restarts, and its disks fill up and fail. After operations of its file systems
// it looks at states that a crash may leave then.
type life struct {
	seed    uint64
	rng     *rand.Rand
	w       *world
	disks   []*memfs.FS // of the nodes, without faults
	storage *memfs.FS   // of the store, without faults
	ledger  *Ledger
	now     time.Time
	next    int // number of the next version

	looks  *looks
	mu     sync.Mutex // of what follows, and the promise
	random *rand.Rand // for crashes: operations come in any order
	promise
}

// A promise is what a restart must find at least.
type promise struct {
	iterations map[int]int  // of every version that may exist, by number
	must       int          // the newest version that is committed on the nodes, or 0
	stored     int          // the newest that is committed in the store
	lost       map[int]bool // nodes that must has lost something on
	strength   int
}

func (p promise) clone() promise {
	p.iterations, p.lost = maps.Clone(p.iterations), maps.Clone(p.lost)
	return p
}

// least returns the oldest version that a restart may take.
func (p promise) least(storeSound bool) int {
	least := 0
	if storeSound {
		least = p.stored
	}
	if len(p.lost) <= p.strength {
		least = max(least, p.must)
	}
	return least
}

// A kind is a shape of a job.
type kind struct {
	protection   string
	nodes, ranks int
}

var kinds = []kind{{"none", 1, 2}, {"none", 2, 1}, {"partner", 2, 1}, {"partner", 3, 1}, {"partner:2", 3, 1}, {"xor:2", 2, 1}, {"xor:3", 3, 1}, {"rs:2+2", 4, 1}, {"xor:2", 3, 2}}

// newLife begins a life.
func newLife(t *testing.T, seed uint64, l *looks) *life {
	t.Helper()
	k := kinds[seed%uint64(len(kinds))]
	v := &life{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), random: rand.New(rand.NewPCG(seed, 2)), now: noon, next: 1, looks: l}
	v.w = newWorld(t, k.protection, k.nodes, k.ranks)
	v.w.setting.Drain = []Drain{{Mode: DrainBehind}, {Mode: DrainEvery, Every: 2}, {Mode: DrainNone}}[v.rng.IntN(3)]
	v.promise = promise{iterations: make(map[int]int), lost: make(map[int]bool), strength: v.w.setting.Protect.Strength()}
	for _, d := range v.w.disks {
		v.disks = append(v.disks, d.(*memfs.FS))
	}
	v.storage = v.w.storage.(*memfs.FS)
	v.storage.AfterOp = v.afterOp
	for _, d := range v.disks {
		v.watch(d)
	}
	v.ledger = NewLedger(v.w.setting)
	return v
}

// watch looks at what happens on the disk of a node.
func (v *life) watch(m *memfs.FS) {
	if m.AfterOp = v.afterOp; v.looks.lie != nil {
		v.looks.lie(m)
	}
}

// afterOp looks at a state that a crash now may leave.
func (v *life) afterOp(op, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.random.IntN(v.looks.every) > 0 || v.looks.enough() {
		return
	}
	v.looks.at(fmt.Sprintf("seed %d, %s, after %s %s", v.seed, v.w.setting.Protect, op, name), v.crash())
}

// model changes the promise.
func (v *life) model(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
}

// run lives for so many steps.
func (v *life) run(ctx context.Context, steps int) error {
	for step := range steps {
		var err error
		switch n := v.rng.IntN(20); {
		case n < 9:
			err = v.take(ctx)
		case n < 14:
			err = v.drain(ctx)
		case n < 17:
			err = v.reclaim()
		default:
			err = v.lose(ctx)
		}
		if err != nil {
			return fmt.Errorf("seed %d, %s, step %d: %w", v.seed, v.w.setting.Protect, step, err)
		}
		v.now = v.now.Add(time.Duration(v.rng.IntN(20)) * time.Second)
	}
	return nil
}

// faulty makes a disk fail, sometimes, and returns what ends that.
func (v *life) faulty(disk *vfs.FS, within int) (end func()) {
	if v.rng.IntN(4) > 0 {
		return func() {}
	}
	in := *disk
	f := memfs.Fault{At: 1 + v.rng.IntN(within), Err: []error{syscall.ENOSPC, syscall.EIO}[v.rng.IntN(2)], Short: v.rng.IntN(2) == 0, Stop: v.rng.IntN(2) == 0}
	*disk = memfs.WithFault(in, f)
	return func() { *disk = in }
}

// take takes a checkpoint, of which something may fail.
func (v *life) take(ctx context.Context) error {
	if !v.ledger.Begin(v.next, 0) {
		return v.reclaim()
	}
	number, iteration := v.next, 1000+v.next
	if v.seed%36 == 7 {
		iteration += large
	}
	v.next++
	v.model(func() { v.iterations[number] = iteration })
	node := v.rng.IntN(len(v.disks))
	end := v.faulty(&v.w.disks[node], 60)
	if err := v.w.open(); err != nil {
		return err
	}
	m, err := v.w.write(ctx, number, iteration)
	if err == nil {
		err = v.w.tier.Commit(ctx, m)
	}
	if err == nil {
		v.model(func() { v.must, v.lost = number, make(map[int]bool) })
		v.ledger.Commit(number)
		end()
		return v.w.open()
	}
	if v.rng.IntN(2) == 0 {
		end() // before it is discarded, or after
		if err := v.w.open(); err != nil {
			return err
		}
	}
	derr := v.w.tier.Discard(number)
	end()
	if err := v.w.open(); err != nil {
		return err
	}
	if derr != nil {
		derr = v.w.tier.Discard(number)
	}
	if derr != nil {
		return fmt.Errorf("discard after %w: %w", err, derr)
	}
	v.ledger.Aborted(number)
	return nil
}

// drain drains what is due, into a store that may fail.
func (v *life) drain(ctx context.Context) error {
	number, ok := v.ledger.NextDrain(v.now)
	if !ok {
		return nil
	}
	versions, _ := v.w.tier.Versions(ctx)
	i := slices.IndexFunc(versions, func(k Version) bool { return k.Number == number })
	if i < 0 {
		return fmt.Errorf("version %d is to be drained and has gone: %+v", number, v.ledger.Entries())
	}
	m := versions[i].Manifest
	end := v.faulty(&v.w.storage, 60)
	if err := v.openStore(); err != nil {
		end()
		v.ledger.DrainFailed(number, v.now)
		return v.openStore()
	}
	err := v.w.drain(ctx, m)
	end()
	if oerr := v.openStore(); oerr != nil {
		return oerr
	}
	if err != nil {
		v.ledger.DrainFailed(number, v.now)
		return nil
	}
	v.model(func() { v.stored = max(v.stored, number) })
	v.ledger.Drained(number)
	return nil
}

// openStore opens the job in the store anew, as another coordinator would.
func (v *life) openStore() error {
	if v.w.store != nil {
		_ = v.w.store.Unlock() // of a store that fails
	}
	return v.w.openStore()
}

// openStore opens the job in the store and takes its lock.
func (w *world) openStore() error {
	s, err := image.OpenStore(w.storage, "/store")
	if err == nil {
		w.store, err = s.Job(testJob)
	}
	if err == nil {
		err = w.store.Lock()
	}
	if err == nil {
		_, err = w.store.Sweep()
	}
	return err
}

// reclaim reclaims what may go.
func (v *life) reclaim() error {
	for _, n := range v.ledger.Reclaimable() {
		if err := v.w.tier.Reclaim(n); err != nil {
			return err
		}
		v.ledger.Reclaimed(n)
	}
	return nil
}

// lose loses the directories of nodes, or damages a file, and restarts.
func (v *life) lose(ctx context.Context) error {
	if v.rng.IntN(3) == 0 {
		node := v.rng.IntN(len(v.disks))
		v.model(func() { v.lost[node] = true })
		damage(v.rng, v.disks[node])
	} else {
		for range 1 + v.rng.IntN(v.strength+1) {
			node := v.rng.IntN(len(v.disks))
			v.model(func() { v.lost[node] = true })
			v.disks[node] = memfs.New()
			v.watch(v.disks[node])
			v.w.disks[node] = v.disks[node]
		}
	}
	return v.restart(ctx)
}

// restart restores what is nearest and makes it whole again.
func (v *life) restart(ctx context.Context) error {
	if err := v.w.open(); err != nil {
		return err
	}
	var s start
	v.mu.Lock()
	p := v.promise.clone()
	v.mu.Unlock()
	if err := s.restart(ctx, v.w, p, true); err != nil {
		return err
	}
	v.ledger = NewLedger(v.w.setting)
	v.model(func() {
		if v.must != s.number || !s.local {
			v.must, v.lost = 0, make(map[int]bool) // what is newer counts no more
		}
	})
	var kept []Version
	for _, k := range s.versions {
		if s.local && k.Number == s.number {
			kept = append(kept, k)
			if err := v.whole(ctx, k, s.stored); err != nil {
				return err
			}
		} else if err := v.w.tier.Reclaim(k.Number); err != nil {
			return err
		}
	}
	return errors.Join(v.w.tier.Sweep(ctx, kept)...)
}

// whole scrubs the version that was restored.
func (v *life) whole(ctx context.Context, k Version, stored bool) error {
	list, err := v.w.tier.Scrub(ctx, k.Manifest, nil)
	if err != nil || !soundOn(list) {
		return fmt.Errorf("version %d is not whole after a scrub: %+v, %w", k.Number, list, err)
	}
	v.ledger.Adopt(k.Number, 0, stored)
	v.model(func() { v.must, v.lost = k.Number, make(map[int]bool) })
	return nil
}

// live lives seeded lives until enough states have been looked at.
func (l *looks) live(t *testing.T) error {
	for seed := uint64(1); !l.enough(); seed++ {
		err := newLife(t, seed, l).run(context.Background(), 25)
		if werr := l.checks.Wait(); err == nil {
			err = werr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCrashMatrix lives seeded lives and looks at states that crashes may leave: loss of
// power or of the processes, of nodes within and beyond the strength of the protection,
// damage on one level. A restart finds the newest version that the levels promise, or says
// that nothing is left; it never finds a wrong byte.
func TestCrashMatrix(t *testing.T) {
	l := newLooks()
	if err := l.live(t); err != nil {
		t.Fatal(err)
	}
	l.report(t)
}

// TestCrashMatrixCanFail has disks lie about what is durable: the matrix finds out.
func TestCrashMatrixCanFail(t *testing.T) {
	for name, lie := range map[string]func(*memfs.FS){
		"data":  func(m *memfs.FS) { m.IgnoreSync = true },
		"names": func(m *memfs.FS) { m.IgnoreSyncDir = true },
	} {
		l := newLooks()
		l.want, l.every, l.lie = 5000, 1, lie
		if err := l.live(t); err == nil {
			t.Errorf("%s: %d states, and nothing was found", name, l.states.Load())
		}
	}
}
