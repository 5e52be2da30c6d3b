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

// A StoredLine is where the groups of a job go on from if all of them fail at
// once, as far as the store tells. A rank of its history stands for a group.
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
	spec, err := ReadSpec(job)
	if err == nil {
		err = CheckDescription(job)
	}
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
	found, anew := stored.Found, noted.FromScratch()
	l.Passed, l.passed = stored.Passed, stored.Reason()
	l.History = &recovery.History{Ranks: make([]recovery.Rank, len(l.Groups))}
	for g := range l.Groups {
		if anew {
			l.addBeginning(g)
			continue
		}
		if err := l.addGroup(ctx, job, spec, g, found[g], noted.Base); err != nil {
			if l.Log == channel.Optimistic {
				err = l.offer(job, found, noted.Base, err)
			}
			return nil, err
		}
	}
	failed := make([]int, len(l.Groups))
	for g := range failed {
		failed[g] = g
	}
	rules := recovery.Options{InTransit: recovery.Allowed}
	if l.Log == channel.None {
		rules.InTransit = recovery.Forbidden
	}
	if l.Line, err = recovery.Find(l.dependent(), failed, rules); err != nil {
		if errors.Is(err, recovery.ErrNoLine) {
			if lerr := l.checkAllLogs(job, spec, found); lerr != nil {
				return nil, l.offer(job, found, noted.Base, lerr)
			}
			err = &MissingError{err.Error(), l.passed}
		}
		return nil, err
	}
	for g := range l.Line.Places {
		p := &l.Line.Places[g]
		p.State = l.History.Ranks[g].Checkpoints[p.Index]
	}
	if l.Garbage, err = recovery.Collect(l.dependent(), rules); err != nil {
		return nil, err
	}
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
			return nil, l.offer(job, found, noted.Base, err)
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

// addBeginning adds the only state of a group that begins anew.
func (l *StoredLine) addBeginning(g int) {
	var s recovery.State
	s.Sent, s.Received = l.counters(nil)
	l.History.Ranks[g].Checkpoints = []recovery.State{s}
}

// addGroup adds the states that group g can go back to: the beginning, as long as
// nothing has been cut from the logs, the checkpoints, and what an optimistic log
// holds behind them.
func (l *StoredLine) addGroup(ctx context.Context, job *image.Job, spec *Resolved, g int, found []*image.Manifest, base []int) error {
	oldest := 0
	if g < len(base) {
		oldest = base[g]
	}
	if found = slices.DeleteFunc(slices.Clone(found), func(m *image.Manifest) bool { return m.Number < oldest }); len(found) == 0 && oldest > 0 {
		return &MissingError{fmt.Sprintf("%s can go back to checkpoint %d or a later one, and none of them is there", l.Name(g), oldest), l.passed}
	}
	type stored struct {
		recovery.State
		vectors []channel.Vector
	}
	var list []stored
	if oldest == 0 || l.Log == channel.None || !l.Several() {
		list = append(list, stored{vectors: make([]channel.Vector, len(l.Groups[g]))})
	}
	for _, m := range found {
		s := stored{State: recovery.State{Number: m.Number, Iteration: int(m.Iteration)}}
		if l.Several() {
			var err error
			if s.vectors, err = VectorsOf(m); err != nil {
				return err
			}
		}
		list = append(list, s)
	}
	states := &l.History.Ranks[g].Checkpoints
	for k, s := range list {
		s.Sent, s.Received = l.counters(s.vectors)
		*states = append(*states, s.State)
		if l.Log != channel.Optimistic || !l.Several() {
			continue
		}
		rank := l.Groups[g][0]
		logged, err := LoggedStates(ctx, job, spec, rank, s.Number)
		if err != nil {
			return fmt.Errorf("message log of rank %d: %w", rank, err)
		}
		for _, v := range logged {
			// Those behind the next checkpoint follow it as well.
			if v.Matches > s.vectors[0].Matches && (k+1 == len(list) || v.Matches <= list[k+1].vectors[0].Matches) {
				state := recovery.State{Number: s.Number, Iteration: s.Iteration, Logged: true}
				state.Sent, state.Received = l.counters([]channel.Vector{v})
				*states = append(*states, state)
			}
		}
	}
	return nil
}

// counters are those of the messages between the group and the others. With an
// optimistic log they are what the supervisor tells consistency by: receives from
// any source.
func (l *StoredLine) counters(vectors []channel.Vector) (sent, received []uint64) {
	n := len(l.Groups)
	sent, received = make([]uint64, n), make([]uint64, n)
	if !l.Several() {
		return sent, received
	}
	for _, v := range vectors {
		if l.Log == channel.Optimistic {
			for p := range sent {
				sent[p] = v.Matches
			}
			copy(received, v.Depends)
			continue
		}
		for p, ranks := range l.Groups {
			for _, r := range ranks {
				if r < len(v.Sent) && r < len(v.Received) {
					sent[p] += v.Sent[r]
					received[p] += v.Received[r]
				}
			}
		}
	}
	return sent, received
}

// dependent returns the history with what forces groups back.
func (l *StoredLine) dependent() *recovery.History {
	if !l.Pessimistic() {
		return l.History
	}
	h := &recovery.History{}
	for _, r := range l.History.Ranks {
		states := slices.Clone(r.Checkpoints)
		for k := range states {
			states[k].Sent, states[k].Received = nil, nil
		}
		h.Ranks = append(h.Ranks, recovery.Rank{Checkpoints: states})
	}
	return h
}

// addPresent says how far the groups are, where that is known, for what they
// lose; elsewhere they are drawn an iteration further than any checkpoint. What
// they have sent by now is at least what others have stored that they received.
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
		for p := range now.Sent {
			now.Sent[p] = max(now.Sent[p], states[p].Received[g])
		}
		l.History.Ranks[g].Current = &now
		if p := &l.Line.Places[g]; l.Live {
			p.LostIterations = max(0, now.Iteration-p.State.Iteration)
		}
	}
}

// Name names the ranks of a group.
func (l *StoredLine) Name(g int) string { return NameRanks(l.Groups[g]) }

// offer adds to the error of a log what the checkpoints alone allow.
func (l *StoredLine) offer(job *image.Job, found [][]*image.Manifest, base []int, err error) error {
	known, kerr := Known(found)
	if kerr != nil {
		return err
	}
	return OfferLine(job.Name(), supervisor.Config{Groups: l.Groups, Log: l.Log, Base: base, Known: known}, err)
}
