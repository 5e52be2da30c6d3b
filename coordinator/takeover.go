package coordinator

import (
	"errors"
	"io/fs"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/msglog"
	"ckpt/internal/durable"
)

// incarnationsPerRun separates the incarnations of one run from those of the next,
// which does not know how many there were.
const incarnationsPerRun = 1 << 20

// takeOver makes the incarnations of this run differ from those of earlier runs. It is
// the first step that changes a stored job.
func (d *driver) takeOver() error {
	if err := d.output.Cut(); err != nil {
		return err
	}
	if d.spec.Residuals > 0 {
		_ = d.output.Reserve(0) // if it fails, lines will tell
	}
	if !d.spec.Several() {
		return nil
	}
	if err := d.job.FS().Mkdir(job.LogsDir(d.job)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.baseline.Incarnation += incarnationsPerRun
	err := d.noteBaseline()
	if derr := d.dropBelow(d.baseline.Base); derr != nil {
		d.out.Warn(notRemoved + derr.Error())
	}
	if !errors.Is(err, durable.ErrStorageFull) {
		return err
	}
	// There may be room now.
	if _, serr := d.job.Sweep(); serr != nil {
		return errors.Join(err, serr)
	}
	if err := d.noteBaseline(); err != nil {
		return d.cannotGoOn(err)
	}
	return nil
}

// noteBaseline writes d.line, and does what follows from it.
func (d *driver) noteBaseline() error {
	if err := job.WriteBaseline(d.job, d.baseline); err != nil || !d.baseline.Unlogged {
		return err
	}
	return d.resetLogs()
}

// resetLogs removes what lies behind the checkpoints that the job resumes from, after
// that was noted: newer checkpoints, and all that was logged. The next frame of a log
// has the number at which the checkpoint was taken. A run that was cut short here is
// taken up again by the next.
func (d *driver) resetLogs() error {
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return err
	}
	base := d.baseline.Base
	newer := slices.DeleteFunc(numbers, func(n int) bool { return n <= base[(n-1)%len(base)] })
	slices.Reverse(newer)
	if err := d.forget(newer); err != nil {
		return err
	}
	for g, number := range base {
		first := make(map[int]uint64)
		if number > 0 {
			m, err := d.job.Manifest(number)
			if err != nil {
				return err
			}
			for _, r := range m.Ranks {
				first[r.Rank] = r.LogFrom
			}
		}
		for _, rank := range d.groups[g].ranks {
			id, err := job.LogID(d.job, rank)
			if err != nil {
				return err
			}
			if err := msglog.Reset(d.job.FS(), job.LogDir(d.job, rank), id, msglog.LSN(max(1, first[rank]))); err != nil {
				return err
			}
		}
	}
	d.baseline.Unlogged = false
	return job.WriteBaseline(d.job, d.baseline)
}
