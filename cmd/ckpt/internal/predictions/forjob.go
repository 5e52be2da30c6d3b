package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"ckpt/zones"
	"cmp"
	"fmt"
	"slices"
)

// ForJob predicts the checkpoints of a job that is to be launched, with the model in a
// file. App and np are as on the command line.
func ForJob(model, app string, np int, s *job.Spec) (*job.Prediction, error) {
	o := jobOptions{model: model}
	m, err := o.load(app)
	if err != nil {
		return nil, err
	}
	r := predict.Request{Mapping: slices.Clone([]int(s.Mapping)), MPI: cmp.Or(dataset.MPIName(s.MPI), s.MPI)}
	if r.App, err = m.Application(app, np); err != nil {
		return nil, InputErrors(err)
	}
	stored, err := m.Stored(r, predict.Storing{Codec: s.Codec, Layout: string(cmp.Or(s.WritePath.Layout, plan.PerRank)),
		Aggregators: max(0, s.WritePath.Aggregators), Async: s.Async, Saved: s.SavesArrays()}, nil)
	if err == nil {
		err = stored.TooFar()
	}
	if err != nil {
		return nil, InputErrors(err)
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

// Program describes a program by the model of its jobs, which protected the same arrays.
func Program(model, app string, np int) (*dataset.Instance, error) {
	o := jobOptions{model: model}
	m, err := o.load(app)
	if err != nil {
		return nil, err
	}
	a, err := m.Application(app, np)
	if err != nil {
		return nil, InputErrors(err)
	}
	if inst := a.Instance(); inst != nil {
		return inst, nil
	}
	return nil, ui.BadUsage(fmt.Sprintf("model %s does not know the arrays of %s", model, app), "ckpt predict fit --from-job makes one of jobs that protect their arrays by name")
}

// AddContents has a case store what the jobs behind a model did: the shares of regions and
// the ratios of codecs that they measured, with the doubt about them. Without a model it has none.
func AddContents(model string, c *tune.Case) error {
	if model == "" {
		return nil
	}
	o := jobOptions{model: model}
	m, err := o.load(c.Instance.String())
	if err != nil {
		return err
	}
	r := predict.Request{Mapping: slices.Clone([]int(c.Mapping)), MPI: cmp.Or(dataset.MPIName(c.MPI), c.MPI)}
	if r.App, err = m.Application(c.Instance.String(), 0); err != nil {
		return InputErrors(err)
	}
	s, err := m.Stored(r, predict.Storing{Codec: c.Codec, Saved: c.Saved}, nil)
	if err != nil {
		return InputErrors(err)
	}
	addContents(m, &s.Size, c)
	return nil
}

// addContents takes the contents of regions from what jobs stored.
func addContents(m *predict.Model, size *service.Size, c *tune.Case) {
	of := &size.Full
	if c.Following {
		of = &size.Next
	}
	if of.Total.Value > 0 {
		c.Doubt = (of.Total.High - of.Total.Low) / 4 / of.Total.Value
	}
	regions := make(map[string]float64)
	for _, a := range c.Instance.Arrays {
		regions[a.Name] = float64(zones.PageRound(a.Of(c.Instance.Shares()[0].First()).Bytes()))
	}
	regions["runtime"] = float64(zones.PageRound(c.Instance.Runtime))
	cached := make(map[string]map[string]service.Content) // by codec
	for _, codec := range fit.Codecs() {
		cached[codec] = m.Service.Contents(c.Instance, codec, !c.Following)
	}
	c.Content = func(region, codec string) tune.Content {
		x, ok := cached[codec][region]
		if size := regions[region]; ok && size > 0 {
			return tune.Content{Written: min(1, x.Bytes/size), Ratio: x.Ratio}
		}
		return tune.Content{Written: 1}
	}
}
