package predictions

import (
	"fmt"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/interval"
	"ckpt/predict/service"
)

// A levelFit is what a job measured of its levels of storage.
type levelFit struct {
	Job      string      `json:"job"`
	Pause    *measuredTo `json:"node_pause"`
	Drain    *measuredTo `json:"drain_time"`
	Restart  *measuredTo `json:"node_restart"`  // null if no failure left the nodes enough
	Stored   *measuredTo `json:"store_restart"` // null if no failure needed the store
	Failures int         `json:"failure_count"`
	Own      int         `json:"own_node_failures"`
	Others   int         `json:"other_nodes_failures"`
	Store    int         `json:"store_failures"`
	Share    *shareRange `json:"fitted_share"` // null without failures
	Few      bool        `json:"too_few_failures"`
	Assumed  []string    `json:"assumption_list"`
}

// measuredTo is a median and the range of what was measured.
type measuredTo struct {
	Median float64 `json:"median_s"`
	Min    float64 `json:"min_s"`
	Max    float64 `json:"max_s"`
	Count  int     `json:"count"`
}

// shareRange is an interval.ShareFit.
type shareRange struct {
	Value float64 `json:"survived_share"`
	Low   float64 `json:"low_share"`
	High  float64 `json:"high_share"`
}

func newMeasured(list []float64) *measuredTo {
	if len(list) == 0 {
		return nil
	}
	return &measuredTo{Median: service.Median(list), Min: slices.Min(list), Max: slices.Max(list), Count: len(list)}
}

func (m *measuredTo) String() string {
	if m.Count == 1 {
		return ui.Seconds(m.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", ui.Seconds(m.Median), ui.Seconds(m.Min), ui.Seconds(m.Max))
}

// measuredLevels fits the levels of h to the journal of a job.
func (o *levelOptions) measuredLevels(h *interval.Hierarchy) (*levelFit, error) {
	fit, err := newLevelFit(o.fromJob, o.tier)
	if err != nil {
		return nil, err
	}
	share, err := o.fittedShare(fit)
	if err != nil {
		return nil, err
	}
	local := interval.StorageLevel{Name: "local", Cost: durationOf(fit.Pause.Median), Share: share}
	store := interval.StorageLevel{Name: "store", Drain: durationOf(fit.Drain.Median), Share: 1}
	if fit.Restart != nil {
		local.Restart = durationOf(fit.Restart.Median)
	} else {
		local.Restart = local.Cost
		fit.Assumed = append(fit.Assumed, "a restart from the nodes takes as long as a checkpoint there")
	}
	if fit.Stored != nil {
		store.Restart = durationOf(fit.Stored.Median)
	} else {
		store.Restart = local.Restart + store.Drain
		fit.Assumed = append(fit.Assumed, "a restart from the store takes a drain longer than one from the nodes")
	}
	fit.Assumed = append(fit.Assumed, "a drain does not slow the job down")
	h.Levels = []interval.StorageLevel{local, store}
	return fit, nil
}

// fittedShare is the share of the failures that the nodes survive: from --share-local,
// or of the failures of the job.
func (o *levelOptions) fittedShare(fit *levelFit) (float64, error) {
	if fit.Failures > 0 {
		s, err := interval.FitShare(fit.Own+fit.Others, fit.Failures)
		if err != nil {
			return 0, err
		}
		fit.Share, fit.Few = &shareRange{s.Value, s.Low, s.High}, s.Few()
	}
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

func newLevelFit(name string, run *job.TierRun) (*levelFit, error) {
	fit := &levelFit{Job: name, Pause: newMeasured(run.Pauses), Drain: newMeasured(run.Drains), Failures: len(run.Failures), Assumed: []string{}}
	if fit.Drain == nil {
		return nil, ui.BadUsage(fmt.Sprintf("--from-job %s: no checkpoint went from the nodes into the store", name), "launch it with --drain behind")
	}
	var nodes, store []float64
	for i := range run.Failures {
		f := &run.Failures[i]
		switch {
		case f.NeedsStore():
			fit.Store++
			store = append(store, f.RestartS)
			continue
		case f.NeedsNodes():
			fit.Others++
		default:
			fit.Own++
		}
		nodes = append(nodes, f.RestartS)
	}
	fit.Restart, fit.Stored = newMeasured(nodes), newMeasured(store)
	return fit, nil
}

// about tells what was measured.
func (f *levelFit) about() string {
	text := fmt.Sprintf("job %s: %s on the nodes, pause %s; %s, %s\n", f.Job, ui.Count(f.Pause.Count, "checkpoint"), f.Pause,
		ui.Count(f.Drain.Count, "drain"), f.Drain)
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
