package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

const bucketDir = "/s3:/bucket"

// An incident is what happens to a coordinator at a request.
type incident struct {
	at    int // counts from 1; 0: nothing does
	fate  objecttest.Fate
	kill  bool // no request after it is answered
	pause bool // it stands still until resume is closed
	noise func() objecttest.Fate
	// commit, if not 0, has it stand still before it sends so many manifests.
	commit int
	early  bool // it goes on once its successor has swept, before that takes a checkpoint
	arrive int  // the step of the successor after which requests that are late take effect

	drawing         sync.Mutex // requests may be made at the same time
	count           atomic.Int64
	stopped, resume chan struct{}
}

var errKilled = errors.New("the process was killed")

func (i *incident) meddle(op, key string) objecttest.Fate {
	n := int(i.count.Add(1))
	if i.commit > 0 && op == "put" && path.Base(key) == manifestName {
		if i.commit--; i.commit == 0 {
			i.at, i.pause = n, true
		}
	}
	switch {
	case i.at > 0 && n == i.at && i.pause:
		close(i.stopped)
		<-i.resume
		return objecttest.Fate{}
	case i.at > 0 && n == i.at:
		return i.fate
	case i.at > 0 && n > i.at && i.kill:
		return objecttest.Fate{Err: errKilled}
	case i.noise != nil:
		i.drawing.Lock()
		defer i.drawing.Unlock()
		return i.noise()
	}
	return objecttest.Fate{}
}

// A tenure is the work of a coordinator, and what it knows to be committed.
type tenure struct {
	committed []int
	end       error
}

// work takes checkpoints, removes old ones, and goes on after a checkpoint that was aborted.
func (t *tenure) work(fsys *objectfs.FS) {
	s, err := CreateStore(fsys, bucketDir)
	if err != nil {
		t.end = err
		return
	}
	j, err := s.CreateJob(testJob, []byte("{}\n"))
	if err != nil {
		t.end = err
		return
	}
	k := &taker{fs: fsys, job: j}
	for i := range 4 {
		t.take(k)
		if i == 2 {
			t.prune(k)
		}
	}
	t.end = j.Unlock()
}

func (t *tenure) take(k *taker) {
	n, err := k.job.Next()
	if err == nil {
		k.forget()
		_, err = k.take(n)
	}
	if err == nil {
		t.committed = append(t.committed, n)
	}
	t.end = err
}

func (t *tenure) prune(k *taker) {
	keep := t.committed
	if len(keep) > 2 {
		keep = keep[len(keep)-2:]
	}
	t.committed = slices.Clone(keep)
	if _, _, err := k.job.Prune(2); err == nil {
		_, _ = k.job.Sweep()
	}
}

// checkAll checks that a job has some checkpoints, and that all it has are whole. Those that are
// older were being pruned: the removal of their manifests may have been late.
func checkAll(j *Job, some []int) error {
	all, err := j.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range some {
		if !slices.Contains(all, n) {
			return fmt.Errorf("checkpoint %d was committed, and only %v are there", n, all)
		}
	}
	for _, n := range all {
		err := checkCheckpoint(j, n)
		if pruned := len(some) > 0 && n < some[0]; err != nil && !(pruned && errors.Is(err, ErrCheckpointNotFound)) {
			return err
		}
	}
	return nil
}

// A world is a bucket for schedules, with parts of a length that it takes.
type world struct {
	*objecttest.World
	part int64
}

func (w world) open(meddle func(op, key string) objecttest.Fate) *objectfs.FS {
	f := objectfs.New(w.As(meddle), bucketDir)
	f.Alone(w.part)
	return f
}

// modelPart is a length of parts with which most images have some.
const modelPart = 16 << 10

// newWorld returns a model whose clock the test moves.
func newWorld() world {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return world{objecttest.NewWorld(objecttest.NewMemory(func() time.Time { return now })), modelPart}
}

// schedule has a coordinator meet an incident, and a successor take over.
func schedule(w world, i *incident) error {
	i.stopped, i.resume = make(chan struct{}), make(chan struct{})
	first, ended := &tenure{}, make(chan struct{})
	go func() {
		defer close(ended)
		first.work(w.open(i.meddle))
	}()
	select {
	case <-i.stopped:
	case <-ended:
	}
	w.Forward(time.Minute)
	step := 0
	arrive := func() {
		if step++; step == i.arrive {
			w.Arrive()
		}
	}
	arrive()
	k, err := reopen(w.open(nil), bucketDir)
	if errors.Is(err, ErrInUse) { // a renewal of the lease was late
		w.Forward(time.Minute)
		k, err = reopen(w.open(nil), bucketDir)
	}
	if errors.Is(err, ErrNoStore) || errors.Is(err, ErrJobNotFound) {
		close(i.resume)
		<-ended
		return nil // it came to no checkpoint; if it goes on, nobody is in its way
	}
	if err != nil {
		return err
	}
	arrive()
	second, kept := &tenure{}, slices.Clone(first.committed)
	if err := checkAll(k.job, kept); err != nil {
		return fmt.Errorf("after the incident: %w", err)
	}
	if _, err := k.job.Sweep(); err != nil {
		return err
	}
	if i.early {
		close(i.resume)
		<-ended
	}
	arrive()
	if second.take(k); second.end != nil {
		return fmt.Errorf("the successor's checkpoint: %w", second.end)
	}
	if !i.early {
		close(i.resume)
		<-ended
	}
	arrive()
	mine, err := k.job.Checkpoints()
	if err != nil {
		return err
	}
	j, err := again(w)
	if err != nil {
		return err
	}
	there, err := j.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range there {
		if !slices.Contains(mine, n) {
			return fmt.Errorf("checkpoint %d was committed by the coordinator that was fenced; its successor has %v", n, mine)
		}
	}
	// A request of the first that was on its way may have removed what it had pruned before.
	if err := checkAll(j, append(kept, second.committed...)); err != nil {
		return fmt.Errorf("after the first went on: %w", err)
	}
	if second.take(k); second.end != nil {
		return fmt.Errorf("the successor's last checkpoint: %w", second.end)
	}
	w.Arrive()
	if j, err = again(w); err != nil {
		return err
	}
	if err := checkAll(j, append(kept, second.committed...)); err != nil {
		return fmt.Errorf("at last: %w", err)
	}
	return nil
}

// again returns the job as a process sees it that comes now.
func again(w world) (*Job, error) {
	s, err := OpenStore(w.open(nil), bucketDir)
	if err != nil {
		return nil, err
	}
	return s.Job(testJob)
}

// length returns how many requests a tenure without incidents makes.
func length(t *testing.T, part int) int {
	i, first, w := &incident{}, &tenure{}, newWorld()
	w.part = int64(part)
	first.work(w.open(i.meddle))
	if first.end != nil || len(first.committed) != 3 {
		t.Fatal(first.committed, first.end)
	}
	return int(i.count.Load())
}

// TestObjectSchedules kills a coordinator at a request, or has it stand still there until a
// successor has taken over, while some requests fail: no half checkpoint is accepted, no
// committed one is lost, the successor goes on, the first cannot commit.
func TestObjectSchedules(t *testing.T) {
	t.Parallel()
	requests, n := length(t, modelPart), 60
	if testkit.Nightly() {
		n = 10_000
	}
	for seed := range uint64(n) {
		w := newWorld()
		i := drawIncident(seed, requests, w)
		if err := schedule(w, i); err != nil {
			t.Errorf("seed %d, %v: %v", seed, i, err)
		}
	}
}

func (i *incident) String() string {
	return fmt.Sprintf("request %d, %+v, killed %v, stands still %v (manifest %d, early %v), late until step %d, noise %v",
		i.at, i.fate, i.kill, i.pause, i.commit, i.early, i.arrive, i.noise != nil)
}

// drawIncident draws what happens to a coordinator.
func drawIncident(seed uint64, requests int, w world) *incident {
	rng := rand.New(rand.NewPCG(seed, 44))
	i := &incident{at: 1 + rng.IntN(requests), arrive: rng.IntN(6)}
	switch rng.IntN(4) {
	case 0:
		i.kill, i.fate = true, objecttest.Fate{Err: errKilled}
	case 1:
		i.kill, i.fate = true, objecttest.Fate{Err: errKilled, Done: true}
	case 2:
		i.kill, i.fate = true, objecttest.Fate{Err: errKilled, Late: true}
	case 3:
		if i.pause, i.early = true, rng.IntN(2) == 0; rng.IntN(2) == 0 {
			i.at, i.pause, i.commit = 0, false, 1+rng.IntN(4)
		}
	}
	if rng.IntN(2) == 0 {
		i.noise = func() objecttest.Fate {
			if rng.IntN(8) == 0 {
				w.Arrive()
			}
			return fate(rng, 0.05)
		}
	}
	return i
}

// fate draws what becomes of a request that the storage may answer so.
func fate(rng *rand.Rand, chance float64) objecttest.Fate {
	if rng.Float64() > chance {
		return objecttest.Fate{}
	}
	f := objecttest.Fate{Err: objectfs.ErrTransient, Done: rng.IntN(2) == 0}
	switch rng.IntN(5) {
	case 0:
		f.Err = objectfs.ErrPrecondition
	case 1:
		return objecttest.Fate{Cut: true}
	case 2:
		f.Late = true
	}
	return f
}

// TestObjectFaults has each request in turn fail in each way, once or for good: the job lives,
// and what it commits is whole.
func TestObjectFaults(t *testing.T) {
	t.Parallel()
	requests := length(t, modelPart)
	step := 17
	if testkit.Nightly() {
		step = 1
	}
	kinds := []objecttest.Fate{{Err: objectfs.ErrTransient}, {Err: objectfs.ErrTransient, Done: true}, {Cut: true},
		{Err: objectfs.ErrPrecondition}, {Err: objectfs.ErrPrecondition, Done: true}, {Err: context.DeadlineExceeded, Done: true}}
	for _, k := range kinds {
		for at := 1; at <= requests; at += step {
			w, first := newWorld(), &tenure{}
			i := &incident{at: at, fate: k}
			first.work(w.open(i.meddle))
			s, err := OpenStore(w.open(nil), bucketDir)
			if err != nil {
				if first.end == nil {
					t.Errorf("request %d, %v: %v", at, k, err)
				}
				continue // the launch was refused
			}
			j, err := s.Job(testJob)
			if err == nil {
				err = checkAll(j, first.committed)
			}
			if err != nil && !(errors.Is(err, ErrJobNotFound) && first.end != nil) {
				t.Errorf("request %d, %+v: %v (end %v)", at, k, err, first.end)
			}
			if errors.Is(k.Err, objectfs.ErrTransient) && first.end != nil {
				t.Errorf("request %d, %+v: one failure ends the work: %v", at, k, first.end)
			}
		}
	}
}

// TestCopyForbidden: a copy leaves out the number at which one before it was killed, and copies the
// others.
func TestCopyForbidden(t *testing.T) {
	t.Parallel()
	k, w := taken(t, 3), newWorld()
	fsys := w.open(nil)
	s, err := CreateStore(fsys, bucketDir+"/copy")
	if err != nil {
		t.Fatal(err)
	}
	c := &JobCopy{From: k.job, To: s}
	if err := c.Run(context.Background(), []int{1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fsys.Mkdir(c.to.NumberDir(2)), fsys.Forbid(c.to.manifestPath(2))); err != nil {
		t.Fatal(err)
	}
	plan, err := c.Plan([]int{1, 2, 3})
	if !errors.Is(err, vfs.ErrForbidden) || !slices.Equal(plan.Forbidden, []int{2}) {
		t.Errorf("planned %+v, %v", plan, err)
	}
	if err = c.Run(context.Background(), []int{1, 2, 3}); !errors.Is(err, vfs.ErrForbidden) || !slices.Equal(c.Forbidden, []int{2}) || !slices.Equal(c.Checkpoints, []int{3}) {
		t.Errorf("copied %+v, %v", c.Copied, err)
	}
	if err := checkAll(c.to, []int{1, 3}); err != nil {
		t.Error(err)
	}
	if err = c.Run(context.Background(), []int{2}); !errors.Is(err, vfs.ErrForbidden) {
		t.Errorf("alone: %v", err)
	}
	c.Keep = Retention{Last: 1} // the number is not needed
	if err = c.Run(context.Background(), []int{1, 2, 3}); err != nil || !slices.Equal(c.LeftOut, []int{2}) {
		t.Errorf("copied %+v, %v", c.Copied, err)
	}
}
