package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

const (
	StateRunning     = "running"
	StateCompleted   = "completed"
	StateStopped     = "stopped"
	StateFailed      = "failed"
	StateInterrupted = "interrupted" // its coordinator died
	StateSilent      = "silent"      // its coordinator lives and does not answer
	StateImported    = "imported"    // it ran under another checkpointer
	StateUnreadable  = "unreadable"  // its files cannot be read
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
	Checkpoints int     `json:"checkpoints"` // in the store and on nodes
	Latest      int     `json:"latest"`      // newest checkpoint, 0 none
	// LatestUnseen are the nodes that by the record have the newest checkpoint, if it is not seen
	// from here.
	LatestUnseen []UnseenNode `json:"unseen_node_list,omitempty"`
	// LatestLevels says where the newest checkpoint is, if the job keeps some on nodes.
	LatestLevels []nodes.State `json:"storage_levels,omitempty"`
	Digest       string        `json:"digest,omitempty"`
	Failure      string        `json:"failure,omitempty"`
	PIDs         []int         `json:"pids,omitempty"` // of the ranks
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
	// Of the newest checkpoint, what was measured and predicted; without one, what was predicted
	// of the first.
	LatestStored int64                `json:"latest_stored_bytes,omitempty"`
	LatestPause  float64              `json:"latest_pause_s,omitempty"`
	Predicted    *PredictedCheckpoint `json:"predicted,omitempty"`
	// While running: the seconds since the run began and those left at this rate, and the next
	// scheduled checkpoint.
	Elapsed       float64  `json:"elapsed_s,omitempty"`
	Left          *float64 `json:"left_s,omitempty"`
	Rate          float64  `json:"iterations_per_s,omitempty"`
	NextIteration int      `json:"next_iteration,omitempty"`
	NextSeconds   *float64 `json:"next_s,omitempty"`
	// While running: the work that a loss of all that is not safe would cost, in seconds, and the
	// checkpoints that are written behind the computation or wait for that.
	AtRisk   float64 `json:"at_risk_s,omitempty"`
	InFlight int     `json:"checkpoints_in_flight,omitempty"`
	// Restarts are its newest restarts, as many as were asked for.
	Restarts []RestartedEvent `json:"restart_list,omitempty"`
}

type Beginning struct {
	Host    string    `json:"host,omitempty"`
	Started time.Time `json:"started,omitzero"`
}

func NewBeginning() Beginning {
	host, _ := os.Hostname()
	return Beginning{Host: host, Started: time.Now().UTC().Truncate(time.Millisecond)}
}

const resultName = "result.json"

type ending struct {
	Outcome string `json:"outcome"`
	Digest  string `json:"digest,omitempty"`
	Failure string `json:"failure,omitempty"`
	Beginning
	// Result is all of it, of a run that has ended.
	Result json.RawMessage `json:"result,omitempty"`
}

// RecordEnding writes result.json; result is all that a user is told, and may be nil. A failure,
// as on a full disk, leaves no file: then the job counts as interrupted.
func RecordEnding(job *image.Job, outcome, digest string, err error, began Beginning, result any) {
	e := ending{Outcome: outcome, Digest: digest, Beginning: began}
	if err != nil {
		e.Failure = err.Error()
	}
	if result != nil {
		e.Result = Encode(result)
	}
	b, err := sealOwned(job, e)
	if err != nil || durable.ReplaceUnsynced(job.FS(), resultPath(job), b) != nil {
		ForgetEnding(job) // it is of another run
	}
}

// readEnding returns how the last run ended, or nil. A file without content comes from a loss of
// power.
func readEnding(job *image.Job) (*ending, error) {
	e := new(ending)
	err := readOwned(job, resultPath(job), 1<<20, e, durable.ReadSealedOrPlain)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if fi, serr := job.FS().Stat(resultPath(job)); err != nil && serr == nil && fi.Size() == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Ended reports whether a run has noted its end.
func Ended(j *image.Job) bool {
	fi, err := j.FS().Stat(resultPath(j))
	return err == nil && fi.Size() > 0
}

// OfResult reports whether an error is about damage to result.json.
func OfResult(err error) bool {
	d := (*durable.DamageError)(nil)
	return errors.As(err, &d) && filepath.Base(d.File) == resultName
}

func Result(j *image.Job, into any) (known bool, err error) {
	e, err := readEnding(j)
	if err != nil || e == nil || len(e.Result) == 0 {
		return false, err
	}
	return true, json.Unmarshal(e.Result, into)
}

// ForgetEnding removes result.json once ranks compute again: it tells of another run.
func ForgetEnding(job *image.Job) { _ = job.FS().Remove(resultPath(job)) }

func resultPath(job *image.Job) string { return filepath.Join(job.Dir(), resultName) }

// Describe describes a job from the store, as if it did not run.
func Describe(store *image.Store, name string) (*Status, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return DescribeJob(job)
}

// DescribeJob is Describe for a job that was found.
func DescribeJob(job *image.Job) (*Status, error) {
	spec, err := ReadSpec(job)
	if err != nil {
		return nil, err
	}
	levels, err := LevelsOf(context.Background(), job, spec)
	if err != nil {
		return nil, err
	}
	s := &Status{Job: job.Name(), App: spec.App, NP: spec.NP, Mapping: spec.Mapping, Level: spec.LevelOf(), Iterations: spec.Iterations,
		State: StateInterrupted, Created: spec.Created, Updated: lastHeard(job)}
	s.Predicted = spec.Predicted(1, spec.NP)
	if err := s.addCheckpoints(levels, spec); err != nil {
		return nil, err
	}
	if spec.Origin != "" && spec.Program == nil {
		s.State = StateImported
		return s, nil
	}
	e, err := readEnding(job)
	if err != nil {
		return nil, err
	}
	if e != nil {
		s.State, s.Digest, s.Failure, s.Started, s.Host = e.Outcome, e.Digest, e.Failure, e.Started, e.Host
		if e.Outcome == StateCompleted && spec.Program == nil {
			s.Iteration = spec.Iterations
		}
	}
	return s, nil
}

// addCheckpoints counts the checkpoints of the job, wherever they are, and describes the newest.
func (s *Status) addCheckpoints(l *Levels, spec *Resolved) error {
	numbers, newest, err := l.job.Newest()
	all := l.with(numbers)
	if err != nil || len(all) == 0 {
		return err
	}
	c := all[len(all)-1]
	s.Checkpoints, s.Latest, s.LatestLevels = len(all), c.Number, l.LevelsOf(&c)
	switch {
	case c.Stored: // else it is damaged, for verify to tell
		s.describe(newest, spec)
	case c.Version != nil:
		m := c.Version.Manifest.Summary()
		s.describe(&m, spec)
	default:
		s.Iteration, s.LatestStored, s.LatestUnseen = int(c.Known.Iteration), c.Known.Bytes, l.Unreached(c.Number).Nodes
		s.taken(c.Known.Created)
	}
	return nil
}

// describe describes the newest checkpoint, as far as it can be read.
func (s *Status) describe(c *image.Summary, spec *Resolved) {
	if c == nil {
		return
	}
	s.LatestStored, s.LatestPause = c.StoredBytes, c.Pause
	s.Predicted = spec.Predicted(c.Number, c.Ranks)
	s.Iteration, s.NP, s.Mapping = int(c.Iteration), c.NP, c.Mapping
	s.taken(c.Created)
}

func (s *Status) taken(at time.Time) {
	s.LatestCreated = at
	if age := time.Since(at).Seconds(); age >= 0 { // else a clock was set back
		s.LatestAge = &age
	}
	s.Updated = latest(s.Updated, at)
}

func lastHeard(job *image.Job) time.Time {
	var last time.Time
	for _, name := range []string{job.SpecPath(), filepath.Join(job.Dir(), JournalName), resultPath(job)} {
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

// A Prediction is what the checkpoints of a job were predicted to be at launch. It is kept beside
// what is measured.
type Prediction struct {
	Model string `json:"model"` // that predicted
	Basis string `json:"basis"` // its measurements
	// First stores all of the memory, and the library takes its time; Full stores all later on,
	// and Next what has changed.
	First PredictedCheckpoint `json:"first_checkpoint"`
	Full  PredictedCheckpoint `json:"full_checkpoint"`
	Next  PredictedCheckpoint `json:"next_checkpoint"`
}

// A PredictedCheckpoint is one of all ranks, with 95 % intervals. Times are in seconds, 0 if
// unknown.
type PredictedCheckpoint struct {
	Stored     int64   `json:"stored_bytes"` // of all files, without the library
	StoredLow  int64   `json:"low_bytes"`
	StoredHigh int64   `json:"high_bytes"`
	Time       float64 `json:"checkpoint_s"`
	TimeLow    float64 `json:"low_s"`
	TimeHigh   float64 `json:"high_s"`
	Pause      float64 `json:"pause_s"` // for which the application stands still
}

func (c *PredictedCheckpoint) longestPause() float64 {
	if c.Time == 0 {
		return 0
	}
	return c.Pause * c.TimeHigh / c.Time
}

// Costs are the pauses that the budget of a job begins with, the last one at the upper end of its
// interval.
func (p *Prediction) Costs() (first, next, firstHigh float64) {
	return p.First.Pause, p.Next.Pause, p.First.longestPause()
}

// Of returns the prediction for a checkpoint of so many of np ranks: the first one of the job or
// of a group, or a later one.
func (p *Prediction) Of(first bool, ranks, np int) *PredictedCheckpoint {
	c := p.Next
	if first {
		c = p.First
	}
	if ranks == np {
		return &c
	}
	for _, bytes := range []*int64{&c.Stored, &c.StoredLow, &c.StoredHigh} {
		*bytes = int64(float64(*bytes) * float64(ranks) / float64(np))
	}
	c.Time, c.TimeLow, c.TimeHigh, c.Pause = 0, 0, 0, 0 // of a part of the job nothing is known
	return &c
}

// Predicted returns the prediction for a checkpoint of the job, or nil. The first numbers are the
// first checkpoints of the groups.
func (r *Resolved) Predicted(number, ranks int) *PredictedCheckpoint {
	if r.Prediction == nil {
		return nil
	}
	return r.Prediction.Of(number <= len(r.Groups), ranks, r.NP)
}

// maxPredicted bounds predicted times: to a year.
const maxPredicted = 365 * 24 * 3600

func (p *Prediction) check() error {
	if p == nil {
		return nil
	}
	for _, c := range []PredictedCheckpoint{p.First, p.Full, p.Next} {
		sizes := 0 <= c.StoredLow && c.StoredLow <= c.Stored && c.Stored <= c.StoredHigh && c.StoredHigh <= 1<<60
		times := 0 <= c.TimeLow && c.TimeLow <= c.Time && c.Time <= c.TimeHigh && c.TimeHigh <= maxPredicted
		if !sizes || !times || !(c.Pause >= 0 && c.Pause <= maxPredicted) {
			return &UsageError{fmt.Sprintf("the prediction %+v is out of range", c), ""}
		}
	}
	return nil
}
