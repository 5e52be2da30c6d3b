package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
)

// Options are what the start of a program needs.
type Options struct {
	Want       int  // ranks, 0: as many as the first of them says
	Known      bool // the program has called ckpt_init in an earlier run
	Input      *launch.Input
	Streams    launch.Streams
	Listen     string        // address for ranks of other hosts; empty without
	Silence    time.Duration // after which a rank counts as dead
	Restarts   int           // how often the command may be run again
	Interrupts <-chan struct{}
	Warn       func(string)
}

// Start starts the command of a program and waits for its ranks. If one is lost
// meanwhile, that is a failure like any other: with AutoRestart the command is run again.
func Start(ctx context.Context, spec *job.Spec, opt Options) (*Gathering, error) {
	pause, alike := firstPause, likeness{}
	for try := 1; ; try++ {
		g, err := start(ctx, spec, opt)
		if !spec.AutoRestart || !lostEarly(err) || try > opt.Restarts || alike.again(err) {
			return g, err
		}
		opt.Warn(fmt.Sprintf("%v; the command is run again", err))
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-opt.Interrupts:
			return nil, ErrStopped
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// The pauses before a command is run again whose ranks did not all come.
const (
	firstPause = 80 * time.Millisecond
	lastPause  = 5 * time.Second
)

// lostEarly reports whether ranks, or the command, died before all ranks had come: they may
// take minutes until then. Exit statuses do not tell deaths from failures of the program,
// but a shell's that found no command does.
func lostEarly(err error) bool {
	var early *EarlyError
	if errors.As(err, &early) {
		return !early.foreign() && early.Status != 126 && early.Status != 127
	}
	var gather *GatherError
	return errors.As(err, &gather) && gather.lost
}

// A likeness counts failures of the same kind in a row.
type likeness struct {
	text  string
	since time.Time
	times int
}

// hasty and mostAlike bound the failures of one kind: a command that fails in the same way so often, each time
// within this time and before any rank came, does not do better for being run again.
const (
	hasty     = 2 * time.Second
	mostAlike = 5
)

// again counts a failure, and reports whether the command is not to be run again.
func (l *likeness) again(err error) bool {
	now, text := time.Now(), err.Error()
	var early *EarlyError
	if !errors.As(err, &early) || early.Came > 0 || early.Status == killedStatus || text != l.text || now.Sub(l.since) > hasty+lastPause {
		l.times = 0
	}
	l.text, l.since = text, now
	l.times++
	return l.times >= mostAlike
}

// start does so once.
func start(ctx context.Context, spec *job.Spec, opt Options) (*Gathering, error) {
	p, err := launch.NewProgram(*spec.Program, opt.Input, opt.Streams)
	if err != nil {
		return nil, err
	}
	if lacks := launch.NotPassed(spec.Program.Command); opt.Listen != "" && lacks != "" {
		opt.Warn("the command has an option -x: if it is Open MPI's, no other variables reach other hosts; add " + lacks)
	}
	g, err := newGathering(p, opt)
	if err != nil {
		return nil, err
	}
	if err := g.gather(ctx, opt.Interrupts); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}
