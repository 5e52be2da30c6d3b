package predictions

import (
	"strconv"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/predict"
	"ckpt/predict/service"
)

// storedScore compares what one checkpoint added to the store.
type storedScore struct {
	Number    int     `json:"number"`
	Full      bool    `json:"full"`
	Stored    int64   `json:"stored_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Low       int64   `json:"low_bytes"`
	High      int64   `json:"high_bytes"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
}

// timeScore compares how long one checkpoint took.
type timeScore struct {
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
func (r *scoreResult) scoreStored(m *predict.Model, j *image.Job) error {
	run, err := job.MeasureRun(j)
	if err != nil {
		return err
	}
	if run.Engine != dataset.Ckpt {
		return nil // imported images were written by their own checkpointer
	}
	app, err := m.Application(run.App+"."+run.Class, run.NP)
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
func (r *scoreResult) compare(s *predict.Stored, run *dataset.JobRun) {
	r.StoredModel, r.StoredBasis, r.StoredNote = s.Model, s.Basis, s.Note
	for i := range run.Checkpoints {
		r.scoreCheckpoint(s, run, i)
	}
	r.StoredInside, r.TimeInside = insideShare(r.Stored, func(s storedScore) bool { return s.Inside }), insideShare(r.Times, func(s timeScore) bool { return s.Inside })
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

// scoreCheckpoint compares one checkpoint. That of a group has its share of the bytes, and
// its time is that of a part of the job, which is not predicted.
func (r *scoreResult) scoreCheckpoint(s *predict.Stored, run *dataset.JobRun, i int) {
	c := &run.Checkpoints[i]
	p, t := &s.Next, &s.NextTime
	switch {
	case c.Stored.Library > 0:
		p, t = &s.Full, &s.FullTime
	case c.Full || service.Refreshes(run, c):
		p, t = &s.Full, &s.RefreshTime
	}
	stored := p.Total.Scale(float64(c.Ranks) / float64(run.NP))
	r.Stored = append(r.Stored, storedScore{c.Number, c.Full, c.StoredBytes, int64(stored.Value), int64(stored.Low), int64(stored.High),
		stored.Value/float64(c.StoredBytes) - 1, stored.Contains(float64(c.StoredBytes))})
	if latency := c.LatencyS(); c.Ranks == run.NP && latency > 0 {
		r.Times = append(r.Times, timeScore{c.Number, c.Full, latency, t.Total.Value, t.Total.Low, t.Total.High,
			t.Total.Value/latency - 1, t.Total.Contains(latency)})
	}
}

// printStoredScore prints a line for each checkpoint.
func printStoredScore(g *ui.Globals, r *scoreResult) error {
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
		row := []string{strconv.Itoa(s.Number), kind, ui.MiB(s.Stored), ui.MiB(s.Predicted), ui.MiB(s.Low) + " to " + ui.MiB(s.High), signed(&s.Error), yes[s.Inside]}
		if len(r.Times) == len(r.Stored) {
			t := r.Times[i]
			row = append(row, ui.Seconds(t.Measured), ui.Seconds(t.Predicted), ui.Seconds(t.Low)+" to "+ui.Seconds(t.High), yes[t.Inside])
		}
		rows = append(rows, row)
	}
	header := []string{"|number", "checkpoint", "|stored MiB", "|predicted", "|95 %", "|error", "inside"}
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
