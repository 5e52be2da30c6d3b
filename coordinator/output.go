package coordinator

import (
	"fmt"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
)

// logState tells the user of a message log that has failed: the rank waits for it,
// and tries again and again.
func (d *driver) logState(rank int, m protocol.LogState) {
	if m.Text == "" {
		delete(d.logWaits, rank)
		d.out.Warn(fmt.Sprintf("the message log of rank %d is in order again", rank))
		return
	}
	err := wire.DecodeError(m.Body, m.Text)
	d.logWaits[rank] = err
	d.out.Warn(fmt.Sprintf("rank %d waits for its message log: %v", rank, err))
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
			d.event(ev)
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
	d.out.Warn(fmt.Sprintf("%d lines of output %s: %v", len(d.backlog.lines), what, err))
	for _, ev := range d.backlog.lines {
		d.event(ev)
	}
	d.backlog.lines = nil
	return nil
}
