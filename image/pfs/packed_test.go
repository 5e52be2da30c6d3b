package pfs

import (
	"testing"

	"ckpt/image/plan"
)

// TestPacked is Larrosa's table 3.2 (check 13 of its digest), one process and one file of
// 9.5 GB that packs to 18.94 % and takes 58 s of one processor. Over Gigabit Ethernet
// packed bytes are faster, read 72 against 81.6 s, over InfiniBand slower, 60 against 11.
func TestPacked(t *testing.T) {
	const (
		raw    = 2_466_636_348 + 7_044_904_240
		ratio  = 0.1894
		unpack = 58.
	)
	write := func(s *System, bytes float64, job Job) float64 {
		t.Helper()
		job.Plan = mustPlan(t, sources(1, 1, int64(bytes)/plan.PageSize*plan.PageSize), plan.Settings{P1: true, StripeCount: s.Targets.Count})
		return mustRun(t, s, job).Jobs[0].Seconds
	}
	read := func(s *System, bytes float64) float64 {
		sim := NewSim(s, Options{})
		f := sim.Client(0).Open(sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: s.Targets.Count}), int64(bytes))
		buffer := make([]byte, 1<<20)
		for at := int64(0); at < int64(bytes); at += int64(len(buffer)) {
			_, _ = f.ReadAt(buffer, at) // the last one is short
		}
		return sim.Now()
	}
	pack := func(int) float64 { return unpack }
	for _, test := range []struct {
		preset string
		packed bool // is faster
	}{{"wr-lustre", true}, {"dkrz", false}} {
		s := mustLoad(t, test.preset)
		reads := [2]float64{read(s, raw), read(s, ratio*raw) + unpack}
		writes := [2]float64{write(s, raw, Job{}), write(s, ratio*raw, Job{Pack: pack})}
		for what, s := range map[string][2]float64{"read": reads, "written": writes} {
			t.Logf("%s, %s: raw %.1f s, packed %.1f s", test.preset, what, s[0], s[1])
			if (s[1] < s[0]) != test.packed {
				t.Errorf("%s, %s: raw %.1f s, packed %.1f s", test.preset, what, s[0], s[1])
			}
		}
		if test.packed {
			within(t, "raw", reads[0], 81.6, 0.25)
			within(t, "packed", reads[1], 72, 0.25)
		}
	}
}
