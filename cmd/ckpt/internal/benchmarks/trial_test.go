package benchmarks

import (
	"math/rand/v2"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image"
	"ckpt/image/pfs"
)

// TestDrawnTrialsCanRun plans and predicts all trials.
func TestDrawnTrialsCanRun(t *testing.T) {
	sys, err := pfs.Load("local-nvme")
	if err != nil {
		t.Fatal(err)
	}
	rng, list := rand.New(rand.NewPCG(1, 2)), calibrationTrials()
	for range 60 {
		list = append(list, drawTrial(rng))
	}
	layouts := make(map[string]bool)
	for _, x := range list {
		c, err := x.forecast()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tune.Predict(t.Context(), sys, c); err != nil {
			t.Errorf("%v: %v", x.row(), err)
		}
		ranks := 0
		for _, n := range x.mapping() {
			ranks += n
		}
		if ranks != x.NP || len(x.mapping()) != x.Nodes {
			t.Errorf("%v: mapping %v", x.row(), x.mapping())
		}
		layouts[x.layout()] = true
	}
	if len(layouts) != 4 {
		t.Errorf("layouts %v", layouts)
	}
}

// TestOutcome gives the events of a job.
func TestOutcome(t *testing.T) {
	var list []job.CheckpointEvent
	for _, s := range []float64{9, 1, 2, 3} {
		list = append(list, job.CheckpointEvent{Latency: image.Latency{Total: s, Coordination: s / 10}, StoredBytes: 7})
	}
	if o := outcome(list[1:]); o.latency() != 2 || o.coordination() != 0.2 {
		t.Errorf("latency %v, coordination %v", o.latency(), o.coordination())
	}
}

// TestCodecsAreMedians has data of one number of ranks pack far better than the rest.
func TestCodecsAreMedians(t *testing.T) {
	c := &calibration{sys: new(pfs.System), packs: map[string][]pfs.CodecSpeed{
		"none": {{Pack: 1, Ratio: 1}}, "s2": {{Pack: 500, Ratio: 0.8}, {Pack: 400, Ratio: 0.79}, {Pack: 100, Ratio: 0.4}}}}
	c.enterCodecs()
	if got := c.sys.Codecs["s2"]; got.Pack != 400 || got.Ratio != 0.79 || len(c.sys.Codecs) != 1 {
		t.Errorf("codecs %v", c.sys.Codecs)
	}
}
