package job

import (
	"cmp"
	"fmt"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/internal/wording"
)

// Resolved is a Spec whose texts have been read and checked against each other. The
// typed fields hide those of the Spec that have the same name.
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
	instance       func() (*dataset.Instance, error)
}

// Several reports whether the job has more than one group.
func (r *Resolved) Several() bool { return len(r.Groups) > 1 }

// Instance is the workload. It is evaluated when it is first asked for, since a job
// with a damaged one can still be listed, verified and pruned.
func (r *Resolved) Instance() (*dataset.Instance, error) { return r.instance() }

func (s Spec) evaluate() (*dataset.Instance, error) {
	w, err := dataset.ParseWorkload([]byte(s.Workload), s.App)
	if err != nil {
		return nil, err
	}
	return w.InstanceOn(s.Class, cmp.Or(s.Launched, s.NP), s.NP)
}

// ProtocolSchedule returns the schedule as the protocol takes it.
func (r *Resolved) ProtocolSchedule() protocol.Schedule {
	p := protocol.Schedule{Every: r.Schedule.Every, Interval: r.Schedule.Interval, Overhead: r.Schedule.Overhead}
	for i := range r.Schedule.Count {
		// n checkpoints cut the run into n+1 parts, none at the very end.
		p.At = append(p.At, (i+1)*r.Iterations/(r.Schedule.Count+1))
	}
	return p
}

// NoCheckpoints says that the job will not take checkpoints by itself although that seems
// to be expected, "" if it will or if it is not.
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

// CheckRunnable refuses a stored job that cannot run, for reasons that no option of the
// user can change.
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
