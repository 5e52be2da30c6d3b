package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// An ImageScore compares one checkpoint: the image of a rank of nodes with as many ranks.
type ImageScore struct {
	Number    int     `json:"number"`
	PPN       int     `json:"ppn"`
	Measured  int64   `json:"measured_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Low       int64   `json:"low_bytes"`
	High      int64   `json:"high_bytes"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
	zones     []zoneScore
}

// zoneScore compares a zone of a rank, as a mean over the checkpoints.
type zoneScore struct {
	Zone      string  `json:"zone"`
	Measured  int64   `json:"measured_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Error     float64 `json:"relative_difference"`
}

// A Scored job is one whose checkpoints are set beside predictions.
type Scored struct {
	Job    string       `json:"job"`
	App    string       `json:"app"`
	Model  string       `json:"model"`
	Basis  string       `json:"basis"`
	Scores []ImageScore `json:"score_list"`
	Zones  []zoneScore  `json:"zone_score_list"` // of the newest checkpoint
	Inside float64      `json:"inside_share"`

	// Of a job of ckpt, what its checkpoints stored and how long they took.
	Stored       []StoredScore `json:"stored_score_list,omitempty"`
	StoredInside *float64      `json:"stored_inside_share,omitempty"`
	Times        []TimeScore   `json:"time_score_list,omitempty"`
	TimeInside   *float64      `json:"time_inside_share,omitempty"`
	StoredModel  string        `json:"stored_model,omitempty"`
	StoredBasis  string        `json:"stored_basis,omitempty"`
	StoredNote   string        `json:"note,omitempty"`
}

func runPredictScore(g *ui.Globals, o *jobOptions, name string) error {
	j, err := g.OpenJob(name)
	if err == nil {
		err = wholeMemory(j)
	}
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
	own, err := o.own(m)
	if err != nil {
		return err
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		return err
	}
	if own && spec.Program != nil { // no image of it has all zones of a process
		r := &Scored{Job: j.Name(), App: spec.App, Scores: []ImageScore{}, Zones: []zoneScore{}}
		if err := r.scoreStored(m, j); err != nil {
			return err
		}
		return g.Show(r, func() error { return printStoredScore(g, r) })
	}
	r, err := scoreJob(m, j)
	if err == nil && own {
		err = r.scoreStored(m, j)
	}
	if err != nil {
		return err
	}
	return g.Show(r, func() error { return printScore(g, r) })
}

// scoreJob compares all checkpoints of a job.
func scoreJob(m *predict.Model, j *image.Job) (*Scored, error) {
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	r := &Scored{Job: j.Name(), Zones: []zoneScore{}}
	inside := 0
	for _, n := range numbers {
		manifest, err := j.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if err != nil {
			return nil, err
		}
		for _, row := range job.MeasureCheckpoint(manifest) {
			line, err := r.score(m, n, row)
			if err != nil {
				return nil, err
			}
			r.Scores, r.Zones = append(r.Scores, line), line.zones
			if line.Inside {
				inside++
			}
		}
	}
	if len(r.Scores) == 0 {
		return nil, fmt.Errorf("job %s has no checkpoint in the store to compare: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	r.Inside = float64(inside) / float64(len(r.Scores))
	return r, nil
}

// score compares a measurement with the prediction for a node of as many ranks.
func (r *Scored) score(m *predict.Model, number int, row dataset.Measurement) (ImageScore, error) {
	app, err := m.Application(row.App+"."+row.Class, row.NP)
	if err != nil {
		return ImageScore{}, err
	}
	var mapping []int // full nodes first, which is what is compared
	for np := row.NP; np > 0; np -= row.PPN {
		mapping = append(mapping, min(np, row.PPN))
	}
	s, err := m.Size(predict.Request{App: app, Mapping: mapping, MPI: row.MPI})
	if err != nil {
		return ImageScore{}, err
	}
	r.App, r.Model, r.Basis = s.App, s.Model, s.Basis
	f := s.Files[slices.IndexFunc(s.Files, func(f predict.File) bool { return f.PPN == row.PPN })]
	line := ImageScore{zones: []zoneScore{}, Number: number, PPN: row.PPN, Measured: bytesOf(row.File), Predicted: f.MiB.Bytes(), Low: f.Low.Bytes(), High: f.High.Bytes(),
		Error: float64(f.MiB)/row.File - 1, Inside: f.Estimate.Contains(row.File)}
	for _, z := range []struct {
		name      string
		predicted predict.MiB
		measured  float64
	}{{"library", f.Zones.Library, row.Library}, {"data", f.Zones.Data, row.Data}, {"shared", f.Zones.Shared, row.Shared}} {
		if z.measured > 0 && !s.ZonesUnknown {
			line.zones = append(line.zones, zoneScore{z.name, bytesOf(z.measured), z.predicted.Bytes(), float64(z.predicted)/z.measured - 1})
		}
	}
	return line, nil
}

func scaled(n int64) string { return ui.Bytes(float64(n)) }

func printScore(g *ui.Globals, r *Scored) error {
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
func scoreKept(j *image.Job) (*Scored, error) {
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
	r := &Scored{Job: j.Name(), App: spec.App, Model: p.Model, Basis: p.Basis, Scores: []ImageScore{}, Zones: []zoneScore{}}
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

// A StoredScore compares what one checkpoint added to the store.
type StoredScore struct {
	Number    int     `json:"number"`
	Full      bool    `json:"full"`
	Stored    int64   `json:"stored_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Low       int64   `json:"low_bytes"`
	High      int64   `json:"high_bytes"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
}

// A TimeScore compares how long one checkpoint took.
type TimeScore struct {
	Number    int     `json:"number"`
	Full      bool    `json:"full"`
	Measured  float64 `json:"measured_s"`
	Predicted float64 `json:"predicted_s"`
	Low       float64 `json:"low_s"`
	High      float64 `json:"high_s"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
}

// scoreStored compares the stored bytes and the latencies of a job of ckpt.
func (r *Scored) scoreStored(m *predict.Model, j *image.Job) error {
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
		predict.Storing{Codec: run.Codec, Layout: run.Layout, Aggregators: run.Aggregators, Async: run.Async}, nil)
	if err != nil {
		return err
	}
	r.compare(s, &run)
	return nil
}

// compare compares what the checkpoints of a job stored, and how long they took, with a
// prediction.
func (r *Scored) compare(s *predict.Stored, run *dataset.JobRun) {
	r.StoredModel, r.StoredBasis, r.StoredNote = s.Model, s.Basis, s.Note
	for i := range run.Checkpoints {
		r.scoreCheckpoint(s, run, i)
	}
	r.StoredInside, r.TimeInside = insideShare(r.Stored, func(s StoredScore) bool { return s.Inside }), insideShare(r.Times, func(s TimeScore) bool { return s.Inside })
}

func insideShare[T any](list []T, inside func(T) bool) *float64 {
	if len(list) == 0 {
		return nil
	}
	n := 0
	for _, item := range list {
		if inside(item) {
			n++
		}
	}
	share := float64(n) / float64(len(list))
	return &share
}

// scoreCheckpoint compares one checkpoint. A group's has its share of the bytes, and
// its time is a part's of the job, which is not predicted.
func (r *Scored) scoreCheckpoint(s *predict.Stored, run *dataset.JobRun, i int) {
	c := &run.Checkpoints[i]
	p, t := &s.Next, &s.NextTime
	switch {
	case c.Stored.Library > 0:
		p, t = &s.Full, &s.FullTime
	case c.Full || service.Refreshes(run, c):
		p, t = &s.Full, &s.RefreshTime
	}
	stored := p.Total.Scale(float64(c.Ranks) / float64(run.NP))
	r.Stored = append(r.Stored, StoredScore{c.Number, c.Full, c.StoredBytes, int64(stored.Value), int64(stored.Low), int64(stored.High),
		stored.Value/float64(c.StoredBytes) - 1, stored.Contains(float64(c.StoredBytes))})
	if latency := c.LatencyS(); c.Ranks == run.NP && latency > 0 {
		r.Times = append(r.Times, TimeScore{c.Number, c.Full, latency, t.Total.Value, t.Total.Low, t.Total.High,
			t.Total.Value/latency - 1, t.Total.Contains(latency)})
	}
}

// printStoredScore prints a line for each checkpoint.
func printStoredScore(g *ui.Globals, r *Scored) error {
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
