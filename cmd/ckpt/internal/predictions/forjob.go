package predictions

import (
	"cmp"
	"fmt"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/predict"
	"ckpt/predict/service"
)

// ForJob predicts the checkpoints of a job that is to be launched, with the model in a
// file. App and np are as on the command line.
func ForJob(model, app string, np int, s *job.Spec) (*job.Prediction, error) {
	if s.SavesArrays() {
		return nil, ui.BadUsage(fmt.Sprintf("--level application, and --model %s: models are of the whole memory", model), "leave --model out")
	}
	o := jobOptions{model: model}
	m, err := o.load()
	if err != nil {
		return nil, err
	}
	r := predict.Request{Mapping: slices.Clone([]int(s.Mapping)), MPI: cmp.Or(dataset.MPIName(s.MPI), s.MPI)}
	if r.App, err = m.Application(app, np); err != nil {
		return nil, inputErrors(err)
	}
	stored, err := m.Stored(r, predict.Storing{Codec: s.Codec, Layout: string(cmp.Or(s.WritePath.Layout, plan.PerRank)),
		Aggregators: max(0, s.WritePath.Aggregators), Async: s.Async}, nil)
	if err != nil {
		return nil, inputErrors(err)
	}
	p := &job.Prediction{Model: stored.Model, Basis: stored.Basis, First: predictedCheckpoint(&stored.Full, &stored.FullTime),
		Full: predictedCheckpoint(&stored.Full, &stored.RefreshTime), Next: predictedCheckpoint(&stored.Next, &stored.NextTime)}
	if !s.Incremental {
		p.Next = p.Full
	}
	return p, nil
}

func predictedCheckpoint(c *service.Checkpoint, t *service.Time) job.PredictedCheckpoint {
	return job.PredictedCheckpoint{Stored: int64(c.Total.Value), StoredLow: int64(c.Total.Low), StoredHigh: int64(c.Total.High),
		Time: t.Total.Value, TimeLow: t.Total.Low, TimeHigh: t.Total.High, Pause: t.Pause.Value}
}
