package service

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// TestAnyTimes: whatever jobs measured, zeros and one job included, a model of it can be read
// again, and its times are positive, finite and in order.
func TestAnyTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	some := func(most float64) float64 {
		switch rng.IntN(5) {
		case 0:
			return 0
		case 1:
			return most
		}
		return most * math.Pow(10, -6*rng.Float64())
	}
	for trial := range 300 {
		var runs []dataset.JobRun
		for range 1 + rng.IntN(4) {
			np := 1 << rng.IntN(8)
			run := dataset.JobRun{Engine: dataset.Ckpt, NP: np, Mapping: []int{np}, Async: rng.IntN(2) == 0}
			for range 1 + rng.IntN(5) {
				c := dataset.JobCheckpoint{Ranks: 1 + rng.IntN(np), Files: rng.IntN(np + 1), StoredBytes: int64(some(1e12)),
					CoordinationS: some(100), ManagementS: some(10), StorageS: some(1e4), PauseS: some(1e4)}
				c.Memory.Data = int64(some(1e12))
				run.Checkpoints = append(run.Checkpoints, c)
			}
			runs = append(runs, run)
		}
		times := FitTimes(runs, trial%2 == 0)
		if times == nil {
			continue
		}
		f := &Fit{Times: times}
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		back := new(Fit)
		if err := json.Unmarshal(text, back); err != nil {
			t.Fatal(err)
		}
		if err := back.Check(); err != nil {
			t.Fatalf("trial %d: %v", trial, err)
		}
		c := &Checkpoint{Total: fit.Exactly(some(1e13)), Data: fit.Exactly(some(1e13)), Files: 1 + rng.IntN(100)}
		got := back.Time(&Job{NP: rng.IntN(1e5), Mapping: []int{1}}, c, fit.Range{}, true, some(1e9))
		for _, r := range []fit.Range{got.Total, got.Pause} {
			if !(r.Low > 0 && r.Low <= r.Value && r.Value <= r.High) || math.IsInf(r.High, 0) {
				t.Fatalf("trial %d: %+v", trial, got)
			}
		}
	}
}

// TestOlderTimes: a model that an older ckpt wrote says what it said.
func TestOlderTimes(t *testing.T) {
	f := &Fit{Times: &Times{Jobs: 3, Coordination: Line{Coef: []float64{0.01, 0.002}}, Management: Line{Coef: []float64{0, 0.001}},
		Storage: Line{Coef: []float64{0.004, 1e-8}}, Copy: &Line{Coef: []float64{1e-9}}, NP: Range{4, 16}, Bytes: Range{1e6, 1e9}}}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	got := f.Time(&Job{NP: 10}, &Checkpoint{Total: fit.Exactly(1e8), Data: fit.Exactly(1e7), Files: 10}, fit.Range{}, true, 0)
	near(t, "latency", got.Total.Value, 0.01+0.02+0.01+0.04+1, 1e-9)
	near(t, "pause", got.Pause.Value, 0.03+0.01, 1e-9)
}
