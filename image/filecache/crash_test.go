package filecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs/memfs"
)

// A crashRun uses a file, and looks after every operation on any disk at what failures
// leave then: the death of all processes, a loss of power, and either of them with the
// loss of nodes and their directories.
type crashRun struct {
	levels Levels
	all    []*memfs.FS // the nodes', and the store's
	model  *model
	step   int // only every so many operations are looked at
	crash  int // losses of power per operation

	kindsMu sync.Mutex
	mu      sync.Mutex
	ops     int
	states  int
	seen    map[string]bool
	kinds   map[string]int // of what was recovered, for how often
	checks  errgroup.Group
	rng     *rand.Rand
	nested  bool // every so often, recovery fails as well
	again   int  // how often
	initial bool // the store had the file
}

const crashSize = 9500

func newCrashRun(nodes int, levels Levels, seed uint64, initial bool) *crashRun {
	r := &crashRun{levels: levels, seen: make(map[string]bool), kinds: make(map[string]int), step: 1, crash: 1, again: 150, initial: initial,
		rng: rand.New(rand.NewPCG(seed, 1)), model: &model{initial: make([]byte, crashSize)}}
	c, all := cluster(nodes)
	if initial {
		r.model.initial = random(seed, crashSize)
		must2(all[nodes].Mkdir("/store"))
		f, err := all[nodes].Create("/store/x")
		must2(err)
		_, err = f.WriteAt(r.model.initial, 0)
		must2(errors.Join(err, f.Sync(), all[nodes].SyncDir("/store"), all[nodes].SyncDir("/")))
	}
	_ = c
	r.all = all
	r.checks.SetLimit(2)
	for _, m := range all {
		m.AfterOp = r.afterOp
	}
	return r
}

func must2(err error) {
	if err != nil {
		panic(err)
	}
}

// afterOp looks at the states that may be left now.
func (r *crashRun) afterOp(op, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	if r.ops%r.step != 0 {
		return
	}
	// No write may begin while we look: it would be on a disk and not in the model.
	r.model.mu.Lock()
	defer r.model.mu.Unlock()
	now := r.model.snapshot()
	nodes := len(r.all) - 1
	for i := range r.crash + 2 {
		crash := memfs.Crash{Mode: memfs.Random, Seed: r.rng.Uint64()}
		switch i {
		case 0:
			crash.Mode = memfs.Kept // the processes die and no more
		case 1:
			crash.Mode = memfs.Lost
		}
		lost := []int{}
		if i%2 == 0 || r.rng.IntN(2) == 0 {
			lost = r.rng.Perm(nodes)[:r.rng.IntN(min(nodes, 3))]
		}
		nested := r.nested && (i == 0 && op == "rename" && strings.HasSuffix(name, "/session") || r.rng.IntN(r.again) == 0)
		r.look(now, crash, lost, nested, fmt.Sprintf("operation %d (%s %s), crash %+v, lost nodes %v", r.ops, op, name, crash, lost))
	}
}

func (r *crashRun) look(now *model, crash memfs.Crash, lost []int, nested bool, where string) {
	after := make([]*memfs.FS, len(r.all))
	key := fmt.Sprint(now.clock, len(now.synced), lost)
	for i, m := range r.all {
		if slices.Contains(lost, i) {
			after[i] = memfs.New()
		} else {
			after[i] = m.CrashClone(crash)
		}
		key += after[i].Digest()
	}
	r.states++
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	s := &crashState{levels: r.levels, all: after, model: now, lost: lost, initial: r.initial, seed: r.rng.Uint64(), nested: nested}
	r.checks.Go(func() error {
		kind, err := s.check()
		if err != nil {
			return fmt.Errorf("%+v: %s: %w", r.levels, where, err)
		}
		r.kindsMu.Lock()
		defer r.kindsMu.Unlock()
		r.kinds[kind]++
		return nil
	})
}

// A crashState is what a failure left.
type crashState struct {
	levels  Levels
	all     []*memfs.FS
	model   *model
	lost    []int
	initial bool
	seed    uint64
	nested  bool
	again   bool // after a failure of a recovery
}

// check recovers, and returns from what.
func (s *crashState) check() (string, error) {
	if s.nested {
		if err := s.crashAgain(); err != nil {
			return "", fmt.Errorf("and again in recovery: %w", err)
		}
	}
	c := cacheOf(s.all)
	f, rec, err := c.Recover(background, "x", Options{})
	if errors.Is(err, ErrNothing) {
		return s.reopen(c)
	}
	if errors.Is(err, ErrLost) {
		return "lost", s.mayBeLost(err)
	}
	if err != nil {
		return "", err
	}
	defer f.Abandon()
	got, err := contents(f.Process(0))
	if err == nil {
		err = s.judge(got, rec)
	}
	if err != nil {
		return "", fmt.Errorf("recovered from %s: %w", rec.From, err)
	}
	return string(rec.From), s.goOn(c, f, got)
}

// judge says whether a recovered file is what the levels promise.
func (s *crashState) judge(got []byte, rec Recovery) error {
	l := s.levels
	if rec.From == FromVersion {
		strong := l.Replicas > 0 && len(s.lost) <= l.Replicas || l.Replicas == 0 && l.Records && len(s.lost) == 0
		if strong {
			return fmt.Errorf("only a version was found: %v", rec.Warnings)
		}
		return s.model.version(got)
	}
	err := s.model.legal(got, !l.Records && l.Replicas == 0)
	if err != nil && s.again && l.Versions {
		return s.model.version(got) // which the first recovery had chosen
	}
	return err
}

// mayBeLost says whether the levels allow that nothing is left.
func (s *crashState) mayBeLost(err error) error {
	if s.levels.Versions || len(s.lost) <= s.levels.Replicas {
		return err
	}
	return nil
}

// reopen uses the file of the store: either no write was accepted, or all are there.
func (s *crashState) reopen(c *Cache) (string, error) {
	f, err := c.Open(background, "x", Options{Create: true, Size: crashSize, Processes: []int{0}, Levels: Levels{Versions: s.levels.Versions}})
	if err != nil {
		return "", err
	}
	got, err := contents(f.Process(0))
	if err == nil {
		err = s.model.legal(got, false)
	}
	return "nothing", errors.Join(err, f.Abandon())
}

// goOn writes more, and stores the file.
func (s *crashState) goOn(c *Cache, f *File, want []byte) error {
	rng := rand.New(rand.NewPCG(s.seed, 3))
	for i := range 3 {
		off := rng.IntN(crashSize - 1000)
		data := random(s.seed+uint64(i), 1000)
		if _, err := f.Process(i%len(f.processes)).WriteAt(data, int64(off)); err != nil {
			return fmt.Errorf("after recovery: %w", err)
		}
		copy(want[off:], data)
	}
	// Nothing that was recovered, nor what came after, is lost at once.
	if err := f.Abandon(); err != nil {
		return err
	}
	levels := s.levels
	if levels.Records || levels.Replicas > 0 {
		after := make([]*memfs.FS, len(s.all))
		for i, m := range s.all {
			after[i] = m.CrashClone(memfs.Crash{Mode: memfs.Lost})
		}
		if levels.Replicas > 0 {
			after[rng.IntN(len(after)-1)] = memfs.New()
		}
		c = cacheOf(after)
	}
	f, _, err := c.Recover(background, "x", Options{})
	if err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	defer f.Abandon()
	if levels.Versions && levels.Replicas == 0 && !levels.Records {
		return f.Abandon() // it goes back to the version
	}
	got, err := contents(f.Process(0))
	if err == nil {
		err = same(got, want)
	}
	return errors.Join(err, f.Close(background))
}

// crashAgain recovers, with failures at every operation of that.
func (s *crashState) crashAgain() error {
	var first error
	copies := make([]*memfs.FS, len(s.all))
	var mu sync.Mutex
	n := 0
	for i, m := range s.all {
		copies[i] = m.CrashClone(memfs.Crash{Mode: memfs.Kept})
		copies[i].AfterOp = func(op, name string) {
			mu.Lock()
			defer mu.Unlock()
			n++
			after := make([]*memfs.FS, len(copies))
			for k := range copies {
				after[k] = copies[k].CrashClone(memfs.Crash{Seed: s.seed + uint64(n)})
			}
			inner := &crashState{levels: s.levels, all: after, model: s.model, lost: s.lost, initial: s.initial, seed: s.seed + uint64(n), again: true}
			if _, err := inner.check(); err != nil && first == nil {
				first = fmt.Errorf("operation %d (%s %s): %w", n, op, name, err)
			}
		}
	}
	f, _, err := cacheOf(copies).Recover(background, "x", Options{})
	if err == nil {
		err = f.Abandon()
	}
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(first, ignoreExpected(err))
}

func ignoreExpected(err error) error {
	if errors.Is(err, ErrNothing) || errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// use opens the file, writes, syncs and closes.
func (r *crashRun) use(seed uint64, writes int, scatter bool) error {
	c := cacheOf(r.all)
	nodes := len(c.Nodes)
	levels := r.levels
	f, err := c.Open(background, "x", Options{Create: true, Size: crashSize, Levels: levels, Processes: onePerNode(nodes)})
	if err != nil {
		return err
	}
	defer f.Abandon()
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range writes {
		if i%5 == 4 {
			r.model.beginSync()
			if err := f.Sync(background); err != nil {
				return err
			}
			r.model.endSync()
			continue
		}
		if scatter { // all processes at the same time, over each other
			err = r.scatter(f, rng)
		} else {
			err = r.write(f.Process(rng.IntN(nodes)), rng.IntN(crashSize), rng)
		}
		if err != nil {
			return err
		}
	}
	if scatter {
		return errors.Join(f.Abandon(), r.checks.Wait())
	}
	r.model.beginSync()
	if err := f.Close(background); err != nil {
		return err
	}
	r.model.endSync()
	return r.checks.Wait()
}

func (r *crashRun) write(p *Process, off int, rng *rand.Rand) error {
	n := 1 + rng.IntN(5000)
	if rng.IntN(3) == 0 {
		n = min(n, 20)
	}
	return r.writeBytes(p, off, random(rng.Uint64(), min(n, crashSize-off)))
}

func (r *crashRun) writeBytes(p *Process, off int, data []byte) error {
	w := r.model.begin(int64(off), data)
	if _, err := p.WriteAt(data, int64(off)); err != nil {
		return err
	}
	r.model.end(w)
	return nil
}

func (r *crashRun) scatter(f *File, rng *rand.Rand) error {
	var all errgroup.Group
	for _, p := range f.processes {
		own := rand.New(rand.NewPCG(rng.Uint64(), 5))
		all.Go(func() error { return r.write(p, own.IntN(crashSize), own) })
	}
	return all.Wait()
}

// The cells of the matrix: every combination of levels that differs in what it keeps.
var crashLevels = []Levels{
	{},
	{Records: true},
	{Replicas: 1},
	{Replicas: 2},
	{Versions: true},
	{Records: true, Versions: true},
	{Replicas: 1, Versions: true},
	{Records: true, Replicas: 1},
	{Records: true, Replicas: 1, Versions: true, Keep: 1},
}

// TestCrashMatrix loses power, processes and nodes after every operation. The
// recovered bytes have all acknowledged writes, and all or nothing of the one that was
// under way; with versions alone they are exactly the last one that is complete.
func TestCrashMatrix(t *testing.T) {
	for i, levels := range crashLevels {
		t.Run(fmt.Sprintf("%+v", levels), func(t *testing.T) {
			t.Parallel()
			seeds := 1
			if nightly() {
				seeds = 4
			}
			states, distinct := 0, 0
			kinds := make(map[string]int)
			for seed := range seeds {
				r := newCrashRun(3+seed%2, levels, uint64(seed), (i+seed)%2 == 0)
				r.nested = true
				switch {
				case nightly():
					r.crash, r.again = 4, 60
				case testkit.Enabled:
					r.step = 19
				default:
					r.step = 5
				}
				check(t, r.use(uint64(seed), 8, false))
				states, distinct = states+r.states, distinct+len(r.seen)
				for k, n := range r.kinds {
					kinds[k] += n
				}
			}
			t.Logf("%d states, %d of them distinct: %v", states, distinct, kinds)
			for _, k := range wanted(levels) {
				if kinds[k] == 0 {
					t.Errorf("no state ended with %q: %v", k, kinds)
				}
			}
		})
	}
}

// wanted returns the results that many failures must have.
func wanted(l Levels) []string {
	list := []string{"nothing"}
	switch {
	case l.Replicas > 0:
		list = append(list, "journal")
	case l.Versions && !l.Records:
		return append(list, "version")
	default:
		list = append(list, "cache")
	}
	if l.Versions {
		list = append(list, "version")
	} else if l.Replicas < 2 {
		list = append(list, "lost")
	}
	return list
}

// TestCrashWithConcurrentWriters has writers over each other's bytes.
func TestCrashWithConcurrentWriters(t *testing.T) {
	for _, levels := range []Levels{{}, {Records: true}, {Replicas: 1}, {Records: true, Replicas: 1}} {
		t.Run(fmt.Sprintf("%+v", levels), func(t *testing.T) {
			t.Parallel()
			seeds := 1
			if nightly() {
				seeds = 10
			}
			for seed := range seeds {
				r := newCrashRun(4, levels, uint64(seed), seed%2 == 0)
				switch {
				case nightly():
					r.step = 3
				case testkit.Enabled:
					r.step = 19
				default:
					r.step = 7
				}
				check(t, r.use(uint64(seed), 4, true))
			}
		})
	}
}

// TestCrashWhileJournalsBeginAgain: half of a request is in a journal that has begun
// again, half in one that has not, and an older request to the same bytes as well.
func TestCrashWhileJournalsBeginAgain(t *testing.T) {
	for _, levels := range []Levels{{Replicas: 1}, {Replicas: 1, Versions: true}} {
		r := newCrashRun(2, levels, 9, true)
		f := must(cacheOf(r.all).Open(background, "x", Options{Size: crashSize, Levels: levels, Processes: []int{0, 1}}))(t)
		chunk := int(f.Layout().Fragment())
		for i := range 3 {
			check(t, r.writeBytes(f.Process(0), chunk-200, random(uint64(i), 100)))
			check(t, r.writeBytes(f.Process(1), chunk+100, random(uint64(i+10), 100)))
			check(t, r.writeBytes(f.Process(0), chunk-300, random(uint64(i+20), 600)))
		}
		r.model.beginSync()
		check(t, f.Sync(background))
		r.model.endSync()
		check(t, f.Abandon())
		check(t, r.checks.Wait())
	}
}

// TestCrashesAreNoticed: a disk that lies about syncs must fail the test above.
func TestCrashesAreNoticed(t *testing.T) {
	for _, levels := range []Levels{{Records: true}, {Replicas: 1}, {Versions: true}} {
		r := newCrashRun(3, levels, 4, true)
		for i, m := range r.all {
			if store := i == len(r.all)-1; store == levels.Versions {
				m.IgnoreSync = true
			}
		}
		if err := r.use(4, 8, false); err == nil {
			t.Errorf("%+v: nothing was noticed", levels)
		}
	}
}
