package coordinator

import (
	"context"
	"errors"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// Inspect describes a job of a store and asks its coordinator how it is.
func Inspect(ctx context.Context, store *image.Store, name string) (*job.Status, error) {
	s, err := job.Describe(store, name)
	if err != nil {
		return nil, err
	}
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	if run, ok := wire.Announced(j); ok {
		s.Started, s.Host = run.Started, run.Host
	}
	client, err := wire.Contact(ctx, j)
	if errors.Is(err, wire.ErrSilent) {
		s.State = job.StateSilent
		return s, nil
	}
	if unreachable := (*wire.UnreachableError)(nil); errors.As(err, &unreachable) {
		s.State, s.Digest, s.Failure = job.StateRunning, "", ""
		s.Unreachable, s.Coordinator = unreachable.Err.Error(), unreachable.PID
		if !s.Started.IsZero() {
			s.Elapsed = max(0, time.Since(s.Started).Seconds())
		}
		return s, nil
	}
	if errors.Is(err, wire.ErrNotRunning) && s.State == job.StateInterrupted {
		// It may have ended this moment: then it has noted how.
		return again(store, s)
	}
	if errors.Is(err, wire.ErrNotRunning) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	client.Close()
	live, now := client.First, time.Now()
	s.State, s.Phase, s.Iteration, s.Mapping, s.PIDs = job.StateRunning, live.Phase, live.Iteration, live.Mapping, live.PIDs
	s.NP, s.Digest, s.Failure = len(live.Mapping.Nodes()), "", ""
	s.Started, s.Updated = live.Since.UTC().Truncate(time.Millisecond), now.UTC().Truncate(time.Millisecond)
	s.Elapsed, s.Rate = now.Sub(live.Since).Seconds(), live.Rate
	if s.Rate > 0 && s.Iterations > 0 {
		left := float64(max(0, s.Iterations-s.Iteration)) / s.Rate
		s.Left = &left
	}
	s.NextIteration, s.NextSeconds = live.NextIteration, live.NextSeconds
	return s, nil
}

// Completed returns the result of a job whose last run has completed, nil if it has not or a
// run goes on.
func Completed(ctx context.Context, store *image.Store, name string) (*Result, error) {
	s, err := Inspect(ctx, store, name)
	if err != nil || s.State != job.StateCompleted {
		return nil, err
	}
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	r := new(Result)
	known, err := job.Result(j, r)
	if err != nil {
		return nil, err
	}
	if !known { // an earlier version wrote less
		r = &Result{Type: "result", Job: s.Job, App: s.App, NP: s.NP, Iterations: s.Iterations, Outcome: s.State, Digest: s.Digest, Restarts: []int{}, WorkLost: []int{}, Recovery: []float64{}}
	}
	return r, nil
}

// again describes a job once more, with what is known of its last run.
func again(store *image.Store, was *job.Status) (*job.Status, error) {
	s, err := job.Describe(store, was.Job)
	if err == nil && s.State == job.StateInterrupted {
		s.Started, s.Host = was.Started, was.Host
	}
	return s, err
}

// LastRun says where and when the run of a job began that runs now or was killed; false
// if its last run has ended.
func LastRun(j *image.Job) (job.Beginning, bool) { return wire.Announced(j) }

// FindLine finds the recovery line of a job of a store, running or not.
func FindLine(ctx context.Context, store *image.Store, name string) (*job.StoredLine, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return job.FindLine(ctx, j, func() (*job.Status, error) { return Inspect(ctx, store, name) })
}
