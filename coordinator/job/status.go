package job

import (
	"encoding/json"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
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

// Status describes a job, running or not.
type Status struct {
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

// RecordEnding writes result.json. It is a convenience for status: a failure to
// write it, as on a full disk, must not spoil the result itself.
func RecordEnding(job *image.Job, outcome, digest string, err error) {
	e := ending{Outcome: outcome, Digest: digest}
	if err != nil {
		e.Failure = err.Error()
	}
	if durable.ReplaceUnsynced(job.FS(), resultPath(job), append(Encode(e), '\n')) != nil {
		ForgetEnding(job) // it is not that of this run
	}
}

// ForgetEnding removes result.json once ranks compute again: it tells of another run,
// and if this one is killed nobody else takes it away.
func ForgetEnding(job *image.Job) { _ = job.FS().Remove(resultPath(job)) }

func resultPath(job *image.Job) string { return filepath.Join(job.Dir(), resultName) }

// Describe says what the store knows of a job, as if it did not run.
func Describe(store *image.Store, name string) (*Status, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	spec, err := ReadSpec(job)
	if err != nil {
		return nil, err
	}
	numbers, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	s := &Status{Job: name, App: spec.App, NP: spec.NP, Mapping: spec.Mapping, Iterations: spec.Iterations,
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
	if b, err := durable.ReadFile(job.FS(), resultPath(job), 1<<20); err == nil && json.Unmarshal(b, &e) == nil {
		s.State, s.Digest, s.Failure = e.Outcome, e.Digest, e.Failure
		if e.Outcome == StateCompleted {
			s.Iteration = spec.Iterations
		}
	}
	return s, nil
}
