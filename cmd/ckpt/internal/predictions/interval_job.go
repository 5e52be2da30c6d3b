package predictions

import (
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/levels"
	"ckpt/interval"
)

// toldTimes tells a median and its range.
func toldTimes(m *interval.MeasuredTo) string {
	if m.Count == 1 {
		return ui.Seconds(m.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", ui.Seconds(m.Median), ui.Seconds(m.Min), ui.Seconds(m.Max))
}

// measuredLevels fits the levels of h to the journal of a job.
func (o *levelOptions) measuredLevels(h *interval.Hierarchy) (*interval.LevelFit, error) {
	fit, err := newLevelFit(o.fromJob, o.tier)
	if err != nil {
		return nil, err
	}
	share, err := o.fittedShare(fit)
	if err != nil {
		return nil, err
	}
	h.Levels = fit.Levels(share)
	return fit, nil
}

// fittedShare is the share of the failures that the nodes survive: from --share-local,
// or of the failures of the job.
func (o *levelOptions) fittedShare(fit *interval.LevelFit) (float64, error) {
	if o.shareLocal != "" {
		fit.Share, fit.Few = nil, false
		var q ui.Quantities
		share := q.Share("--share-local", o.shareLocal)
		return share, q.Err
	}
	if fit.Share == nil {
		return 0, ui.BadUsage(fmt.Sprintf("--from-job %s: the job was restarted after no failure, which leaves the share open that its nodes survive", o.fromJob),
			"add it, like --share-local 85%")
	}
	return fit.Share.Value, nil
}

func newLevelFit(name string, run *levels.TierRun) (*interval.LevelFit, error) {
	if len(run.Drains) == 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--from-job %s: no checkpoint went from the nodes into the store", name), "launch it with --drain behind")
	}
	var r interval.MeasuredRestarts
	for i := range run.Failures {
		f := &run.Failures[i]
		needed := &r.Own
		switch {
		case f.NeedsStore():
			needed = &r.Store
		case f.NeedsNodes():
			needed = &r.Others
		}
		*needed = append(*needed, f.RestartS)
	}
	return interval.FitLevels(name, run.Pauses, run.Drains, &r)
}

// about tells what was measured.
func aboutFit(f *interval.LevelFit) string {
	text := fmt.Sprintf("job %s: %s on the nodes, pause %s; %s, %s\n", f.Job, ui.Count(f.Pause.Count, "checkpoint"), toldTimes(f.Pause),
		ui.Count(f.Drain.Count, "drain"), toldTimes(f.Drain))
	text += fmt.Sprintf("%s: %d needed nothing but the nodes of the ranks, %d other nodes, %d the store\n", ui.Count(f.Failures, "failure"), f.Own, f.Others, f.Store)
	if f.Share != nil {
		text += fmt.Sprintf("the nodes survive %s of the failures, %s to %s in 95 %%\n", ui.Percent(f.Share.Value), ui.Percent(f.Share.Low), ui.Percent(f.Share.High))
	}
	if f.Few {
		text += fmt.Sprintf("%s are too few to tell that share: compare the rows of both ends, or give --share-local\n", ui.Count(f.Failures, "failure"))
	}
	for _, a := range f.Assumed {
		text += "assumed: " + a + "\n"
	}
	return text
}

// open adds the best patterns at both ends of a share that was fitted.
func (r *levelsResult) open() error {
	if r.Fit.Share == nil {
		return nil
	}
	for _, share := range []float64{r.Fit.Share.Low, r.Fit.Share.High} {
		if err := r.IfFirstSurvives(share, "if "+ui.Percent1(share)); err != nil {
			return err
		}
	}
	return nil
}
