package interval

import "slices"

// A LevelFit is what a job measured of its levels of storage.
type LevelFit struct {
	Job      string      `json:"job"`
	Pause    *MeasuredTo `json:"node_pause"`
	Drain    *MeasuredTo `json:"drain_time"`
	Restart  *MeasuredTo `json:"node_restart"`  // null if no failure left the nodes enough
	Stored   *MeasuredTo `json:"store_restart"` // null if no failure needed the store
	Failures int         `json:"failure_count"`
	Own      int         `json:"own_node_failures"`
	Others   int         `json:"other_nodes_failures"`
	Store    int         `json:"store_failures"`
	Share    *ShareRange `json:"fitted_share"` // null without failures
	Few      bool        `json:"too_few_failures"`
	Assumed  []string    `json:"assumption_list"`
}

// MeasuredTo is a median and the range of what was measured.
type MeasuredTo struct {
	Median float64 `json:"median_s"`
	Min    float64 `json:"min_s"`
	Max    float64 `json:"max_s"`
	Count  int     `json:"count"`
}

// ShareRange is a [ShareFit] as it is printed.
type ShareRange struct {
	Value float64 `json:"survived_share"`
	Low   float64 `json:"low_share"`
	High  float64 `json:"high_share"`
}

func newMeasured(list []float64) *MeasuredTo {
	if len(list) == 0 {
		return nil
	}
	return &MeasuredTo{Median: Median(list).Value, Min: slices.Min(list), Max: slices.Max(list), Count: len(list)}
}

// MeasuredRestarts are the times of restarts after failures, by what each needed: the nodes of the
// ranks, other nodes too, or the store.
type MeasuredRestarts struct{ Own, Others, Store []float64 }

// FitLevels fits levels to what a job measured: the pauses for checkpoints on the nodes, the
// drains into the store and the restarts.
func FitLevels(name string, pauses, drains []float64, r *MeasuredRestarts) (*LevelFit, error) {
	fit := &LevelFit{Job: name, Pause: newMeasured(pauses), Drain: newMeasured(drains), Own: len(r.Own), Others: len(r.Others), Store: len(r.Store),
		Restart: newMeasured(slices.Concat(r.Own, r.Others)), Stored: newMeasured(r.Store), Assumed: []string{}}
	fit.Failures = fit.Own + fit.Others + fit.Store
	if fit.Failures == 0 {
		return fit, nil
	}
	s, err := FitShare(fit.Own+fit.Others, fit.Failures)
	fit.Share, fit.Few = &ShareRange{s.Value, s.Low, s.High}, s.Few()
	return fit, err
}

// Levels are the nodes and the store, whose restarts are assumed where none was measured.
func (f *LevelFit) Levels(share float64) []StorageLevel {
	local := StorageLevel{Name: "local", Cost: lasting(f.Pause.Median), Share: share}
	store := StorageLevel{Name: "store", Drain: lasting(f.Drain.Median), Share: 1}
	if f.Restart != nil {
		local.Restart = lasting(f.Restart.Median)
	} else {
		local.Restart = local.Cost
		f.Assumed = append(f.Assumed, "a restart from the nodes takes as long as a checkpoint there")
	}
	if f.Stored != nil {
		store.Restart = lasting(f.Stored.Median)
	} else {
		store.Restart = local.Restart + store.Drain
		f.Assumed = append(f.Assumed, "a restart from the store takes a drain longer than one from the nodes")
	}
	f.Assumed = append(f.Assumed, "a drain does not slow the job down")
	return []StorageLevel{local, store}
}

// Median returns the median of the values in a list, with its 95 % interval.
func Median(list []float64) Estimated { return MedianOf(slices.Sorted(slices.Values(list))) }
