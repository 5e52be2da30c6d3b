package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/internal/wording"
)

// Resolve reads the texts of a Spec once, and refuses what cannot run. An imported job, which
// never runs here, has one group and no settings.
func (s Spec) Resolve() (*Resolved, error) {
	r := &Resolved{Spec: s, Nodes: s.Mapping.Nodes(), instance: sync.OnceValues(s.Evaluate)}
	if s.Origin != "" {
		r.divide()
		r.Layouts = make([]*JointLayout, len(r.Groups))
		return r, nil
	}
	var err error
	if r.Implementation, err = mpi.ParseImplementation(s.MPI); err != nil && s.Program == nil {
		return nil, &UsageError{fmt.Sprintf("mpi %q is unknown", s.MPI), wording.Sprintf("{mpi} takes mpich or openmpi")}
	}
	if err := r.resolveMode(); err != nil {
		return nil, err
	}
	if r.Codec, err = parseOr(s.Codec, codec.UseNone, codec.ParseSetting); err != nil {
		return nil, &UsageError{err.Error(), wording.Sprintf("{codec} takes %s", codec.Choices())}
	}
	if err := s.StorageTurns.Check(); err != nil {
		return nil, err
	}
	if err := s.checkNumbers(); err != nil {
		return nil, err
	}
	r.divide()
	if err := CheckCombinations(r.Lookup("")); err != nil {
		return nil, err
	}
	if err := r.checkTier(); err != nil {
		return nil, err
	}
	if err := r.resolveLayouts(); err != nil {
		return nil, err
	}
	return r, s.checkCount()
}

func decodeSpec(b []byte) (*Resolved, error) {
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
		return s.Resolve() // nothing of it will run
	case s.Origin != "":
		return nil, fmt.Errorf("mode %q, mapping %q of %d ranks: not an imported job", s.Mode, s.Mapping, s.NP)
	case sum != s.NP:
		return nil, fmt.Errorf("mapping %q does not place %d ranks", s.Mapping, s.NP)
	}
	return s.Resolve()
}

func ReadSpec(job *image.Job) (*Resolved, error) {
	text, err := job.Spec()
	if err != nil {
		return nil, err
	}
	spec, err := decodeSpec(text)
	if err != nil {
		return nil, senseless(job, err)
	}
	return continued(job, spec)
}

// Resolved is a Spec whose texts have been read and checked against each other. Its typed fields
// hide the texts of the same name.
type Resolved struct {
	Spec
	Implementation mpi.Implementation
	Log            channel.Kind       // of messages between groups
	Stagger        supervisor.Stagger // of the checkpoints of groups
	Codec          codec.Setting
	Nodes          []int          // of each rank
	Groups         [][]int        // the ranks of each group, ascending
	GroupOf        []int          // of each rank
	Layouts        []*JointLayout // of each group; nil: every rank writes a file of its own
	Recut          *Recut         // of a stored job; nil: it continues on the ranks of its launch
	launched       *Resolved      // with Recut, the job as it was launched
	instance       func() (*dataset.Instance, error)
}

// Lone reports whether one agent speaks for all ranks, as of a program under DMTCP.
func (r *Resolved) Lone() bool { return r.Origin != "" && r.Program != nil }

func (r *Resolved) Several() bool { return len(r.Groups) > 1 }

// Instance is the workload, evaluated when it is first asked for: a job with a damaged one can
// still be listed, verified and pruned.
func (r *Resolved) Instance() (*dataset.Instance, error) { return r.instance() }

// Evaluate evaluates the workload.
func (s Spec) Evaluate() (*dataset.Instance, error) {
	w, err := dataset.ParseWorkload([]byte(s.Workload), s.App)
	if err != nil {
		return nil, err
	}
	return w.InstanceOn(s.Class, cmp.Or(s.Launched, s.NP), s.NP)
}

func (r *Resolved) ProtocolSchedule() protocol.Schedule {
	p := protocol.Schedule{Every: r.Schedule.Every, Interval: r.Schedule.Interval, Overhead: r.Schedule.Overhead}
	for i := range r.Schedule.Count {
		// n checkpoints cut the run into n+1 parts.
		p.At = append(p.At, (i+1)*r.boundaries()/(r.Schedule.Count+1))
	}
	return p
}

// NoCheckpoints says that the job will not take checkpoints by itself although settings expect
// some, or returns "".
func (r *Resolved) NoCheckpoints() string {
	after := ""
	if r.AutoRestart {
		after = "; ranks that fail restart from the beginning"
		if r.Program != nil {
			after = "; until then a program that fails restarts from the beginning"
		}
	}
	switch {
	case r.Program == nil && r.Schedule.Every >= r.Iterations:
		return wording.Sprintf("no checkpoint will be taken: {every} %d, and the job has %d iterations%s", r.Schedule.Every, r.Iterations, after)
	case r.Schedule == Schedule{} && (r.AutoRestart || r.Keep > 0):
		asked := wording.Sprintf("{auto-restart}")
		if !r.AutoRestart {
			asked = wording.Sprintf("{keep} %d", r.Keep)
		}
		if r.Program != nil {
			return asked + wording.Sprintf(" without {every}, {interval} or {overhead}: no checkpoint is taken before {checkpoint JOB} or ckpt_save asks for one") + after
		}
		return asked + wording.Sprintf(" without {every}, {count}, {interval} or {overhead}: no checkpoint is taken before {checkpoint JOB} asks for one") + after
	}
	return ""
}

// CheckRunnable refuses a stored job that no option of the user makes runnable.
func (r *Resolved) CheckRunnable(job *image.Job) error {
	if r.Origin != "" && r.Program == nil {
		return &UsageError{fmt.Sprintf("job %s was imported from %s: ckpt cannot run it", job.Name(), r.Origin),
			wording.Sprintf("{export %s@N DIR} gives the images back; restart them with dmtcp_restart", job.Name())}
	}
	if r.Program != nil {
		return nil
	}
	if _, ok := Launchers[r.Launcher]; !ok && r.Launcher != "" && r.Launcher != LocalLauncher {
		return senseless(job, fmt.Errorf("launcher %q is unknown", r.Launcher))
	}
	inst, err := r.Instance()
	if err == nil && inst.String() != r.App {
		err = fmt.Errorf("the workload is that of %s, the job is %s", inst, r.App)
	}
	if err != nil {
		return senseless(job, err)
	}
	return nil
}

// parseOr parses a text; an empty one means the usual value.
func parseOr[T any](text string, usual T, parse func(string) (T, error)) (T, error) {
	if text == "" {
		return usual, nil
	}
	return parse(text)
}

func (s *Resolved) resolveMode() (err error) {
	switch s.Mode {
	case Coordinated, Uncoordinated, Semi:
	default:
		return &UsageError{fmt.Sprintf("mode %q is unknown", s.Mode), wording.Sprintf("{mode} takes coordinated, uncoordinated or semi")}
	}
	if s.GroupSize < 0 || s.GroupSize > s.NP && s.Mode == Semi {
		return Clash(ClashGroup, wording.Sprintf("{group-size} %d: the job has %d ranks", s.GroupSize, s.NP), fmt.Sprintf("give 1 to %d", s.NP))
	}
	if s.Log, err = parseOr(s.Spec.Log, channel.Receiver, channel.ParseKind); err != nil {
		return &UsageError{err.Error(), wording.Sprintf("{log} takes pessimistic-receiver, pessimistic-sender, optimistic or none")}
	}
	if s.Stagger, err = parseOr(s.Spec.Stagger, supervisor.Spread, supervisor.ParseStagger); err != nil {
		return &UsageError{err.Error(), wording.Sprintf("{stagger} takes none, spread or random")}
	}
	if !(s.Jitter >= 0 && s.Jitter < 1) {
		percent := math.Round(s.Jitter*1e4) / 1e2 // as the user wrote it
		return &UsageError{wording.Sprintf("{jitter} %g%%: not a part of the interval", percent), "give 0% to 99%"}
	}
	return nil
}

// OneGroup says that groups were asked for and all ranks are in one, or returns "".
func (s *Resolved) OneGroup() string {
	if s.Mode != Semi || s.NP == 1 || s.Several() {
		return ""
	}
	return wording.Sprintf("{mode} semi: all %d ranks are one group, as with {mode} coordinated; {nodes}, {map} or {group-size} makes several", s.NP)
}

func (s *Resolved) divide() {
	for rank := range s.NP {
		var first bool // of its group
		switch {
		case s.Mode == Uncoordinated:
			first = true
		case s.Mode == Semi && s.GroupSize > 0:
			first = rank%s.GroupSize == 0
		case s.Mode == Semi:
			first = rank == 0 || s.Nodes[rank] != s.Nodes[rank-1]
		default:
			first = rank == 0
		}
		if first {
			s.Groups = append(s.Groups, nil)
		}
		last := len(s.Groups) - 1
		s.Groups[last], s.GroupOf = append(s.Groups[last], rank), append(s.GroupOf, last)
	}
}

// NameRanks names ranks that follow each other, as in a group.
func NameRanks(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return fmt.Sprintf("ranks %d-%d", ranks[0], ranks[len(ranks)-1])
}
