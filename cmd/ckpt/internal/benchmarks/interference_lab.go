package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
	"ckpt/image/iosched"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/slowfs"
)

// An interferenceLab runs jobs and measures them.
type interferenceLab struct {
	g        *ui.Globals
	mixture  mixture
	policies []string
	rounds   int

	// Of the storage that is measured now:
	dir    string
	fsys   vfs.FS
	jobs   []*contender
	reader *reader
}

// measure measures the storage as it is, and throttled.
func (l *interferenceLab) measure(ctx context.Context, out *interference, dir string, disk *slowfs.Model, auto bool) error {
	if err := l.checkSpace(dir); err != nil {
		return err
	}
	if os.Getenv(slowfs.Variable) != "" {
		return ui.BadUsage(slowfs.Variable+" is set", "unset it and give --throttle, so that both are measured: the storage as it is, and throttled")
	}
	steps := int64(l.rounds * len(l.policies))
	both := auto || disk != nil
	if both {
		steps *= 2
	}
	bar := l.g.NewBar("policies", steps, false)
	defer bar.Clear()
	done := int64(0)
	add := func() { done++; bar.Set(done) }
	plain, err := l.storage(ctx, dir, "as it is", nil, add)
	if err != nil {
		return err
	}
	out.Storages = append(out.Storages, plain)
	if auto {
		disk = autoDisk(plain)
	}
	if disk != nil {
		slow, err := l.storage(ctx, dir, "throttled", disk, add)
		if err != nil {
			return err
		}
		out.Storages = append(out.Storages, slow)
	}
	return nil
}

// autoDisk describes a disk on which a checkpoint of the first job takes about a second. Its
// seeks are to its rate as on a disk of 50 MB/s with 9 ms.
func autoDisk(plain *interferenceStorage) *slowfs.Model {
	rate := max(float64(plain.stored)/0.6, 1e6)
	seek := time.Duration(9e6 * 50e6 / rate).Round(10 * time.Microsecond)
	return &slowfs.Model{Rate: rate, Read: rate, Seek: seek, Unit: slowfs.DefaultUnit}
}

// checkSpace refuses a directory that is too small.
func (l *interferenceLab) checkSpace(dir string) error {
	need := l.mixture.reader
	for _, inst := range l.mixture.apps {
		n, err := contenderBytes(inst)
		if err != nil {
			return err
		}
		need += n
	}
	free, err := vfs.OS{}.Free(dir)
	if err != nil {
		return err
	}
	if need > free {
		return ui.WithHint(fmt.Errorf("%s has %s MiB of free space, the jobs need %s", dir, ui.MiB(free), ui.MiB(need)), "free space, or name smaller jobs")
	}
	return nil
}

// storage measures one storage: DIR, throttled or not.
func (l *interferenceLab) storage(ctx context.Context, parent, name string, disk *slowfs.Model, add func()) (s *interferenceStorage, err error) {
	if l.dir, err = os.MkdirTemp(parent, "ckpt-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return nil, err
	}
	s = &interferenceStorage{Name: name}
	l.fsys = vfs.OS{}
	if disk != nil {
		m := *disk
		m.Dir = l.dir
		if err := os.Setenv(slowfs.Variable, m.String()); err != nil {
			return nil, err
		}
		defer os.Unsetenv(slowfs.Variable)
		if l.fsys, err = slowfs.Open(vfs.OS{}, m); err != nil {
			return nil, err
		}
		s.Disk = fmt.Sprintf("%.0f MB/s, seek %v", disk.Rate/1e6, disk.Seek)
	}
	defer l.stop()
	if err := l.start(ctx, s); err != nil {
		return nil, err
	}
	err = inTurns(l.rounds, len(l.policies), func(round, i int) error {
		run, err := l.policy(ctx, l.policies[i])
		if err != nil {
			return fmt.Errorf("policy %s: %w", l.policies[i], err)
		}
		run.round, run.policy = round, l.policies[i]
		s.runs = append(s.runs, run)
		add()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.summarise(l.policies)
	return s, nil
}

// start starts the jobs, and has each take a checkpoint that does not count: it stores the
// library, and meets buffers that nothing has touched.
func (l *interferenceLab) start(ctx context.Context, s *interferenceStorage) error {
	l.jobs, l.reader = nil, nil
	store := filepath.Join(l.dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		return err
	}
	for i, inst := range l.mixture.apps {
		l.jobs = append(l.jobs, contend(ctx, l.g, inst, l.fsys, store, fmt.Sprintf("job-%d", i+1)))
	}
	err := each(l.jobs, func(i int, c *contender) error {
		if err := c.standStill(ctx); err != nil {
			return err
		}
		e, err := c.checkpoint(ctx)
		if i == 0 {
			s.stored = e.stored
		}
		return err
	})
	if err != nil {
		return err
	}
	if l.mixture.reader == 0 {
		return nil
	}
	l.reader, err = newReader(l.fsys, l.dir, filepath.Join(l.dir, "results"), l.mixture.reader)
	return err
}

// stop ends the jobs.
func (l *interferenceLab) stop() {
	var wg sync.WaitGroup
	for _, c := range l.jobs {
		wg.Go(c.stop)
	}
	wg.Wait()
	if l.reader != nil {
		l.reader.close()
	}
	l.jobs, l.reader = nil, nil
}

// An interferenceRun is all that one policy did in one round. Times are in seconds.
type interferenceRun struct {
	policy string
	round  int

	jobs  together // the jobs at the same time
	mixed together // the first job beside the reader
	alone []float64
	// files are the times of files that the reader read beside the job, and alone.
	files, filesAlone []float64
}

// together is what some did at the same time.
type together struct {
	flows []float64 // of each job
	total float64   // until the last was done
}

// policy measures all cases under one policy.
func (l *interferenceLab) policy(ctx context.Context, name string) (run *interferenceRun, err error) {
	if name != none {
		var stop func() error
		if stop, err = serveTurns(ctx, l.dir, name); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	run = &interferenceRun{}
	if len(l.jobs) > 1 {
		if run.jobs, err = l.atOnce(ctx, l.jobs); err != nil {
			return nil, err
		}
	}
	alone := l.jobs[:1]
	if name == none {
		alone = l.jobs
	}
	for _, c := range alone {
		t, err := l.atOnce(ctx, []*contender{c})
		if err != nil {
			return nil, err
		}
		run.alone = append(run.alone, t.flows[0])
	}
	if l.reader == nil {
		return run, nil
	}
	for range readerFiles {
		took, err := l.reader.read()
		if err != nil {
			return nil, err
		}
		run.filesAlone = append(run.filesAlone, took.Seconds())
	}
	run.mixed, run.files, err = l.beside(ctx)
	return run, err
}

// prepare has jobs stand still for a checkpoint, when all jobs have done their housework
// after the last one.
func (l *interferenceLab) prepare(ctx context.Context, jobs []*contender) error {
	for _, c := range l.jobs {
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	return each(jobs, func(_ int, c *contender) error { return c.standStill(ctx) })
}

// each does something to all jobs at the same time.
func each(jobs []*contender, do func(int, *contender) error) error {
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, c := range jobs {
		wg.Go(func() { errs[i] = do(i, c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// atOnce has jobs write a checkpoint at the same time.
func (l *interferenceLab) atOnce(ctx context.Context, jobs []*contender) (t together, err error) {
	if err := l.prepare(ctx, jobs); err != nil {
		return t, err
	}
	return l.write(ctx, jobs)
}

// write has jobs write that stand still.
func (l *interferenceLab) write(ctx context.Context, jobs []*contender) (t together, err error) {
	t.flows = make([]float64, len(jobs))
	begin := time.Now()
	err = each(jobs, func(i int, c *contender) error {
		e, err := c.checkpoint(ctx)
		t.flows[i] = e.at.Sub(begin).Seconds()
		return err
	})
	t.total = slices.Max(t.flows)
	return t, err
}

// beside has the first job write a checkpoint while the reader reads.
func (l *interferenceLab) beside(ctx context.Context) (t together, files []float64, err error) {
	busy, read := make(chan struct{}), make(chan reading, 1)
	if err := l.prepare(ctx, l.jobs[:1]); err != nil {
		return t, nil, err
	}
	begin := time.Now()
	go func() { read <- l.reader.during(ctx, busy) }()
	t, err = l.write(ctx, l.jobs[:1])
	close(busy)
	found := <-read
	if err := errors.Join(err, found.err); err != nil {
		return t, nil, err
	}
	t.total = max(t.total, found.end.Sub(begin).Seconds())
	return t, found.times, nil
}

var errControllerEnded = errors.New("the controller has ended by itself")

// serveTurns runs a controller until stop is called.
func serveTurns(ctx context.Context, dir, policy string) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		over <- turns.Serve(ctx, dir, turns.ServeOptions{Arbiter: iosched.TurnOptions{Policy: policy}})
	}()
	stop = func() error {
		select {
		case err := <-over: // what was measured since was measured without turns
			cancel()
			return errors.Join(errControllerEnded, err)
		default:
		}
		cancel()
		if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	for {
		if _, err := turns.Find(vfs.OS{}, dir); err == nil {
			return stop, nil
		} else if !errors.Is(err, turns.ErrNone) {
			return nil, errors.Join(err, stop())
		}
		select {
		case err := <-over:
			cancel()
			return nil, errors.Join(errControllerEnded, err)
		case <-time.After(time.Millisecond):
		}
	}
}
