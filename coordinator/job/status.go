package job

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

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
	Level       Level   `json:"level"` // of checkpoints
	State       string  `json:"state"`
	Phase       string  `json:"phase,omitempty"` // while running
	Iteration   int     `json:"iteration"`       // done, or of the newest checkpoint if it does not run
	Iterations  int     `json:"iterations"`
	Checkpoints int     `json:"checkpoints"` // in the store
	Latest      int     `json:"latest"`      // newest checkpoint, 0 none
	Digest      string  `json:"digest,omitempty"`
	Failure     string  `json:"failure,omitempty"`
	PIDs        []int   `json:"pids,omitempty"` // of the ranks
	// Unreachable says why the coordinator of a running job cannot be asked from here, and
	// Coordinator is its process on its host.
	Unreachable string `json:"unreachable,omitempty"`
	Coordinator int    `json:"coordinator_pid,omitempty"`

	Created time.Time `json:"created,omitzero"` // the job was launched or imported
	Started time.Time `json:"started,omitzero"` // its last run
	Updated time.Time `json:"updated,omitzero"` // when the store last heard of it
	Host    string    `json:"host,omitempty"`   // of its last run
	// LatestCreated is the time of the newest checkpoint, LatestAge the seconds since.
	LatestCreated time.Time `json:"latest_created,omitzero"`
	LatestAge     *float64  `json:"latest_age_s,omitempty"`
	// Of the newest checkpoint, what was measured and what was predicted; without one,
	// what was predicted of the first.
	LatestStored int64                `json:"latest_stored_bytes,omitempty"`
	LatestPause  float64              `json:"latest_pause_s,omitempty"`
	Predicted    *PredictedCheckpoint `json:"predicted,omitempty"`
	// While running: the seconds since the run began and those left at this rate, and
	// the next checkpoint of the schedule.
	Elapsed       float64  `json:"elapsed_s,omitempty"`
	Left          *float64 `json:"left_s,omitempty"`
	Rate          float64  `json:"iterations_per_s,omitempty"`
	NextIteration int      `json:"next_iteration,omitempty"`
	NextSeconds   *float64 `json:"next_s,omitempty"`
	// Restarts are the newest of its restarts, as far as they were asked for.
	Restarts []RestartedEvent `json:"restart_list,omitempty"`
}

// A Beginning says where and when a run began.
type Beginning struct {
	Host    string    `json:"host,omitempty"`
	Started time.Time `json:"started,omitzero"`
}

// NewBeginning is that of a run which begins now, here.
func NewBeginning() Beginning {
	host, _ := os.Hostname()
	return Beginning{Host: host, Started: time.Now().UTC().Truncate(time.Millisecond)}
}

const resultName = "result.json"

// ending is what the store keeps of how a run ended.
type ending struct {
	Outcome string `json:"outcome"`
	Digest  string `json:"digest,omitempty"`
	Failure string `json:"failure,omitempty"`
	Beginning
}

// RecordEnding writes result.json. It is a convenience for status: a failure to
// write it, as on a full disk, must not spoil the result itself.
func RecordEnding(job *image.Job, outcome, digest string, err error, began Beginning) {
	e := ending{Outcome: outcome, Digest: digest, Beginning: began}
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
	s := &Status{Job: name, App: spec.App, NP: spec.NP, Mapping: spec.Mapping, Level: spec.LevelOf(), Iterations: spec.Iterations,
		State: StateInterrupted, Checkpoints: len(numbers), Created: spec.Created, Updated: lastHeard(job)}
	s.Predicted = spec.Predicted(1, spec.NP)
	if len(numbers) > 0 {
		s.Latest = numbers[len(numbers)-1]
		if m, err := job.Manifest(s.Latest); err == nil {
			s.LatestStored, s.LatestPause = m.StoredBytes, m.Pause
			s.Predicted = spec.Predicted(m.Number, len(m.Ranks))
			s.Iteration, s.NP, s.Mapping, s.LatestCreated = int(m.Iteration), m.NP, m.Mapping, m.Created
			if age := time.Since(m.Created).Seconds(); age >= 0 { // else a clock was set back
				s.LatestAge = &age
			}
			s.Updated = latest(s.Updated, m.Created)
		}
	}
	if spec.Origin != "" && spec.Program == nil {
		s.State = StateImported
		return s, nil
	}
	var e ending
	if b, err := durable.ReadFile(job.FS(), resultPath(job), 1<<20); err == nil && json.Unmarshal(b, &e) == nil {
		s.State, s.Digest, s.Failure, s.Started, s.Host = e.Outcome, e.Digest, e.Failure, e.Started, e.Host
		if e.Outcome == StateCompleted && spec.Program == nil {
			s.Iteration = spec.Iterations
		}
	}
	return s, nil
}

// lastHeard is when the description, the journal or the result of a job last changed.
func lastHeard(job *image.Job) time.Time {
	var last time.Time
	for _, name := range []string{job.SpecPath(), filepath.Join(job.Dir(), journalName), resultPath(job)} {
		if fi, err := job.FS().Stat(name); err == nil {
			last = latest(last, fi.ModTime().UTC().Truncate(time.Millisecond))
		}
	}
	return last
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
