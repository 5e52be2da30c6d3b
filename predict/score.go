package predict

import (
	"slices"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// BytesBeside is a predicted number of bytes, to stand beside a measured one.
type BytesBeside struct {
	Predicted int64   `json:"predicted_bytes"`
	Low       int64   `json:"low_bytes"`
	High      int64   `json:"high_bytes"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
}

// BesideBytes compares a prediction with measured bytes.
func BesideBytes(measured float64, r fit.Range) BytesBeside {
	return BytesBeside{int64(r.Value), int64(r.Low), int64(r.High), r.Value/measured - 1, r.Contains(measured)}
}

// SecondsBeside is a predicted time beside the measured one.
type SecondsBeside struct {
	Measured  float64 `json:"measured_s"`
	Predicted float64 `json:"predicted_s"`
	Low       float64 `json:"low_s"`
	High      float64 `json:"high_s"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
}

// BesideSeconds compares a prediction with a measured time.
func BesideSeconds(measured float64, r fit.Range) SecondsBeside {
	return SecondsBeside{measured, r.Value, r.Low, r.High, r.Value/measured - 1, r.Contains(measured)}
}

// An ImageScore compares one checkpoint: the image of a rank of nodes with as many ranks.
type ImageScore struct {
	Number   int   `json:"number"`
	PPN      int   `json:"ppn"`
	Measured int64 `json:"measured_bytes"`
	BytesBeside
}

// A ZoneScore compares a zone of a rank, as a mean over the checkpoints.
type ZoneScore struct {
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
	Zones  []ZoneScore  `json:"zone_score_list"` // of the newest checkpoint
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

// A StoredScore compares what one checkpoint added to the store.
type StoredScore struct {
	Number int   `json:"number"`
	Full   bool  `json:"full"`
	Stored int64 `json:"stored_bytes"`
	BytesBeside
}

// A TimeScore compares how long one checkpoint took.
type TimeScore struct {
	Number int  `json:"number"`
	Full   bool `json:"full"`
	SecondsBeside
}

// Compare compares what the checkpoints of a job stored, and how long they took, with a
// prediction.
func (r *Scored) Compare(s *Stored, run *dataset.JobRun) {
	r.StoredModel, r.StoredBasis, r.StoredNote = s.Model, s.Basis, s.Note
	for i := range run.Checkpoints {
		r.scoreCheckpoint(s, run, i)
	}
	r.StoredInside, r.TimeInside = insideShare(r.Stored, func(s StoredScore) bool { return s.Inside }), insideShare(r.Times, func(s TimeScore) bool { return s.Inside })
}

// insideShare is the share of a list that is inside its interval, nil of an empty one.
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
func (r *Scored) scoreCheckpoint(s *Stored, run *dataset.JobRun, i int) {
	c := &run.Checkpoints[i]
	p, t := &s.Next, &s.NextTime
	switch {
	case c.Stored.Library > 0:
		p, t = &s.Full, &s.FullTime
	case c.Full || service.Refreshes(run, c):
		p, t = &s.Full, &s.RefreshTime
	}
	stored := p.Total.Scale(float64(c.Ranks) / float64(run.NP))
	r.Stored = append(r.Stored, StoredScore{c.Number, c.Full, c.StoredBytes, BesideBytes(float64(c.StoredBytes), stored)})
	if latency := c.LatencyS(); c.Ranks == run.NP && latency > 0 {
		r.Times = append(r.Times, TimeScore{c.Number, c.Full, BesideSeconds(latency, t.Total)})
	}
}

// Image compares a measurement of a checkpoint with the prediction for a node of as many ranks.
func (r *Scored) Image(m *Model, number int, row dataset.Measurement) error {
	app, err := m.Application(row.App+"."+row.Class, row.NP)
	if err != nil {
		return err
	}
	var mapping []int // full nodes first, which is what is compared
	for np := row.NP; np > 0; np -= row.PPN {
		mapping = append(mapping, min(np, row.PPN))
	}
	s, err := m.Size(Request{App: app, Mapping: mapping, MPI: row.MPI})
	if err != nil {
		return err
	}
	r.App, r.Model, r.Basis = s.App, s.Model, s.Basis
	f := s.Files[slices.IndexFunc(s.Files, func(f File) bool { return f.PPN == row.PPN })]
	line := ImageScore{number, row.PPN, MiB(row.File).Bytes(), BytesBeside{f.MiB.Bytes(), f.Low.Bytes(), f.High.Bytes(),
		float64(f.MiB)/row.File - 1, f.Estimate.Contains(row.File)}}
	zones := []ZoneScore{}
	for _, z := range []struct {
		name      string
		predicted MiB
		measured  float64
	}{{"library", f.Zones.Library, row.Library}, {"data", f.Zones.Data, row.Data}, {"shared", f.Zones.Shared, row.Shared}} {
		if z.measured > 0 && !s.ZonesUnknown {
			zones = append(zones, ZoneScore{z.name, MiB(z.measured).Bytes(), z.predicted.Bytes(), float64(z.predicted)/z.measured - 1})
		}
	}
	r.Scores, r.Zones = append(r.Scores, line), zones
	r.Inside = *insideShare(r.Scores, func(s ImageScore) bool { return s.Inside })
	return nil
}
