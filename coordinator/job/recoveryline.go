package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/recovery"
	"ckpt/image"
)

// A StoredLine is where the groups of a job resume if all of them fail at once, as far
// as the store tells. A rank of its history stands for a group.
type StoredLine struct {
	Job    string
	Mode   Mode
	Log    channel.Kind // of messages between groups
	Groups [][]int      // the ranks of each
	// History holds what can be gone back to. With a pessimistic log nothing of it
	// forces anybody back: replay takes each group on to where it was.
	History *recovery.History
	Line    *recovery.Line
	Garbage *recovery.Garbage // of History
	// Useless are the checkpoints that are in no line, now or ever. With a log they
	// all are of use.
	Useless []recovery.Checkpoint
	// Passed says why checkpoints are not in History: they are missing in part, or
	// damaged.
	Passed []error
	passed error // in short; may be nil
	// Live says that History knows how far the job is: it runs, or it has ended.
	Live bool
}

// Several reports whether the job has more than one group. The line of one group is its
// newest checkpoint.
func (l *StoredLine) Several() bool { return len(l.Groups) > 1 }

// Pessimistic reports whether a group goes back to its newest checkpoint and
// nobody with it.
func (l *StoredLine) Pessimistic() bool {
	return l.Several() && (l.Log == channel.Receiver || l.Log == channel.Sender)
}

// attempts is how often FindLine reads a job that is being run and changes
// meanwhile.
const attempts = 10

// FindLine finds the line of a job, running or not: inspect tells which. It
// changes nothing. The line needs manifests, files and logs: it looks at them, but
// does not read every byte as Verify does. The error tells which one is missing or
// damaged.
func FindLine(ctx context.Context, job *image.Job, inspect func() (*Status, error)) (*StoredLine, error) {
	spec, err := readChecked(job)
	if err != nil {
		return nil, err
	}
	if spec.Origin != "" {
		return nil, &UsageError{"job " + job.Name() + " was imported: another checkpointer restarts it", "{show " + job.Name() + "} shows its checkpoint"}
	}
	for i := 1; ; i++ {
		before, err := ReadBaseline(job, len(spec.Groups))
		if err != nil {
			return nil, err
		}
		status, err := inspect()
		if err != nil {
			return nil, err
		}
		l, err := findLine(ctx, job, spec, status, &before)
		// A running job takes away what it needs no longer, after it has said so.
		if after, again := ReadBaseline(job, len(spec.Groups)); status.State == StateRunning && i < attempts && again == nil &&
			(err != nil || !before.same(&after)) {
			continue
		}
		return l, err
	}
}

func findLine(ctx context.Context, job *image.Job, spec *Resolved, status *Status, noted *Baseline) (*StoredLine, error) {
	l := &StoredLine{Job: job.Name(), Mode: spec.Mode, Log: spec.Log, Groups: spec.Groups}
	stored, err := ReadStored(job, spec, noted.Base)
	if err != nil {
		return nil, err
	}
	stored.Miss(noted)
	if err := stored.addNodes(ctx, job, spec); err != nil {
		return nil, err
	}
	found, anew := stored.Found, noted.FromScratch()
	l.Passed, l.passed = stored.Passed, stored.Reason()
	cfg := supervisor.Config{Groups: l.Groups, Log: l.Log, Base: noted.Base}
	if !anew {
		if cfg.Known, err = Known(found); err != nil {
			return nil, err
		}
		err = l.checkBase(found, noted.Base)
		if l.Several() && l.Log == channel.Optimistic {
			if err == nil {
				cfg.Logged, err = Logged(ctx, job, spec, cfg)
			}
			err = OfferLine(job.Name(), cfg, err)
		}
		if err != nil {
			return nil, err
		}
	}
	line, err := supervisor.FindLine(cfg)
	if errors.Is(err, recovery.ErrNoLine) {
		if lerr := l.checkAllLogs(job, spec, found); lerr != nil {
			return nil, OfferLine(job.Name(), cfg, lerr)
		}
		err = &MissingError{What: err.Error(), Cause: l.passed}
	}
	if err != nil {
		return nil, err
	}
	l.History, l.Line, l.Garbage = line.History, line.Line, line.Garbage
	if l.Several() && l.Log == channel.None {
		if l.Useless, err = recovery.Useless(l.History); err != nil {
			return nil, err
		}
	}
	for g, p := range l.Line.Places {
		if anew || !l.Several() || !l.Log.Logs() {
			break
		}
		at := l.History.Ranks[g].Checkpoints[p.Load].Number
		upTo := slices.DeleteFunc(slices.Clone(found[g]), func(m *image.Manifest) bool { return m.Number > at })
		if err := CheckLogs(job, spec, g, upTo); err != nil {
			return nil, OfferLine(job.Name(), cfg, err)
		}
	}
	l.addPresent(status)
	return l, nil
}

// checkAllLogs looks for damage to a log, which may be why there is no line.
func (l *StoredLine) checkAllLogs(job *image.Job, spec *Resolved, found [][]*image.Manifest) error {
	if !l.Log.Logs() {
		return nil
	}
	for g := range found {
		if err := CheckLogs(job, spec, g, found[g]); err != nil {
			return err
		}
	}
	return nil
}

// checkBase checks that each group has a state left to go back to.
func (l *StoredLine) checkBase(found [][]*image.Manifest, base []int) error {
	for g := range base {
		if n := len(found[g]); base[g] > 0 && (n == 0 || found[g][n-1].Number < base[g]) {
			return &MissingError{What: fmt.Sprintf("%s can go back to checkpoint %d or a later one, and none of them is there", l.Name(g), base[g]), Cause: l.passed}
		}
	}
	return nil
}

// addPresent adds how far the groups are, so that their losses can be counted. Where
// that is not known, they are drawn an iteration further than any checkpoint. A group
// has sent at least the messages that others have stored as received.
func (l *StoredLine) addPresent(status *Status) {
	l.Live = status.State == StateRunning || status.State == StateCompleted
	states := make([]recovery.State, len(l.Groups)) // the newest
	at := status.Iteration
	for g, r := range l.History.Ranks {
		states[g] = r.Checkpoints[len(r.Checkpoints)-1]
		if !l.Live {
			at = max(at, states[g].Iteration+1)
		}
	}
	for g := range l.History.Ranks {
		now := states[g]
		now.Logged, now.Iteration = false, max(now.Iteration, at)
		now.Sent = slices.Clone(now.Sent)
		for p := range states {
			if p == g {
				continue
			}
			l.History.Channels(g, p, func(out, in int) { now.Sent[out] = max(now.Sent[out], states[p].Received[in]) })
		}
		l.History.Ranks[g].Current = &now
		if p := &l.Line.Places[g]; l.Live {
			p.LostIterations = max(0, now.Iteration-p.State.Iteration)
		}
	}
}

// Name names the ranks of a group.
func (l *StoredLine) Name(g int) string { return NameRanks(l.Groups[g]) }
