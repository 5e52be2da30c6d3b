package coordinator

import (
	"errors"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/internal/durable"
)

// notRemoved begins the warning of what only costs room.
const notRemoved = "what is not needed any more was not removed: "

// forgetAfter removes the checkpoints of the group after a rollback, newest first, those
// that cannot be read too: they belong to states that the job has left.
func (g *group) forgetAfter(a protocol.Forget) error {
	if err := g.endIncarnation(); err != nil {
		return err
	}
	numbers, err := g.job.Checkpoints()
	if err != nil {
		return err
	}
	// The baseline says that nobody is to miss them. On a full disk it is written after
	// they are removed.
	late := false
	if g.spec.Several() && g.d.baseline.Taken[g.id] > a.After {
		g.d.baseline.Taken[g.id] = a.After
		err := job.WriteBaseline(g.job, g.d.baseline)
		if late = errors.Is(err, durable.ErrStorageFull); err != nil && !late {
			return err
		}
	}
	for _, n := range slices.Backward(numbers) {
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
		d.out.Warn(notRemoved + err.Error())
	}
	return nil
}

// free removes what nobody needs.
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
		m, err := d.job.Manifest(base)
		if err != nil {
			return err
		}
		for _, r := range m.Ranks {
			if d.spec.GroupOf[r.Rank] == g && d.groups[g].started && r.LogFrom > 0 {
				d.send(r.Rank, protocol.Truncate{First: r.LogFrom})
			}
		}
	}
	return nil
}
