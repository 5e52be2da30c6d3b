package job

import "fmt"

// A Prediction is what the checkpoints of a job were predicted to be when it was
// launched. It is kept with the job, beside what is measured.
type Prediction struct {
	Model  string              `json:"model"`  // that predicted
	Engine string              `json:"engine"` // whose files it predicts
	First  PredictedCheckpoint `json:"first"`  // which stores all of the memory
	Next   PredictedCheckpoint `json:"next"`   // each that follows
}

// A PredictedCheckpoint is one of them, with 95 % intervals. Times are in seconds, 0 if
// they are not predicted.
type PredictedCheckpoint struct {
	StoredBytes int64   `json:"stored_bytes"` // of all files, without the library
	StoredLow   int64   `json:"low_bytes"`
	StoredHigh  int64   `json:"high_bytes"`
	Pause       float64 `json:"pause_s,omitempty"` // for which the application stands still
	PauseLow    float64 `json:"low_s,omitempty"`
	PauseHigh   float64 `json:"high_s,omitempty"`
}

// maxPredictedPause bounds predicted pauses: to a year.
const maxPredictedPause = 365 * 24 * 3600

// check refuses numbers that are out of any range.
func (p *Prediction) check() error {
	if p == nil {
		return nil
	}
	for _, c := range []PredictedCheckpoint{p.First, p.Next} {
		if !(0 <= c.StoredLow && c.StoredLow <= c.StoredBytes && c.StoredBytes <= c.StoredHigh) ||
			!(0 <= c.PauseLow && c.PauseLow <= c.Pause && c.Pause <= c.PauseHigh && c.PauseHigh <= maxPredictedPause) {
			return &UsageError{fmt.Sprintf("the prediction %+v is out of range", c), ""}
		}
	}
	return nil
}
