package coordinator

import (
	"time"

	"ckpt/coordinator/launch"
)

// endGrace is how long a run may take to end after the second interrupt.
const endGrace = 2 * time.Second

// attend carries a run out and passes its interrupts on. After the second one it waits
// for endGrace and no longer, whatever the run is blocked in: then the caller gets a
// *LeftError, and should exit.
func attend(opt Options, run func(Options) (*Result, error)) (*Result, error) {
	if opt.Listen != "" {
		var err error
		if opt.Listen, err = listenAddress(opt.Listen); err != nil {
			return nil, err
		}
	}
	if opt.Interrupts == nil {
		return run(opt)
	}
	type ending struct {
		result *Result
		err    error
	}
	asked, passed, over := opt.Interrupts, make(chan struct{}, 2), make(chan ending, 1)
	opt.Interrupts, opt.alive = passed, &launch.Account{}
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
			return nil, &LeftError{opt.alive.Kill()}
		}
	}
}
