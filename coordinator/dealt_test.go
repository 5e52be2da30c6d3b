package coordinator

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/program"
)

// dealt restarts the program of a run with another description of it, or as launched if
// that is nil.
func dealt(t *testing.T, was Options, f *fakeProgram, np int) (*Result, *recorder, string, error) {
	t.Helper()
	rec := &recorder{t: t}
	var out bytes.Buffer
	was.Observer, was.Streams = rec, launch.Streams{Out: &out, Err: &out}
	opt := RestartOptions{Options: was, NP: np}
	if f != nil {
		opt.Command = f.command()
	}
	r, err := Restart(t.Context(), opt)
	return r, rec, out.String(), err
}

// TestProgramDealt restarts a program with three, five and again four ranks, of which one
// dies each time. Each cell of its array has the sum of an undisturbed run.
func TestProgramDealt(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 4, Steps: 60, Pause: 2 * time.Millisecond, Cells: 1000, Dies: 15, Deaths: 1}
	var kept Options
	_, _, _, err := launchFake(t, f, func(s *job.Spec, o *Options) { s.Schedule.Every, kept = 10, *o })
	if err == nil {
		t.Fatal("the program did not die")
	}
	for i, ranks := range []int{3, 5} {
		now := f
		now.Ranks, now.Dies = ranks, 15+10*(i+1)
		_, rec, _, err := dealt(t, kept, &now, 0)
		start := eventsOf[*StartEvent](rec)
		if err == nil || len(start) != 1 || start[0].NP != ranks || start[0].Iteration != 10*(i+1) {
			t.Fatalf("with %d ranks: %v, start %+v", ranks, err, start)
		}
	}
	if run := measureRun(t, kept); len(run.Checkpoints) != 1 || run.Checkpoints[0].Ranks != 4 {
		t.Errorf("measured %+v", run.Checkpoints)
	}
	f.Dies = 0
	_, rec, out, err := dealt(t, kept, &f, 4)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, f, out)
	if start := eventsOf[*StartEvent](rec); start[0].NP != 4 || start[0].Iteration != 30 {
		t.Errorf("start %+v", start)
	}
}

// TestNotDealt: what another number of ranks cannot resume from is refused, and the
// checkpoints stay.
func TestNotDealt(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 2, Steps: 30, Pause: 2 * time.Millisecond, Cells: 10, Protect: 1, Dies: 15, Deaths: 1}
	var kept Options
	if _, _, _, err := launchFake(t, f, func(s *job.Spec, o *Options) { s.Schedule.Every, kept = 10, *o }); err == nil {
		t.Fatal("the program did not die")
	}
	other := f
	other.Ranks = 3
	var usage *job.UsageError
	if _, _, _, err := dealt(t, kept, nil, 3); !errors.As(err, &usage) {
		t.Errorf("no command: %v", err)
	}
	var refused *job.DealError
	if _, _, _, err := dealt(t, kept, &other, 0); !errors.As(err, &refused) || !strings.Contains(err.Error(), `region "sum"`) {
		t.Errorf("memory of one rank: %v", err)
	}
	var gather *program.GatherError
	if _, _, _, err := dealt(t, kept, &other, 2); !errors.As(err, &gather) {
		t.Errorf("another number than was asked for: %v", err)
	}
	f.Dies = 0
	if _, _, out, err := dealt(t, kept, &f, 0); err != nil {
		t.Error(err)
	} else {
		checkSums(t, f, out)
	}
}

// TestGreedyRank: parts that do not make up an array are no checkpoint.
func TestGreedyRank(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 2, Steps: 30, Pause: time.Millisecond, Cells: 10, Greedy: true}
	r, rec, _, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every = 10 })
	if err != nil || r.Checkpoints != 0 {
		t.Fatalf("result %+v, %v", r, err)
	}
	aborted := eventsOf[*AbortedEvent](rec)
	if len(aborted) == 0 || !strings.Contains(aborted[0].Reason, `array "cells": ranks 0 and 1 both hold cell [5]`) {
		t.Errorf("aborted %+v", aborted)
	}
}
