package job

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/dataset"
)

func predictedJob(t *testing.T) Spec {
	t.Helper()
	inst, err := dataset.ParseApp("bt.S.4", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSpec(inst)
	s.Mapping = Mapping{2, 2}
	s.Prediction = &Prediction{Model: "m", First: PredictedCheckpoint{400, 300, 500, 2, 1, 4, 1.5}, Full: PredictedCheckpoint{400, 300, 500, 1, 1, 2, 1},
		Next: PredictedCheckpoint{100, 80, 120, 0.5, 0.4, 0.8, 0.25}}
	return s
}

// TestPredictionIsKept: the description of a job keeps its prediction, and tells what
// each checkpoint was predicted to be.
func TestPredictionIsKept(t *testing.T) {
	s := predictedJob(t)
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(back.Prediction, s.Prediction) {
		t.Fatalf("%v: %s", err, cmp.Diff(s.Prediction, back.Prediction))
	}
	r, err := back.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Predicted(1, 4); *got != s.Prediction.First {
		t.Errorf("the first checkpoint is predicted as %+v", got)
	}
	if got := r.Predicted(2, 4); *got != s.Prediction.Next {
		t.Errorf("the second checkpoint is predicted as %+v", got)
	}
	first, next, high := s.Prediction.Costs()
	if first != 1.5 || next != 0.25 || high != 3 {
		t.Errorf("a budget begins with %v, at most %v, then %v", first, high, next)
	}
	s.Prediction = nil
	if r, err = s.Resolve(); err != nil || r.Predicted(1, 4) != nil {
		t.Errorf("%v, %+v without a prediction", err, r.Predicted(1, 4))
	}
}

// TestPredictedGroup: a checkpoint of a group has its share of the bytes. Its time is not
// known.
func TestPredictedGroup(t *testing.T) {
	s := predictedJob(t)
	s.Mode = Semi
	r, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[int]PredictedCheckpoint{2: {Stored: 200, StoredLow: 150, StoredHigh: 250}, 3: {Stored: 50, StoredLow: 40, StoredHigh: 60}} {
		if got := r.Predicted(number, 2); *got != want {
			t.Errorf("checkpoint %d of half of the ranks is predicted as %+v", number, got)
		}
	}
}

// TestWrongPrediction: a description with a senseless prediction is refused.
func TestWrongPrediction(t *testing.T) {
	for _, change := range []func(*PredictedCheckpoint){
		func(c *PredictedCheckpoint) { c.Stored = -1 },
		func(c *PredictedCheckpoint) { c.StoredLow = 401 },
		func(c *PredictedCheckpoint) { c.StoredHigh = 399 },
		func(c *PredictedCheckpoint) { c.TimeHigh = 1e12 },
		func(c *PredictedCheckpoint) { c.TimeLow = 3 },
		func(c *PredictedCheckpoint) { c.Pause = -1 },
	} {
		s := predictedJob(t)
		change(&s.Prediction.First)
		if _, err := s.Resolve(); !errors.As(err, new(*UsageError)) {
			t.Errorf("%+v: %v, want it refused", s.Prediction.First, err)
		}
	}
}
