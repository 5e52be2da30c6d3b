package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/predict"
	"ckpt/predict/fit"
	"errors"
	"fmt"
	"strconv"
)

func runPredictScore(g *ui.Globals, o *jobOptions, name string) error {
	j, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	if o.model == "" && o.engine == "" {
		r, err := scoreKept(j)
		if err != nil {
			return err
		}
		if r != nil {
			return g.Show(r, func() error { return printStoredScore(g, r) })
		}
	}
	m, err := o.load("")
	if err != nil {
		return err
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		return err
	}
	if spec.SavesArrays() {
		o.level = string(job.Application)
	}
	own, err := o.own(m)
	if err != nil {
		return err
	}
	if own && (spec.Program != nil || spec.SavesArrays()) { // no image of it has all zones of a process
		r := &predict.Scored{Job: j.Name(), App: spec.App, Scores: []predict.ImageScore{}, Zones: []predict.ZoneScore{}}
		if err := scoreStored(r, m, j); err != nil {
			return err
		}
		return g.Show(r, func() error { return printStoredScore(g, r) })
	}
	r, err := scoreJob(m, j)
	if err == nil && own {
		err = scoreStored(r, m, j)
	}
	if err != nil {
		return err
	}
	return g.Show(r, func() error { return printScore(g, r) })
}

// scoreJob compares all checkpoints of a job.
func scoreJob(m *predict.Model, j *image.Job) (*predict.Scored, error) {
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	r := &predict.Scored{Job: j.Name(), Zones: []predict.ZoneScore{}}
	for _, n := range numbers {
		manifest, err := j.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if err != nil {
			return nil, err
		}
		for _, row := range job.MeasureCheckpoint(manifest) {
			if err := r.Image(m, n, row); err != nil {
				return nil, err
			}
		}
	}
	if len(r.Scores) == 0 {
		return nil, fmt.Errorf("job %s has no checkpoint in the store to compare: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	return r, nil
}

func scaled(n int64) string { return ui.Bytes(float64(n)) }

func printScore(g *ui.Globals, r *predict.Scored) error {
	if err := printStoredScore(g, r); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range r.Scores {
		inside := "no"
		if s.Inside {
			inside = "yes"
		}
		rows = append(rows, []string{strconv.Itoa(s.Number), strconv.Itoa(s.PPN), scaled(s.Measured), scaled(s.Predicted),
			ui.Between(float64(s.Low), float64(s.High), ui.Bytes), signed(&s.Error), inside})
	}
	if err := g.Table([]string{"|number", "|ranks/node", "|measured", "|predicted", "|95 %", "|error", "inside"}, rows); err != nil || g.Quiet {
		return err
	}
	rows = nil
	for _, z := range r.Zones {
		rows = append(rows, []string{z.Zone, scaled(z.Measured), scaled(z.Predicted), signed(&z.Error)})
	}
	if len(rows) > 0 {
		if err := errors.Join(g.Printf("\n"), g.Table([]string{"zone", "|measured", "|predicted", "|error"}, rows)); err != nil {
			return err
		}
	}
	return g.Printf("\n%.0f %% of the measurements are inside the interval\nmodel %s\nbasis %s\n", 100*r.Inside, r.Model, r.Basis)
}

// scoreKept compares a job with the prediction that it was launched with, nil if it was
// launched without one.
func scoreKept(j *image.Job) (*predict.Scored, error) {
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
	r := &predict.Scored{Job: j.Name(), App: spec.App, Model: p.Model, Basis: p.Basis, Scores: []predict.ImageScore{}, Zones: []predict.ZoneScore{}}
	r.Compare(s, &run)
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

// scoreStored compares the stored bytes and the latencies of a job of ckpt.
func scoreStored(r *predict.Scored, m *predict.Model, j *image.Job) error {
	run, err := job.MeasureRun(j)
	if err != nil {
		return err
	}
	if run.Engine != dataset.Ckpt {
		return nil // imported images were written by their own checkpointer
	}
	app, err := m.ApplicationOf(&run)
	if err != nil {
		return err
	}
	s, err := m.Stored(predict.Request{App: app, Mapping: run.Mapping, MPI: run.MPI},
		predict.Storing{Codec: run.Codec, Layout: run.Layout, Aggregators: run.Aggregators, Async: run.Async, Saved: run.Saved}, nil)
	if err != nil {
		return err
	}
	r.Compare(s, &run)
	return nil
}

// printStoredScore prints a line for each checkpoint.
func printStoredScore(g *ui.Globals, r *predict.Scored) error {
	if len(r.Stored) == 0 {
		return nil
	}
	yes := map[bool]string{true: "yes", false: "no"}
	var rows [][]string
	for i, s := range r.Stored {
		kind := "incremental"
		if s.Full {
			kind = "full"
		}
		row := []string{strconv.Itoa(s.Number), kind, scaled(s.Stored), scaled(s.Predicted), ui.Between(float64(s.Low), float64(s.High), ui.Bytes), signed(&s.Error), yes[s.Inside]}
		if len(r.Times) == len(r.Stored) {
			t := r.Times[i]
			row = append(row, ui.Seconds(t.Measured), ui.Seconds(t.Predicted), times(t.Low, t.High), yes[t.Inside])
		}
		rows = append(rows, row)
	}
	header := []string{"|number", "checkpoint", "|stored", "|predicted", "|95 %", "|error", "inside"}
	if len(r.Times) == len(r.Stored) {
		header = append(header, "|latency", "~|predicted", "~|95 %", "inside")
	}
	if err := g.Table(header, rows); err != nil || g.Quiet {
		return err
	}
	text := ui.Percent(*r.StoredInside) + " of the stored bytes are inside the interval"
	if r.TimeInside != nil {
		text += ", " + ui.Percent(*r.TimeInside) + " of the latencies"
	}
	text += "\nmodel " + r.StoredModel + "\nbasis " + r.StoredBasis + "\n"
	if r.StoredNote != "" {
		text += "note  " + r.StoredNote + "\n"
	}
	return g.Printf("%s\n", text)
}
