package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"ckpt/image"
)

// The states of a job.
const (
	StateRunning     = "running"
	StateCompleted   = "completed"
	StateStopped     = "stopped"
	StateFailed      = "failed"
	StateInterrupted = "interrupted" // its coordinator died
	StateSilent      = "silent"      // its coordinator lives and does not answer
	StateImported    = "imported"    // it ran under another checkpointer
)

// JobStatus describes a job, running or not.
type JobStatus struct {
	Job         string  `json:"job"`
	App         string  `json:"app"`
	NP          int     `json:"np"`
	Mapping     Mapping `json:"mapping"`
	State       string  `json:"state"`
	Phase       string  `json:"phase,omitempty"` // while running
	Iteration   int     `json:"iteration"`       // done, or of the newest checkpoint if it does not run
	Iterations  int     `json:"iterations"`
	Checkpoints int     `json:"checkpoints"` // in the store
	Latest      int     `json:"latest"`      // newest checkpoint, 0 none
	Digest      string  `json:"digest,omitempty"`
	Failure     string  `json:"failure,omitempty"`
	PIDs        []int   `json:"pids,omitempty"` // of the ranks
}

const resultName = "result.json"

// ending is what the store keeps of how a run ended.
type ending struct {
	Outcome string `json:"outcome"`
	Digest  string `json:"digest,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// recordEnding writes result.json. It is a convenience for status: a failure to
// write it, as on a full disk, must not spoil the result itself.
func recordEnding(dir, outcome, digest string, err error) {
	e := ending{Outcome: outcome, Digest: digest}
	if err != nil {
		e.Failure = err.Error()
	}
	if b, err := json.Marshal(e); err == nil {
		if os.WriteFile(filepath.Join(dir, resultName), append(b, '\n'), 0o600) != nil {
			os.Remove(filepath.Join(dir, resultName))
		}
	}
}

// forgetEnding removes result.json once ranks compute again: it tells of another run,
// and if this one is killed nobody else takes it away.
func forgetEnding(dir string) { os.Remove(filepath.Join(dir, resultName)) }

// Inspect describes a job of a store and asks its coordinator how it is.
func Inspect(ctx context.Context, store *image.Store, name string) (*JobStatus, error) {
	s, err := Describe(store, name)
	if err != nil {
		return nil, err
	}
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	client, err := Contact(ctx, job.Dir())
	if errors.Is(err, ErrSilent) {
		s.State = StateSilent
		return s, nil
	}
	if errors.Is(err, ErrNotRunning) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if live, err := client.Status(); err == nil {
		s.State, s.Phase, s.Iteration, s.Mapping, s.PIDs = StateRunning, live.Phase, live.Iteration, live.Mapping, live.PIDs
		s.Digest, s.Failure = "", ""
	}
	return s, nil
}

// Describe says what the store knows of a job, as if it did not run.
func Describe(store *image.Store, name string) (*JobStatus, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(job)
	if err != nil {
		return nil, err
	}
	numbers, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	s := &JobStatus{Job: name, App: spec.App, NP: spec.NP, Mapping: spec.Mapping, Iterations: spec.Iterations,
		State: StateInterrupted, Checkpoints: len(numbers)}
	if len(numbers) > 0 {
		s.Latest = numbers[len(numbers)-1]
		if m, err := job.Manifest(s.Latest); err == nil {
			s.Iteration, s.Mapping = int(m.Iteration), m.Mapping
		}
	}
	if spec.Origin != "" {
		s.State = StateImported
		return s, nil
	}
	var e ending
	if b, err := os.ReadFile(filepath.Join(job.Dir(), resultName)); err == nil && json.Unmarshal(b, &e) == nil {
		s.State, s.Digest, s.Failure = e.Outcome, e.Digest, e.Failure
		if e.Outcome == StateCompleted {
			s.Iteration = spec.Iterations
		}
	}
	return s, nil
}

// FindLine finds the recovery line of a job of a store, running or not.
func FindLine(ctx context.Context, store *image.Store, name string) (*StoredLine, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return findStoredLine(ctx, job, func() (*JobStatus, error) { return Inspect(ctx, store, name) })
}
