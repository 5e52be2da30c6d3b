package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
)

// run runs a job with options, once no other process has it.
func (r *running) run(ctx context.Context, g *ui.Globals, opt *coordinator.Options, run func() (*coordinator.Result, error)) error {
	return r.wait.For(ctx, g, opt.Job, func() error { return runJob(g, opt, run) })
}

// runJob runs a job with options, passes ^C to it, and prints its result.
func runJob(g *ui.Globals, opt *coordinator.Options, run func() (*coordinator.Result, error)) error {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	demanded := make(chan os.Signal, 1)
	signal.Notify(demanded, syscall.SIGUSR2)
	defer signal.Stop(demanded)
	interrupts, checkpoints := make(chan struct{}, 2), make(chan struct{}, 1)
	opt.Interrupts, opt.Checkpoints = interrupts, checkpoints
	over, requeue := make(chan struct{}), false
	var relay sync.WaitGroup
	relay.Go(func() {
		var requests requestFilter
		for {
			select {
			case s := <-signals:
				if requests.isNew(s, time.Now()) {
					requeue = s == syscall.SIGTERM || s == syscall.SIGUSR1
					offer(interrupts) // or the job has two interrupts already
				}
			case <-demanded:
				offer(checkpoints) // or one is asked for already
			case <-over:
				return
			}
		}
	})
	// A closed pipe, as in ckpt launch … | head, must not end the job.
	signal.Ignore(syscall.SIGPIPE)
	undo, err := g.ShareStore()
	if err != nil {
		return err
	}
	finish := g.Spool()
	result, err := run()
	if err != nil {
		undo()
	}
	close(over)
	relay.Wait()
	opt.Observer.(*ui.Narrator).Bar.Clear()
	if result != nil {
		result.Requeue = result.Interrupted && (result.Requeue || requeue)
	}
	shows := result != nil && (err == nil || g.JSON)
	if shows {
		_ = printResult(g, result) // finish tells whether it was written
	}
	silent, werr := finish()
	if shows && werr != nil {
		err = errors.Join(err, werr)
	} else if err == nil {
		err = endOf(result)
	}
	if silent {
		return ui.Wordless(err)
	}
	return err
}

// endOf is the error with which a run ends that did what it was told.
func endOf(result *coordinator.Result) error {
	if !result.Interrupted || result.Outcome == job.StateCompleted {
		return programStatus(result)
	}
	hint := "ckpt restart " + result.Job + " continues the job"
	switch {
	case result.Job == "":
		hint = "the program had not called ckpt_init: nothing is stored"
	case !result.CanRestart():
		hint = "job " + result.Job + " has no checkpoint; launch it again"
	}
	if result.Requeue {
		return ui.WithHint(ui.ErrRequeue, hint)
	}
	return ui.WithHint(ui.ErrInterrupted, hint)
}

// offer puts a token into a channel that has room.
func offer(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

func printResult(g *ui.Globals, r *coordinator.Result) error {
	if g.JSON {
		return json.NewEncoder(g.Out).Encode(r)
	}
	took := time.Duration(r.Wall * float64(time.Second)).Round(time.Millisecond)
	if r.Job == "" {
		return nil // it was not protected
	}
	if r.Outcome != job.StateCompleted {
		return g.Printf("%s: %s after %v, %s\n", r.Job, r.Outcome, took, checkpoints(r))
	}
	if r.Digest == "" { // a program
		return g.Printf("%s: completed in %v, %s, %s\n", r.Job, took, checkpoints(r), ui.Count(r.Failures, "failure"))
	}
	return g.Printf("%s: completed %s in %v, %s, %s\ndigest %s\n", r.Job, ui.Count(r.Iterations, "iteration"), took,
		checkpoints(r), ui.Count(r.Failures, "failure"), r.Digest)
}

// checkpoints counts the checkpoints of a run.
func checkpoints(r *coordinator.Result) string {
	s := ui.Count(r.Checkpoints, "checkpoint")
	var also []string
	if r.Lost > 0 {
		also = append(also, fmt.Sprintf("%d aborted", r.Lost))
	}
	if r.Removed > 0 {
		also = append(also, fmt.Sprintf("%d removed", r.Removed))
	}
	if len(also) > 0 {
		s += " (" + strings.Join(also, ", ") + ")"
	}
	return s
}
