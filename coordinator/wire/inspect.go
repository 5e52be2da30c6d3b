package wire

import (
	"ckpt/coordinator/job"
	"ckpt/image"
	"context"
	"errors"
	"time"
)

// AwaitEnd returns when the job has lost its coordinator, so that it can be
// restarted: a coordinator answers a stop before it clears up.
func AwaitEnd(ctx context.Context, job *image.Job) error {
	was, _ := Announced(job)
	for {
		err := job.Lock()
		if err == nil {
			return job.Unlock()
		}
		next, runs := Announced(job)
		if errors.Is(err, image.ErrJobNotFound) || runs && next != was {
			return nil // another command waited to remove it, or to run it
		}
		if !errors.Is(err, image.ErrInUse) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Inspect describes a job of a store and asks its coordinator how it is.
func Inspect(ctx context.Context, store *image.Store, name string) (*job.Status, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return InspectJob(ctx, j)
}

// InspectJob is Inspect for a job that was found.
func InspectJob(ctx context.Context, j *image.Job) (*job.Status, error) {
	s, err := job.DescribeJob(j)
	if err != nil {
		return nil, err
	}
	client, err := Contact(ctx, j)
	if !errors.Is(err, errUnannounced) {
		if run, ok := Announced(j); ok {
			s.Started, s.Host = run.Started, run.Host
		}
	}
	if errors.Is(err, ErrSilent) {
		s.State = job.StateSilent
		return s, nil
	}
	if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
		s.State, s.Digest, s.Failure = job.StateRunning, "", ""
		s.Unreachable, s.Coordinator = unreachable.Err.Error(), unreachable.PID
		if !s.Started.IsZero() {
			s.Elapsed = max(0, time.Since(s.Started).Seconds())
		}
		return s, nil
	}
	if errors.Is(err, ErrNotRunning) && s.State == job.StateInterrupted && job.Ended(j) {
		return again(j, s) // it ended this moment
	}
	if errors.Is(err, ErrNotRunning) {
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
	s.AtRisk, s.InFlight = live.AtRisk, live.InFlight
	return s, nil
}

// again describes a job once more, with what is known of its last run.
func again(j *image.Job, was *job.Status) (*job.Status, error) {
	s, err := job.DescribeJob(j)
	if err == nil && s.State == job.StateInterrupted {
		s.Started, s.Host = was.Started, was.Host
	}
	return s, err
}

// FindLine finds the recovery line of a job of a store, running or not.
func FindLine(ctx context.Context, store *image.Store, name string) (*job.StoredLine, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return job.FindLine(ctx, j, func() (*job.Status, error) { return Inspect(ctx, store, name) })
}
