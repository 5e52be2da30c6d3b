package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator"
)

// runJob runs a job, passes ^C to it, and prints its result.
func (g *globals) runJob(ctx context.Context, run func(context.Context, <-chan struct{}) (*coordinator.Result, error)) error {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	interrupts := make(chan struct{}, 2)
	over := make(chan struct{})
	var relay sync.WaitGroup
	relay.Go(func() {
		for {
			select {
			case <-signals:
				select {
				case interrupts <- struct{}{}:
				default: // the job has two interrupts already
				}
			case <-over:
				return
			}
		}
	})
	// A closed pipe, as in ckpt launch … | head, must not end the job.
	signal.Ignore(syscall.SIGPIPE)
	result, err := run(ctx, interrupts)
	close(over)
	relay.Wait()
	g.narrator.bar.clear()
	if result != nil && (err == nil || g.json) {
		if perr := g.printResult(result); perr != nil {
			return errors.Join(err, perr)
		}
	}
	if err == nil && result.Interrupted && result.Outcome != coordinator.StateCompleted {
		hint := "ckpt restart " + result.Job + " continues the job"
		if !result.CanRestart() {
			hint = "job " + result.Job + " has no checkpoint; launch it again"
		}
		return hinted{errInterrupted, hint}
	}
	return err
}

func (g *globals) printResult(r *coordinator.Result) error {
	if g.json {
		return json.NewEncoder(g.out).Encode(r)
	}
	took := time.Duration(r.Wall * float64(time.Second)).Round(time.Millisecond)
	if r.Outcome != coordinator.StateCompleted {
		return g.printf("%s: %s after %v, %s\n", r.Job, r.Outcome, took, checkpoints(r))
	}
	return g.printf("%s: completed %s in %v, %s, %s\ndigest %s\n", r.Job, count(r.Iterations, "iteration"), took,
		checkpoints(r), count(r.Failures, "failure"), r.Digest)
}

// checkpoints counts the checkpoints of a run.
func checkpoints(r *coordinator.Result) string {
	s := count(r.Checkpoints, "checkpoint")
	if r.Lost > 0 {
		s += fmt.Sprintf(" (%d aborted)", r.Lost)
	}
	return s
}

// narrator prints the events of a job, as lines or as JSON lines, with a progress
// bar below them on a terminal.
type narrator struct {
	g   *globals
	mu  sync.Mutex
	bar *bar
}

func (n *narrator) Warn(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bar.clear()
	n.g.warn("%s", oneLine(text))
}

func (n *narrator) Event(ev any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := ev.(*coordinator.ProgressEvent); ok {
		if n.bar == nil {
			n.bar = n.g.newBar("iteration", int64(p.Iterations), false)
		}
		n.bar.set(int64(p.Iteration))
		return
	}
	n.bar.clear()
	if n.g.json {
		_ = json.NewEncoder(n.g.out).Encode(ev) // a closed pipe must not end the job
		return
	}
	if n.g.quiet {
		return
	}
	_ = n.g.printf("%s\n", describe(ev))
	if cp, ok := ev.(*coordinator.CheckpointEvent); ok && n.g.verbose {
		l := cp.Latency
		_ = n.g.printf("  %s coordination + %s management + %s storage; the application stood still for %s\n",
			seconds(l.Coordination), seconds(l.Management), seconds(l.Storage), seconds(cp.Pause))
	}
}

// ranks names consecutive ranks, such as those of a group.
func ranks(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d", list[0])
	}
	return fmt.Sprintf("ranks %d-%d", list[0], list[len(list)-1])
}

// recovery describes the cost of a failure.
func recovery(ev *coordinator.RecoveryEvent) string {
	var from []string
	var numbers []int
	for _, n := range ev.From {
		if n > 0 {
			numbers = append(numbers, n)
		} else if len(from) == 0 {
			from = []string{"the beginning"}
		}
	}
	slices.Sort(numbers)
	switch n := len(numbers); {
	case n > 2:
		from = append(from, fmt.Sprintf("checkpoints %d to %d", numbers[0], numbers[n-1]))
	case n == 2:
		from = append(from, fmt.Sprintf("checkpoints %d and %d", numbers[0], numbers[1]))
	case n == 1:
		from = append(from, fmt.Sprintf("checkpoint %d", numbers[0]))
	}
	lost := 0
	for _, n := range ev.Iterations {
		lost = max(lost, n)
	}
	return fmt.Sprintf("restarting %s from %s; %s lost at most", count(ev.Ranks, "rank"), strings.Join(from, ", "), count(lost, "iteration"))
}

// describe puts an event into one line.
func describe(ev any) string {
	switch ev := ev.(type) {
	case *coordinator.StartEvent:
		at := "from the beginning"
		switch {
		case len(ev.Line) > 1 && slices.Max(ev.Line) > 0:
			at = fmt.Sprintf("from their recovery line, iteration %d on", ev.Iteration)
		case ev.From > 0:
			at = fmt.Sprintf("from checkpoint %d (iteration %d)", ev.From, ev.Iteration)
		}
		return fmt.Sprintf("%s: %s on %s (%s) compute %s", ev.Job, count(ev.NP, "rank"), count(len(ev.Mapping), "node"), ev.Mapping, at)
	case *coordinator.CheckpointEvent:
		of := ""
		if len(ev.Of) > 0 {
			of = " of " + ranks(ev.Of)
		}
		return fmt.Sprintf("checkpoint %d%s at iteration %d: %s MiB stored in %s", ev.Number, of, ev.Iteration,
			mib(ev.StoredBytes), seconds(ev.Latency.Total))
	case *coordinator.LostEvent:
		if ev.Rank < 0 {
			return fmt.Sprintf("checkpoint %d aborted: %s", ev.Number, ev.Reason)
		}
		return fmt.Sprintf("checkpoint %d aborted: rank %d: %s", ev.Number, ev.Rank, ev.Reason)
	case *coordinator.FailureEvent:
		if ev.Rank < 0 {
			return "the ranks " + ev.Reason
		}
		return fmt.Sprintf("rank %d on node %d %s at iteration %d", ev.Rank, ev.Node, ev.Reason, ev.Iteration)
	case *coordinator.BackoffEvent:
		of := ""
		if len(ev.Of) > 0 {
			of = " of " + ranks(ev.Of)
		}
		return fmt.Sprintf("%s%s got no further: the next comes after %s, and ranks may give no sign of life for %s",
			count(ev.Restarts, "restart"), of, seconds(ev.Pause), seconds(ev.Silence))
	case *coordinator.OutputEvent:
		return fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	case *coordinator.RecoveryEvent:
		return recovery(ev)
	case *coordinator.RestartEvent:
		line := fmt.Sprintf("restarting %s from checkpoint %d (iteration %d)", count(ev.Ranks, "rank"), ev.From, ev.Iteration)
		if ev.From == 0 {
			line = fmt.Sprintf("restarting %s from the beginning", count(ev.Ranks, "rank"))
		}
		if ev.Unusable != "" {
			line = ev.Unusable + "; " + line
		}
		return line
	}
	return fmt.Sprintf("%T", ev)
}
