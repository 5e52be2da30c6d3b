package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/internal/objectfs"
	"ckpt/internal/testkit"
)

const bucketDir = "/s3:/bucket"

// objectFS returns a file system on a bucket that does nothing by itself, with parts so short
// that most images have some.
func objectFS(b objectfs.Bucket) *objectfs.FS {
	f := objectfs.New(b, bucketDir)
	f.Alone(16 << 10)
	return f
}

// An incident is what happens to a coordinator at a request.
type incident struct {
	at    int // counts from 1; 0: nothing does
	fate  objectfs.Fate
	kill  bool // no request after it is answered
	pause bool // it stands still until resume is closed
	noise func() objectfs.Fate
	// commit, if not 0, has it stand still before it sends so many manifests.
	commit int
	early  bool // it goes on once its successor has swept, before that takes a checkpoint

	count           atomic.Int64
	stopped, resume chan struct{}
}

var errKilled = errors.New("the process was killed")

func (i *incident) meddle(op, key string) objectfs.Fate {
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
		return objectfs.Fate{}
	case i.at > 0 && n == i.at:
		return i.fate
	case i.at > 0 && n > i.at && i.kill:
		return objectfs.Fate{Err: errKilled}
	case i.noise != nil:
		return i.noise()
	}
	return objectfs.Fate{}
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

// checkAll checks that a job has some checkpoints, and that all it has are whole.
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
		if err := checkCheckpoint(j, n); err != nil {
			return err
		}
	}
	return nil
}

// schedule has a coordinator meet an incident, and a successor take over.
func schedule(b *objectfs.Memory, forward func(time.Duration), i *incident) error {
	i.stopped, i.resume = make(chan struct{}), make(chan struct{})
	first, ended := &tenure{}, make(chan struct{})
	go func() {
		defer close(ended)
		first.work(objectFS(b.As(i.meddle)))
	}()
	select {
	case <-i.stopped:
	case <-ended:
	}
	forward(time.Minute)
	k, err := reopen(objectFS(b.As(nil)), bucketDir)
	if errors.Is(err, ErrNoStore) || errors.Is(err, ErrJobNotFound) {
		close(i.resume)
		<-ended
		return nil // it came to no checkpoint; if it goes on, nobody is in its way
	}
	if err != nil {
		return err
	}
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
	if second.take(k); second.end != nil {
		return fmt.Errorf("the successor's checkpoint: %w", second.end)
	}
	if !i.early {
		close(i.resume)
		<-ended
	}
	mine, err := k.job.Checkpoints()
	if err != nil {
		return err
	}
	last, err := OpenStore(objectFS(b.As(nil)), bucketDir)
	if err != nil {
		return err
	}
	j, err := last.Job(testJob)
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
	return nil
}

// newBucket returns a model whose clock the test moves.
func newBucket() (*objectfs.Memory, func(time.Duration)) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var ahead atomic.Int64
	return objectfs.NewMemory(func() time.Time { return now.Add(time.Duration(ahead.Load())) }), func(d time.Duration) { ahead.Add(int64(d)) }
}

// length returns how many requests a tenure without incidents makes.
func length(t *testing.T) int {
	b, _ := newBucket()
	i, first := &incident{}, &tenure{}
	first.work(objectFS(b.As(i.meddle)))
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
	requests, n := length(t), 60
	if testkit.Nightly() {
		n = 10_000
	}
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 44))
		i := &incident{at: 1 + rng.IntN(requests)}
		switch rng.IntN(3) {
		case 0:
			i.kill, i.fate = true, objectfs.Fate{Err: errKilled}
		case 1:
			i.kill, i.fate = true, objectfs.Fate{Err: errKilled, Done: true}
		case 2:
			if i.pause, i.early = true, rng.IntN(2) == 0; rng.IntN(2) == 0 {
				i.at, i.pause, i.commit = 0, false, 1+rng.IntN(4)
			}
		}
		if rng.IntN(2) == 0 {
			i.noise = func() objectfs.Fate { return fate(rng, 0.05) }
		}
		b, forward := newBucket()
		if err := schedule(b, forward, i); err != nil {
			t.Errorf("seed %d, %+v: %v", seed, i.at, err)
		}
	}
}

// fate draws what becomes of a request that the storage may answer so.
func fate(rng *rand.Rand, chance float64) objectfs.Fate {
	if rng.Float64() > chance {
		return objectfs.Fate{}
	}
	f := objectfs.Fate{Err: objectfs.ErrTransient, Done: rng.IntN(2) == 0}
	switch rng.IntN(4) {
	case 0:
		f.Err = objectfs.ErrPrecondition
	case 1:
		return objectfs.Fate{Cut: true}
	}
	return f
}

// TestObjectFaults has each request in turn fail in each way, once or for good: the job lives,
// and what it commits is whole.
func TestObjectFaults(t *testing.T) {
	t.Parallel()
	requests := length(t)
	step := 17
	if testkit.Nightly() {
		step = 1
	}
	kinds := []objectfs.Fate{{Err: objectfs.ErrTransient}, {Err: objectfs.ErrTransient, Done: true}, {Cut: true},
		{Err: objectfs.ErrPrecondition}, {Err: objectfs.ErrPrecondition, Done: true}, {Err: context.DeadlineExceeded, Done: true}}
	for _, k := range kinds {
		for at := 1; at <= requests; at += step {
			b, _ := newBucket()
			first := &tenure{}
			i := &incident{at: at, fate: k}
			first.work(objectFS(b.As(i.meddle)))
			s, err := OpenStore(objectFS(b.As(nil)), bucketDir)
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
