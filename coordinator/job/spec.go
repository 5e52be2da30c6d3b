// Package job is what a store keeps of a job besides the images of its ranks: the description
// ([Spec]), how it ended, the message logs, the output, the journal, the traces and, of several
// groups, the baseline. Restart, verification and pruning read all of it; a running coordinator
// writes it.
//
//	job                  the Spec, as JSON
//	stdin.json           the standard input of a program, for later runs
//	line.json            the baseline of several groups: the checkpoints still needed
//	logs/rank-R          the message log of a rank, in segments of package msglog
//	output.jsonl         lines that the ranks have put out, each once
//	history.jsonl        the journal: the events of all runs
//	result.json          how the last run ended
//	traces/NNNN.trace    the I/O of a checkpoint
//
// # Promises
//
//   - A job of several groups is restarted from checkpoints and logs that fit together,
//     or an error names the file that is missing or damaged.
//   - Nothing is removed before the baseline says, durably, that it can be done without.
//   - A line of output is shown once, however often the job is restarted.
package job

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/nodes"
	"ckpt/image/plan"
	"ckpt/internal/wording"
	"ckpt/zones"
)

// A Spec describes a job completely: with it and a checkpoint the job can be continued.
type Spec struct {
	// ID is random, so that every job has its own description, whose digest is in all files of
	// the job. Jobs of earlier versions lack it.
	ID       string `json:"id,omitempty"`
	App      string `json:"app"`      // name.CLASS.NP; of a program, the name of its file
	Class    string `json:"class"`    // of the workload
	Workload string `json:"workload"` // the workload's YAML
	NP       int    `json:"np"`
	// Launched is the number of ranks of the job at launch, 0 for NP, as in the stored
	// description.
	Launched    int      `json:"launched,omitempty"`
	Iterations  int      `json:"iterations"` // 0: a program, which ends when it ends
	Mapping     Mapping  `json:"mapping"`
	MPI         string   `json:"mpi"`
	Mode        Mode     `json:"mode"`
	Level       Level    `json:"level,omitempty"`      // of checkpoints; empty is System
	GroupSize   int      `json:"group_size,omitempty"` // ranks of a group, with Semi; 0: as many as a node has
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
	// Keep has the run remove all but the newest so many sound checkpoints; 0: it keeps all.
	Keep int `json:"keep,omitempty"`
	// KeepHourly and KeepDaily have more stay, as image.Retention says.
	KeepHourly int `json:"keep_hourly,omitempty"`
	KeepDaily  int `json:"keep_daily,omitempty"`
	// WritePath says who writes what; the zero value means a file per rank.
	WritePath plan.Settings `json:"write_path,omitzero"`
	// Async lets ranks compute on while their memory is written out of a copy, of at most Staging
	// bytes; 0 means 16 MiB more than the data zone has.
	Async bool `json:"async,omitempty"`
	// InFlight is how many checkpoints may be behind the computation at a time, with Async; 0 is 1.
	InFlight int   `json:"in_flight,omitempty"`
	Staging  int64 `json:"staging,omitempty"`
	// Tier has checkpoints go to directories of the nodes first; nil: to the store.
	Tier *nodes.Setting `json:"tier,omitempty"`
	// Next are the stores into which checkpoints of the store are copied on.
	Next  []image.Next `json:"next,omitempty"`
	Trace bool         `json:"trace,omitempty"` // record the I/O of checkpoints
	// StorageTurns says whether the job takes turns on the storage with others.
	StorageTurns StorageTurns `json:"storage_turns,omitempty"`
	AutoRestart  bool         `json:"auto_restart"`
	Launcher     string       `json:"launcher"` // local, mpiexec or srun
	// Tuning has the job look for the best way to write; may be nil.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Prediction is what the checkpoints were predicted to be, or nil.
	Prediction *Prediction `json:"prediction,omitempty"`
	Created    time.Time   `json:"created"`
	// Origin names the checkpointer that an imported job ran under, or that a program runs under.
	// An imported job has only App, NP, Mapping, MPI and Mode.
	Origin string `json:"origin,omitempty"`
	// Program is the user's program that the job runs, without a workload; nil: the ranks are
	// simulated.
	Program *Program `json:"program,omitempty"`
}

// A Schedule says when checkpoints are taken. At most one field is set.
type Schedule struct {
	Every    int           `json:"every,omitempty"`    // iterations
	Count    int           `json:"count,omitempty"`    // this many, evenly spread
	Interval time.Duration `json:"interval,omitempty"` // ns
	Overhead float64       `json:"overhead,omitempty"` // fraction of the computing time
	// Epoch is at the ends of epochs, of a program that marks them.
	Epoch bool `json:"epoch,omitempty"`
}

// NewSpec describes a run of an application on one node with the usual settings.
func NewSpec(inst *dataset.Instance) Spec {
	return Spec{ID: image.NewID(), App: inst.String(), Class: inst.Class, Workload: string(inst.Workload.Source()),
		NP: inst.NP, Iterations: inst.Iterations, Mapping: Mapping{inst.NP}, MPI: mpi.MPICH.String(),
		Mode: Coordinated, SharedOnce: true, LibraryOnce: true, Codec: codec.UseAuto.String(), Incremental: true, Trace: true, Launcher: LocalLauncher, Created: time.Now().UTC()}
}

// maxNP bounds the number of ranks, as images do. Iterations have 31 bits in messages.
const (
	maxNP         = 1 << 20
	maxIterations = math.MaxInt32
)

func (s *Spec) checkNumbers() error {
	p := s.Schedule
	switch {
	case s.Program == nil && s.Iterations < 1:
		return &UsageError{fmt.Sprintf("%d iterations: a job needs at least one", s.Iterations), ""}
	case s.Iterations > maxIterations:
		return &UsageError{fmt.Sprintf("%d iterations: a job has at most %d", s.Iterations, maxIterations), ""}
	case s.Staging < 0 || s.Staging > 1<<42:
		return &UsageError{fmt.Sprintf("staging of %d bytes is out of range", s.Staging), ""}
	case s.InFlight < 0 || s.InFlight > MaxInFlight || s.InFlight > 1 && !s.Async:
		return &UsageError{fmt.Sprintf("%d checkpoints in flight are out of range", s.InFlight), wording.Sprintf("{async} takes 1 to %d", MaxInFlight)}
	case s.Residuals < 0:
		return &UsageError{fmt.Sprintf("residuals every %d iterations are out of range", s.Residuals), ""}
	case s.Retention().Check() != nil || s.Keep == 0 && s.Retention().Periods():
		return &UsageError{fmt.Sprintf("keep of %d checkpoints, %d hours and %d days is out of range", s.Keep, s.KeepHourly, s.KeepDaily), ""}
	case slices.ContainsFunc(s.Next, func(n image.Next) bool { return n.Check() != nil }):
		return &UsageError{fmt.Sprintf("next stores %+v are out of range", s.Next), ""}
	case s.Keep < 0 || s.Keep > maxNP:
		return &UsageError{fmt.Sprintf("keep of %d checkpoints is out of range", s.Keep), wording.Sprintf("{keep} takes a number from 1")}
	case p.Every < 0 || p.Count < 0 || p.Count > maxNP || p.Interval < 0 || !(p.Overhead >= 0 && p.Overhead <= 10):
		return &UsageError{fmt.Sprintf("schedule %+v is out of range", p), ""}
	}
	if err := s.checkLevel(); err != nil {
		return err
	}
	return s.Prediction.check()
}

// Retention is the rule by which the run removes checkpoints.
func (s *Spec) Retention() image.Retention {
	return image.Retention{Last: s.Keep, Hourly: s.KeepHourly, Daily: s.KeepDaily}
}

// MaxInFlight bounds the checkpoints in flight: each is a copy of the memory.
const MaxInFlight = 64

// Flights is how many checkpoints may be behind the computation at a time, 0 without Async.
func (s *Spec) Flights() int {
	if !s.Async {
		return 0
	}
	return max(1, s.InFlight)
}

func (s *Spec) checkCount() error {
	if s.Program != nil {
		if err := s.Program.check(); err != nil {
			return err
		}
	}
	if n := s.boundaries(); s.Schedule.Count >= n && (s.Program == nil || s.Schedule.Count > 0) {
		fix := wording.Sprintf("{count} takes 1 to %d here", n-1)
		if n <= 1 {
			fix = wording.Sprintf("leave {count} out, or run more iterations")
		}
		return Clash(ClashCount, fmt.Sprintf("%d checkpoints do not fit between %s", s.Schedule.Count, plural(n, "iteration")), fix)
	}
	return nil
}

// boundaries is how many the ranks pass, 0 if that is not known.
func (s *Spec) boundaries() int {
	if s.Program != nil {
		return s.Program.Boundaries
	}
	return s.Iterations
}

func (s *Spec) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// Launchers are the values of Spec.Launcher besides "local", with the options that give them the
// number of ranks.
var Launchers = map[string]string{"mpiexec": "-n", "srun": "-n"}

const LocalLauncher = "local"

// A Mode says which ranks take checkpoints, and restart, together.
type Mode string

const (
	Coordinated   Mode = "coordinated"   // all ranks
	Uncoordinated Mode = "uncoordinated" // every rank for itself
	Semi          Mode = "semi"          // the ranks of a node, or of a group of Spec.GroupSize
)

type Level string

const (
	System      Level = "system"      // all of the memory
	Application Level = "application" // what the application needs to continue
)

// LevelOf returns the level of the job's checkpoints. A program stores what it protects, unless
// another checkpointer takes its memory.
func (s *Spec) LevelOf() Level {
	switch {
	case s.Level != "":
		return s.Level
	case s.Program != nil && s.Origin == "":
		return Application
	}
	return System
}

// SavesArrays reports whether ranks store only the arrays that have to be saved.
func (s *Spec) SavesArrays() bool { return s.Level == Application }

func (s *Spec) checkLevel() error {
	switch {
	case s.Level != "" && s.Level != System && s.Level != Application:
		return &UsageError{fmt.Sprintf("level %q is unknown", string(s.Level)), wording.Sprintf("{level} takes system or application")}
	}
	return nil
}

// Stores reports whether a rank stores a region of the data zone in a checkpoint after iteration
// iter, and whether the region is the same on all ranks, so that the first rank stores it for
// all. After the last iteration all arrays are stored: they are not computed again.
func (r *Resolved) Stores(inst *dataset.Instance, region string, iter int) (stored, replicated bool) {
	for _, a := range inst.Arrays {
		if a.Name == region {
			return a.Save || iter >= r.Iterations, a.Replicated
		}
	}
	return false, false
}

// StoredZones returns the size of regions of the data zone.
func StoredZones(regions []zones.Region) (s zones.Sizes) {
	for _, r := range regions {
		s.Data += r.Size
	}
	return s
}

// Owner returns the rank of a checkpoint that has stored what is the same on all ranks.
func Owner(m *image.Manifest) *image.Rank { return &m.Ranks[0] }

type StorageTurns string

const (
	NoTurns   StorageTurns = ""     // it writes and reads when it wants to
	UseTurns  StorageTurns = "on"   // if the storage has a controller
	AutoTurns StorageTurns = "auto" // and starts one if need be
)

func ParseTurns(text string) (StorageTurns, error) {
	if text == "off" {
		return NoTurns, nil
	}
	t := StorageTurns(text)
	if t == NoTurns {
		return t, badTurns(text)
	}
	return t, t.Check()
}

func (t StorageTurns) Check() error {
	switch t {
	case NoTurns, UseTurns, AutoTurns:
		return nil
	}
	return badTurns(string(t))
}

func badTurns(text string) error {
	return &UsageError{fmt.Sprintf("storage turns %q are unknown", text), wording.Sprintf("{storage-turns} takes on, off or auto")}
}

// TurnsName names a job among those that share a storage, perhaps in several stores.
func TurnsName(storeDir, job string) string { return job + " in " + storeDir }
