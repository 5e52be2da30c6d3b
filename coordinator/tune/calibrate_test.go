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

// TestContentionIsFound: checkpoints of several nodes tell the locks and the network of a storage
// that is known, and that one without locks has none.
func TestContentionIsFound(t *testing.T) {
	for _, locks := range []pfs.Locks{{}, {Kind: pfs.ExtentToEnd, Grant: 8e-3, Callback: 8e-3}} {
		known, err := pfs.Load("wr-lustre")
		if err != nil {
			t.Fatal(err)
		}
		known.Locks = locks
		probed := *known
		probed.Locks, probed.Host.Network, probed.Targets.Rate = pfs.Locks{}, 0, known.Targets.Rate*1.2
		var runs []Measured
		for i, s := range []plan.Settings{{Layout: plan.PerRank}, {Layout: plan.Shared, Strategy: plan.Individual}, {Layout: plan.Shared, Strategy: plan.TwoPhase}, {Layout: plan.Aggregated}} {
			for _, np := range []int{4, 8} {
				inst, err := dataset.ParseApp("minighost.S", np)
				if err != nil {
					t.Fatal(err)
				}
				c := Case{Instance: inst, Mapping: job.Mapping{np / 4, np / 4, np / 4, np / 4}, MPI: "mpich", Settings: s, Whole: true}
				f, err := Predict(t.Context(), known, c)
				if err != nil {
					t.Fatal(err)
				}
				runs = append(runs, Measured{Case: c, Latency: f.Latency.Value, HeldOut: i == 1 && np == 8})
			}
		}
		is, list, err := Contended(t.Context(), &probed, runs)
		if err != nil {
			t.Fatal(err)
		}
		if is.Locks.Kind != locks.Kind {
			t.Errorf("locks %+v: found %+v", locks, is.Locks)
		}
		for i := range list {
			if off := list[i].Off(); math.Abs(off) > 0.1 {
				t.Errorf("locks %+v: run %d took %.0f ms, the description gives %.0f ms", locks, i, 1e3*list[i].Latency, 1e3*list[i].Forecast.Latency.Value)
			}
		}
		t.Logf("%+v: found %+v, network %v of %v", locks, is.Locks, is.Host.Network, known.Host.Network)
		if _, _, err := Contended(t.Context(), &probed, runs[:2]); err == nil {
			t.Error("no error without a shared file")
		}
	}
}
