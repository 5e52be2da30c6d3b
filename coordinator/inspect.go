package coordinator

import (
	"context"
	"errors"

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
	client, err := wire.Contact(ctx, j)
	if errors.Is(err, wire.ErrSilent) {
		s.State = job.StateSilent
		return s, nil
	}
	if errors.Is(err, wire.ErrNotRunning) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if live, err := client.Status(); err == nil {
		s.State, s.Phase, s.Iteration, s.Mapping, s.PIDs = job.StateRunning, live.Phase, live.Iteration, live.Mapping, live.PIDs
		s.Digest, s.Failure = "", ""
	}
	return s, nil
}

// FindLine finds the recovery line of a job of a store, running or not.
func FindLine(ctx context.Context, store *image.Store, name string) (*job.StoredLine, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return job.FindLine(ctx, j, func() (*job.Status, error) { return Inspect(ctx, store, name) })
}
