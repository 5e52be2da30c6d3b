package job

import "fmt"

// A Prediction is what the checkpoints of a job were predicted to be when it was
// launched. It is kept with the job, beside what is measured.
type Prediction struct {
	Model string `json:"model"` // that predicted
	Basis string `json:"basis"` // its measurements
	// First stores all of the memory, and the library takes its time; Full stores all
	// of it later on, and Next what has changed.
	First PredictedCheckpoint `json:"first_checkpoint"`
	Full  PredictedCheckpoint `json:"full_checkpoint"`
	Next  PredictedCheckpoint `json:"next_checkpoint"`
}

// A PredictedCheckpoint is one of all ranks, with 95 % intervals. Times are in seconds, 0
// if nothing is known of them.
type PredictedCheckpoint struct {
	Stored     int64   `json:"stored_bytes"` // of all files, without the library
	StoredLow  int64   `json:"low_bytes"`
	StoredHigh int64   `json:"high_bytes"`
	Time       float64 `json:"checkpoint_s"`
	TimeLow    float64 `json:"low_s"`
	TimeHigh   float64 `json:"high_s"`
	Pause      float64 `json:"pause_s"` // for which the application stands still
}

// longestPause is the longest predicted pause in proportion to the longest time.
func (c *PredictedCheckpoint) longestPause() float64 {
	if c.Time == 0 {
		return 0
	}
	return c.Pause * c.TimeHigh / c.Time
}

// Costs are the pauses that the budget of a job begins with, the last one at the upper
// end of its interval.
func (p *Prediction) Costs() (first, next, firstHigh float64) {
	return p.First.Pause, p.Next.Pause, p.First.longestPause()
}

// Of returns what a checkpoint of so many of np ranks was predicted to be: the first one
// of the job, or of a group of its ranks, or one that follows.
func (p *Prediction) Of(first bool, ranks, np int) *PredictedCheckpoint {
	c := p.Next
	if first {
		c = p.First
	}
	if ranks == np {
		return &c
	}
	for _, bytes := range []*int64{&c.Stored, &c.StoredLow, &c.StoredHigh} {
		*bytes = int64(float64(*bytes) * float64(ranks) / float64(np))
	}
	c.Time, c.TimeLow, c.TimeHigh, c.Pause = 0, 0, 0, 0 // of a part of the job nothing is known
	return &c
}

// Predicted returns what a checkpoint of the job was predicted to be, nil if nobody did.
// The numbers of the first checkpoints are those of the groups.
func (r *Resolved) Predicted(number, ranks int) *PredictedCheckpoint {
	if r.Prediction == nil {
		return nil
	}
	return r.Prediction.Of(number <= len(r.Groups), ranks, r.NP)
}

// maxPredicted bounds predicted times: to a year.
const maxPredicted = 365 * 24 * 3600

// check refuses numbers that are out of any range.
func (p *Prediction) check() error {
	if p == nil {
		return nil
	}
	for _, c := range []PredictedCheckpoint{p.First, p.Full, p.Next} {
		sizes := 0 <= c.StoredLow && c.StoredLow <= c.Stored && c.Stored <= c.StoredHigh && c.StoredHigh <= 1<<60
		times := 0 <= c.TimeLow && c.TimeLow <= c.Time && c.Time <= c.TimeHigh && c.TimeHigh <= maxPredicted
		if !sizes || !times || !(c.Pause >= 0 && c.Pause <= maxPredicted) {
			return &UsageError{fmt.Sprintf("the prediction %+v is out of range", c), ""}
		}
	}
	return nil
}
