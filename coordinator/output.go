package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
)

// logState tells the user of a message log that has failed: the rank waits for it,
// and tries again and again.
func (d *driver) logState(rank int, m protocol.LogState) {
	if m.Text == "" {
		delete(d.logWaits, rank)
		d.Warn(fmt.Sprintf("the message log of rank %d is in order again", rank))
		return
	}
	err := wire.DecodeError(m.Body, m.Text)
	d.logWaits[rank] = err
	d.Warn(fmt.Sprintf("rank %d waits for its message log: %v", rank, err))
	d.stopIfFull(err)
}

// print puts an output out, having noted that it did. On a full disk it waits.
func (d *driver) print(a protocol.Print) error {
	d.backlog.lines = append(d.backlog.lines, &job.OutputEvent{Type: "output", Rank: a.Rank, Index: a.Index, Text: a.Text})
	if len(d.backlog.lines) > 1 {
		return nil // it takes its turn
	}
	return d.postpone("lines of output wait until they can be noted", d.noteOutput())
}

// noteOutput notes what waits for that, and puts it out.
func (d *driver) noteOutput() error {
	for len(d.backlog.lines) > 0 {
		ev := d.backlog.lines[0]
		noted, err := d.output.Add(ev)
		if noted {
			d.backlog.lines = d.backlog.lines[1:]
			d.Event(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endOutput does so a last time. A job that can be continued puts out again what has
// not been noted. A job that has completed shows its lines all the same, and notes their
// numbers in the room kept for that.
func (d *driver) endOutput() error {
	err := d.noteOutput()
	if err == nil || d.outcome.Result != protocol.Completed {
		return d.postpone("lines of output were not noted, and not shown", err)
	}
	what := "are noted by their numbers only"
	if _, serr := d.output.Put(job.NumbersOf(d.backlog.lines)); serr != nil {
		what = "are not noted, and a restart shows them again"
	}
	d.Warn(fmt.Sprintf("%d lines of output %s: %v", len(d.backlog.lines), what, err))
	for _, ev := range d.backlog.lines {
		d.Event(ev)
	}
	d.backlog.lines = nil
	return nil
}

// retryEvery is the time between attempts to write what did not fit on a full disk.
const retryEvery = 200 * time.Millisecond

// postpone tells the user, once, of what waits since the storage is full, and ends
// the job if that is asked for. Any other error it returns.
func (d *driver) postpone(what string, err error) error {
	if err == nil || !errors.Is(err, durable.ErrStorageFull) {
		return err
	}
	if !slices.Contains(d.backlog.told, what) {
		d.backlog.told = append(d.backlog.told, what)
		d.Warn(fmt.Sprintf("%s: %v", what, err))
	}
	d.stopIfFull(err)
	return nil
}

// catchUp tries again, now and then, to write what was postponed.
func (d *driver) catchUp() error {
	owes := len(d.backlog.lines) > 0 || d.backlog.owed != nil
	if !owes || d.Over() || d.now()-d.backlog.tried < retryEvery {
		return nil
	}
	d.backlog.tried = d.now()
	err := d.noteOutput()
	if a := d.backlog.owed; a != nil && err == nil {
		err = d.collect(*a)
	}
	if errors.Is(err, durable.ErrStorageFull) {
		return nil // which has been told
	}
	return err
}

// A backlog is what waits for room in the store.
type backlog struct {
	lines []*job.OutputEvent // of outputs, to be put out when they are there
	owed  *protocol.Collect  // what is not needed, and not noted to be so; may be nil
	tried time.Duration      // when that was last tried again
	told  []string           // to the user, of what waits
}

// notes are what a job keeps beside its checkpoints.
type notes struct {
	baseline job.Baseline
	output   job.Output
	backlog  backlog
}

// forgetAfter removes the checkpoints of the group after a rollback, newest first, those
// that cannot be read too: they belong to states that the job has left.
func (g *group) forgetAfter(a protocol.Forget) error {
	if err := g.endIncarnation(); err != nil {
		return err
	}
	g.level.Leave(a.After)
	numbers, err := g.job.Checkpoints()
	if err != nil {
		return err
	}
	// The baseline tells the next run not to miss them. On a full disk it is written after
	// they are removed.
	late, news := false, false
	if g.spec.Several() {
		news = g.spec.Tier != nil && g.d.baseline.Leave(g.id, a.After, g.begun)
		if taken := g.d.baseline.Taken[g.id]; taken > a.After {
			g.d.baseline.Taken[g.id], news = a.After, true
		}
	}
	if news {
		err := job.WriteBaseline(g.job, g.d.baseline)
		if late = errors.Is(err, durable.ErrStorageFull); err != nil && !late {
			return err
		}
	}
	for _, n := range slices.Backward(g.spec.Later(numbers)) {
		if n > a.After && n%len(g.d.groups) == (g.id+1)%len(g.d.groups) {
			if err := g.d.forget([]int{n}); err != nil {
				return err
			}
		}
	}
	if late && g.d.backlog.owed == nil && !g.d.baseline.FromScratch() { // else it comes next
		return g.d.collect(protocol.Collect{Base: g.d.baseline.Base})
	}
	return nil
}

// forget removes checkpoints.
func (d *driver) forget(numbers []int) error {
	for _, n := range numbers {
		job.DropTrace(d.job, n)
	}
	return d.job.Drop(numbers...)
}

// dropBelow removes the checkpoints of each group that are older than its base: all
// that there are. The protocol does not know those that cannot be read, nor those
// that an earlier run has not come to remove.
func (d *driver) dropBelow(base []int) error {
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return err
	}
	numbers = slices.DeleteFunc(numbers, func(n int) bool {
		g := (n - 1) % len(d.groups)
		if n <= d.spec.Recut.Last() {
			return slices.Contains(d.spec.Recut.From, n)
		}
		return g >= len(base) || n >= base[g]
	})
	return d.forget(numbers)
}

// collect removes what no recovery can need any more. On a full disk, nothing is
// removed until it can be noted: whoever takes the job over would miss it.
func (d *driver) collect(a protocol.Collect) error {
	d.baseline.Base, d.backlog.owed = slices.Clone(a.Base), nil
	err := job.WriteBaseline(d.job, d.baseline)
	if err != nil && slices.Contains(a.Base, -1) {
		return err // next, the rest of the history goes
	}
	if errors.Is(err, durable.ErrStorageFull) {
		d.backlog.owed = &a
		return d.postpone("what is not needed any more is kept until that can be noted", err)
	}
	if err != nil {
		return err
	}
	// From here on it is only about room.
	if err := d.free(a); err != nil {
		d.Warn(job.NotRemoved + err.Error())
	}
	return nil
}

// free removes what no recovery needs.
func (d *driver) free(a protocol.Collect) error {
	if err := d.dropBelow(a.Base); err != nil {
		return err
	}
	if !d.writing() {
		if _, err := d.job.Sweep(); err != nil {
			return err
		}
	}
	for g, base := range a.Base {
		if base <= 0 {
			continue // all of the log is needed, or the job restarts from scratch
		}
		_, m, err := d.Reads(base)
		if err != nil {
			return err
		}
		for _, r := range m.Ranks {
			if d.spec.GroupOf[r.Rank] == g && d.groups[g].started && r.LogFrom > 0 {
				d.Send(r.Rank, protocol.Truncate{First: r.LogFrom})
			}
		}
	}
	return nil
}
