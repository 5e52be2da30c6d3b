package launch

import (
	"sync"
)

// An Account has the processes of a run, so that they can be killed although the run is
// blocked.
type Account struct {
	mu    sync.Mutex
	job   string
	of    map[Process]bool
	ended bool
}

// Kill kills all processes, and those that are started from now on. It does not wait for
// processes that the kernel keeps until the storage answers. It returns the name of the
// job.
func (p *Account) Kill() string {
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
	Launcher
	alive *Account
}

// WithAccount returns a launcher that enters its processes in an account; without one it
// returns l.
func WithAccount(l Launcher, alive *Account, job string) Launcher {
	if alive == nil {
		return l
	}
	alive.mu.Lock()
	defer alive.mu.Unlock()
	alive.job, alive.of = job, make(map[Process]bool)
	return known{l, alive}
}

func (k known) Start(r Rank, ended func(cause string)) (Process, error) {
	p := k.alive
	p.mu.Lock()
	defer p.mu.Unlock()
	var proc Process
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
