package predictions

import (
	"fmt"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// scoreKept compares a job with the prediction that it was launched with, nil if it was
// launched without one.
func scoreKept(j *image.Job) (*scoreResult, error) {
	spec, err := job.ReadSpec(j)
	if err != nil || spec.Prediction == nil {
		return nil, err
	}
	run, err := job.MeasureRun(j)
	if err != nil {
		return nil, err
	}
	p := spec.Prediction
	s := &predict.Stored{Model: p.Model, Basis: p.Basis}
	s.Full.Total, s.FullTime.Total = amounts(&p.First)
	s.Next.Total, s.NextTime.Total = amounts(&p.Next)
	_, s.RefreshTime.Total = amounts(&p.Full)
	r := &scoreResult{Job: j.Name(), App: spec.App, Model: p.Model, Basis: p.Basis, Scores: []scoreLine{}, Zones: []zoneScore{}}
	r.compare(s, &run)
	if len(r.Stored) == 0 {
		return nil, fmt.Errorf("job %s has no checkpoint in the store to compare: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	r.Inside = *r.StoredInside
	return r, nil
}

func amounts(c *job.PredictedCheckpoint) (stored, seconds fit.Range) {
	return fit.Range{Value: float64(c.Stored), Low: float64(c.StoredLow), High: float64(c.StoredHigh)},
		fit.Range{Value: c.Time, Low: c.TimeLow, High: c.TimeHigh}
}
