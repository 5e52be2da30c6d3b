package coordinator

import (
	"sync"
	"time"

	"ckpt/coordinator/launch"
)

// endGrace is how long a run may take to end after the second interrupt.
const endGrace = 2 * time.Second

// attend carries a run out and passes its interrupts on. After the second one it waits
// for endGrace and no longer, whatever the run is blocked in: then the caller gets a
// *LeftError, and should exit.
func attend(opt Options, run func(Options) (*Result, error)) (*Result, error) {
	if opt.Interrupts == nil {
		return run(opt)
	}
	type ending struct {
		result *Result
		err    error
	}
	asked, passed, over := opt.Interrupts, make(chan struct{}, 2), make(chan ending, 1)
	opt.Interrupts, opt.alive = passed, &processes{}
	go func() {
		r, err := run(opt)
		over <- ending{r, err}
	}()
	var late <-chan time.Time
	for n := 0; ; {
		select {
		case e := <-over:
			return e.result, e.err
		case <-asked:
			passed <- struct{}{}
			if n++; n == cap(passed) {
				asked, late = nil, time.After(max(endGrace, opt.grace))
			}
		case <-late:
			return nil, &LeftError{opt.alive.end()}
		}
	}
}

// processes are those of the ranks of a run, for whom it may be blocked.
type processes struct {
	mu    sync.Mutex
	job   string
	of    map[launch.Process]bool
	ended bool
}

// end kills all of them, and those that are started from now on. It does not wait
// for processes that the kernel keeps until the storage answers. It returns the name of
// the job.
func (p *processes) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for proc := range p.of {
		proc.Kill()
	}
	return p.job
}

// known is a launcher that keeps account of its processes.
type known struct {
	launch.Launcher
	alive *processes
}

// knownTo returns a launcher whose processes end with those of a run.
func knownTo(l launch.Launcher, alive *processes, job string) launch.Launcher {
	if alive == nil {
		return l
	}
	alive.mu.Lock()
	defer alive.mu.Unlock()
	alive.job, alive.of = job, make(map[launch.Process]bool)
	return known{l, alive}
}

func (k known) Start(r launch.Rank, ended func(cause string)) (launch.Process, error) {
	p := k.alive
	p.mu.Lock()
	defer p.mu.Unlock()
	var proc launch.Process
	proc, err := k.Launcher.Start(r, func(cause string) {
		p.mu.Lock()
		delete(p.of, proc)
		p.mu.Unlock()
		ended(cause)
	})
	if err != nil {
		return nil, err
	}
	p.of[proc] = true
	if p.ended {
		proc.Kill()
	}
	return proc, nil
}
