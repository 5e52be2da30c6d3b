package tune

import (
	"math"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// TestCalibrationFindsCosts measures jobs of a service that is known.
func TestCalibrationFindsCosts(t *testing.T) {
	probed, err := pfs.Load("local-nvme")
	if err != nil {
		t.Fatal(err)
	}
	known := withService(probed, pfs.Service{Coordination: pfs.Cost{Base: 1e-3, PerRank: 2e-4}, Management: pfs.Cost{Base: 5e-3, PerRank: 5e-4, PerFile: 1e-3}})
	known.Host.OneHost, probed.Host.OneHost = true, true
	var runs []Measured
	for i, np := range []int{1, 2, 4, 8, 16, 4, 8, 16, 2} {
		inst, err := dataset.ParseApp([]string{"minighost.S", "minighost.A"}[i%2], np)
		if err != nil {
			t.Fatal(err)
		}
		c := Case{Instance: inst, Mapping: job.Mapping{np}, MPI: "mpich", Settings: plan.Defaults()}
		if i%3 == 2 {
			c.Settings.Layout = plan.Shared
		}
		f, err := Predict(t.Context(), known, c)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, Measured{Case: c, Coordination: f.Coordination, Latency: f.Latency.Value, HeldOut: i == 3})
	}
	sys, list, err := Calibrate(t.Context(), probed, runs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if off := list[i].Off(); math.Abs(off) > 0.2 {
			t.Errorf("run %d: %.1f ms, the description gives %.1f ms", i, 1e3*list[i].Latency, 1e3*list[i].Forecast.Latency.Value)
		}
	}
	if sys.Misfit.Count != probed.Misfit.Count+1 {
		t.Errorf("misfit %+v", sys.Misfit)
	}
	if got := sys.Service.Coordination.Of(8, 0); math.Abs(got/2.6e-3-1) > 0.05 {
		t.Errorf("coordination of 8 ranks %v", got)
	}
	if probed.Service != (pfs.Service{}) {
		t.Error("the description of the probes was changed")
	}
	if _, _, err := Calibrate(t.Context(), probed, nil); err == nil {
		t.Error("no error without runs")
	}
}
