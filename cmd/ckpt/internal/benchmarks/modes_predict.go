package benchmarks

import (
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/predict/modes"
)

// predict fills in the predictions of all modes.
func (b *benchModes) predict(base *job.Spec) error {
	inst, err := dataset.ParseApp(base.App, 0)
	if err != nil {
		return err
	}
	for i := range b.Modes {
		r := &b.Modes[i]
		groups, err := modes.Groups(modes.Mode(r.Mode), base.Mapping, base.GroupSize)
		if err != nil {
			return err
		}
		traffic := modes.Count(inst, groups)
		r.PredictedLog = int64(float64(b.Iterations) * traffic.Logged(modes.Log(r.Log)).Bytes)
		r.PredictedRestart = b.restartFromOthers(i)
	}
	return nil
}

// restartFromOthers predicts a restart of a mode by those of all others: a time for any
// restart, a time for each rank, and the rate of reading. Ranks that restarted from the
// beginning read nothing, but compute their first state: they are left out.
func (b *benchModes) restartFromOthers(i int) *float64 {
	var known []dataset.JobRestart
	sizes := map[int]bool{}
	for k := range b.Modes {
		for _, r := range b.Modes[k].restarts {
			if k != i && r.ReadBytes > 0 {
				known = append(known, r)
				sizes[r.Ranks] = true
			}
		}
	}
	own := b.Modes[i].restarts
	if len(sizes) < 2 || len(own) == 0 {
		return nil
	}
	var m modes.Machine
	m.FitRestarts(known)
	var measured, predicted []float64
	for _, r := range own {
		if r.ReadBytes == 0 {
			return nil
		}
		measured = append(measured, r.TotalS)
		predicted = append(predicted, m.Restart(r.Ranks, float64(r.ReadBytes)/(1<<20)).Value)
	}
	p := modes.Median(predicted)
	b.Modes[i].MedianRestart = modes.Median(measured)
	return &p
}
