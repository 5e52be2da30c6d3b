package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
)

// A Spec describes a job completely: with it and a checkpoint the job can be
// continued. The store keeps and checks it.
type Spec struct {
	App         string   `json:"app"`      // name.CLASS.NP
	Class       string   `json:"class"`    // of the workload
	Workload    string   `json:"workload"` // the workload's YAML
	NP          int      `json:"np"`
	Iterations  int      `json:"iterations"`
	Mapping     Mapping  `json:"mapping"`
	MPI         string   `json:"mpi"`
	Mode        string   `json:"mode"`
	GroupSize   int      `json:"group_size,omitempty"` // ranks of a group, with Semi; 0: those of a node
	Log         string   `json:"log,omitempty"`        // how messages between groups are logged, as channel.ParseKind takes it
	Stagger     string   `json:"stagger,omitempty"`    // as supervisor.ParseStagger takes it
	Jitter      float64  `json:"jitter,omitempty"`     // of each group's schedule, as a fraction of its period
	Seed        uint64   `json:"seed,omitempty"`       // of Jitter and a random Stagger
	Schedule    Schedule `json:"schedule"`
	SharedOnce  bool     `json:"shared_once"`
	LibraryOnce bool     `json:"library_once"`
	Codec       string   `json:"codec,omitempty"` // as codec.ParseSetting takes it; empty is none
	// Residuals has rank 0 put its residual out every so many iterations; 0: never.
	Residuals   int  `json:"residuals,omitempty"`
	Incremental bool `json:"incremental,omitempty"`
	// WritePath says who writes what; the zero value means a file per rank.
	WritePath plan.Settings `json:"write_path,omitzero"`
	// Async lets ranks compute on while their memory is written out of a copy, of
	// at most Staging bytes; 0 means 16 MiB more than the data zone has.
	Async       bool      `json:"async,omitempty"`
	Staging     int64     `json:"staging,omitempty"`
	Trace       bool      `json:"trace,omitempty"` // record the I/O of checkpoints
	AutoRestart bool      `json:"auto_restart"`
	Launcher    string    `json:"launcher"` // local, mpiexec or srun
	Created     time.Time `json:"created"`
	// Origin names the checkpointer that an imported job ran under. It has only
	// the fields App, NP, Mapping, MPI and Mode.
	Origin string `json:"origin,omitempty"`
}

// A Schedule says when checkpoints are taken. At most one field is set.
type Schedule struct {
	Every    int           `json:"every,omitempty"`    // iterations
	Count    int           `json:"count,omitempty"`    // this many, evenly spread
	Interval time.Duration `json:"interval,omitempty"` // ns
	Overhead float64       `json:"overhead,omitempty"` // fraction of the computing time
}

// NewSpec describes a run of an application with the usual settings on one
// node.
func NewSpec(inst *dataset.Instance) Spec {
	return Spec{App: inst.String(), Class: inst.Class, Workload: string(inst.Workload.Source()),
		NP: inst.NP, Iterations: inst.Iterations, Mapping: Mapping{inst.NP}, MPI: mpi.MPICH.String(),
		Mode: Coordinated, SharedOnce: true, LibraryOnce: true, Codec: codec.UseAuto.String(), Incremental: true, Trace: true, Launcher: localLauncher, Created: time.Now().UTC()}
}

// check refuses what cannot run.
func (s *Spec) check() error {
	if _, err := mpi.ParseImplementation(s.MPI); err != nil {
		return &UsageError{fmt.Sprintf("mpi %q is unknown", s.MPI), "--mpi takes mpich or openmpi"}
	}
	if err := s.checkMode(); err != nil {
		return err
	}
	if _, err := s.codec(); err != nil {
		return &UsageError{err.Error(), "--codec takes auto, none, gzip, zstd or s2"}
	}
	if err := s.checkNumbers(); err != nil {
		return err
	}
	for _, ranks := range s.groups(s.Mapping) {
		if _, err := s.jointLayout(s.Mapping, ranks); err != nil {
			if len(ranks) < s.NP {
				err = fmt.Errorf("%s take checkpoints apart from the others: %w", nameRanks(ranks), err)
			}
			return err
		}
	}
	if s.Iterations == 1 && s.Schedule.Count > 0 {
		return &UsageError{"a job of 1 iteration has no room for a checkpoint", "leave --count out, or run more iterations"}
	}
	if s.Schedule.Count >= s.Iterations {
		return &UsageError{fmt.Sprintf("%d checkpoints do not fit between %d iterations", s.Schedule.Count, s.Iterations),
			fmt.Sprintf("--count takes 1 to %d here", s.Iterations-1)}
	}
	return nil
}

// maxNP bounds the number of ranks, as images do. Iterations have 31 bits in
// messages.
const (
	maxNP         = 1 << 20
	maxIterations = math.MaxInt32
)

// checkNumbers refuses numbers that are out of any range.
func (s *Spec) checkNumbers() error {
	p := s.Schedule
	switch {
	case s.Iterations < 1:
		return &UsageError{fmt.Sprintf("%d iterations: a job needs at least one", s.Iterations), ""}
	case s.Iterations > maxIterations:
		return &UsageError{fmt.Sprintf("%d iterations: a job has at most %d", s.Iterations, maxIterations), ""}
	case s.Staging < 0 || s.Staging > 1<<42:
		return &UsageError{fmt.Sprintf("staging of %d bytes is out of range", s.Staging), ""}
	case s.Residuals < 0:
		return &UsageError{fmt.Sprintf("residuals every %d iterations are out of range", s.Residuals), ""}
	case p.Every < 0 || p.Count < 0 || p.Count > maxNP || p.Interval < 0 || !(p.Overhead >= 0 && p.Overhead <= 10):
		return &UsageError{fmt.Sprintf("schedule %+v is out of range", p), ""}
	}
	return nil
}

// codec returns the setting of Codec.
func (s *Spec) codec() (codec.Setting, error) {
	if s.Codec == "" {
		return codec.UseNone, nil
	}
	return codec.ParseSetting(s.Codec)
}

// instance evaluates the workload again, as in another process.
func (s *Spec) instance() (*dataset.Instance, error) {
	w, err := dataset.ParseWorkload([]byte(s.Workload), s.App)
	if err != nil {
		return nil, err
	}
	return w.Instance(s.Class, s.NP)
}

// protocol translates the schedule.
func (s *Spec) protocol() protocol.Schedule {
	p := protocol.Schedule{Every: s.Schedule.Every, Interval: s.Schedule.Interval, Overhead: s.Schedule.Overhead}
	for i := range s.Schedule.Count {
		// n checkpoints cut the run into n+1 parts, none at the very end.
		p.At = append(p.At, (i+1)*s.Iterations/(s.Schedule.Count+1))
	}
	return p
}

func (s *Spec) encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

func decodeSpec(b []byte) (*Spec, error) {
	var s Spec
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	if s.NP < 1 || s.NP > maxNP || len(s.Mapping) == 0 && s.Origin == "" {
		return nil, fmt.Errorf("np %d, mapping %q: not a job", s.NP, s.Mapping)
	}
	sum := 0
	for _, n := range s.Mapping {
		if n < 1 || n > s.NP-sum {
			return nil, fmt.Errorf("mapping %q is malformed", s.Mapping)
		}
		sum += n
	}
	switch {
	case s.Origin != "" && (len(s.Mapping) == 0 || sum == s.NP) && s.Mode == Coordinated:
		return &s, nil // nothing of it will run
	case s.Origin != "":
		return nil, fmt.Errorf("mode %q, mapping %q of %d ranks: not an imported job", s.Mode, s.Mapping, s.NP)
	case sum != s.NP:
		return nil, fmt.Errorf("mapping %q does not place %d ranks", s.Mapping, s.NP)
	}
	return &s, s.check()
}

// specOf reads the description of a job.
func specOf(job *image.Job) (*Spec, error) {
	text, err := job.Spec()
	if err != nil {
		return nil, err
	}
	spec, err := decodeSpec(text)
	if err != nil {
		return nil, senseless(job, err)
	}
	return spec, nil
}

// senseless says what no job can be described by.
func senseless(job *image.Job, err error) error {
	return &durable.DamageError{File: job.SpecPath(), Reason: "the description of the job makes no sense: " + err.Error()}
}

// checkRunnable checks what is needed to run a stored job, and is not the user's wish.
func (s *Spec) checkRunnable(job *image.Job) error {
	if err := s.checkOwn(job.Name()); err != nil {
		return err
	}
	if _, ok := launchers[s.Launcher]; !ok && s.Launcher != "" && s.Launcher != localLauncher {
		return senseless(job, fmt.Errorf("launcher %q is unknown", s.Launcher))
	}
	inst, err := s.instance()
	if err == nil && inst.String() != s.App {
		err = fmt.Errorf("the workload is that of %s, the job is %s", inst, s.App)
	}
	if err != nil {
		return senseless(job, err)
	}
	return nil
}

// checkDescription checks that a job has the description under which its newest
// checkpoint was taken that tells.
func checkDescription(job *image.Job) error {
	numbers, err := job.Checkpoints()
	if err != nil {
		return err
	}
	var other error
	for _, n := range slices.Backward(numbers) {
		m, err := job.Manifest(n)
		if err == nil && m.Description != "" {
			return nil
		}
		if errors.Is(err, image.ErrOtherDescription) && other == nil {
			other = err
		}
	}
	return other
}

// checkTaken checks that a checkpoint is one that the job can have taken.
func (s *Spec) checkTaken(job *image.Job, m *image.Manifest, groups [][]int) error {
	wrong := func(format string, args ...any) error {
		return &durable.DamageError{File: manifestPath(job, m.Number), Reason: fmt.Sprintf(format, args...)}
	}
	group := (m.Number - 1) % len(groups)
	switch {
	case m.App != s.App || m.NP != s.NP || m.MPI != s.MPI || m.Mode != s.Mode:
		return wrong("it is of %s with %d ranks, %s, %s, the job is %s with %d ranks, %s, %s", m.App, m.NP, m.MPI, m.Mode, s.App, s.NP, s.MPI, s.Mode)
	case max(1, m.Groups) != len(groups) || m.Group != group:
		return wrong("it is of group %d of %d, checkpoint %d of the job is of group %d of %d", m.Group, m.Groups, m.Number, group, len(groups))
	case m.Iteration < 1 || m.Iteration > int64(s.Iterations):
		return wrong("iteration %d is none of the %d of the job", m.Iteration, s.Iterations)
	case len(m.Mapping) == 0:
		return wrong("it has no mapping")
	case !slices.EqualFunc(m.Ranks, groups[group], func(r image.Rank, rank int) bool { return r.Rank == rank }):
		return wrong("its ranks are not %s, in this order", nameRanks(groups[group]))
	}
	for _, r := range m.Ranks {
		if r.File == "" {
			return wrong("rank %d has no file", r.Rank)
		}
	}
	return nil
}
