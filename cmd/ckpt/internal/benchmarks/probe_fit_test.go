package benchmarks

import (
	"math"
	"testing"

	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/internal/testkit"
)

// synthetic returns probes whose times a description gives, each off by a little.
func synthetic(t *testing.T, s *pfs.System, direct bool) *probed {
	t.Helper()
	r := &probed{Direct: direct, Most: 64 << 20, Probes: probeList(64<<20, 64<<20, direct, 0)}
	for i := range r.Probes {
		p := &r.Probes[i]
		seconds := 1e-3
		switch p.Kind {
		case probeWrite:
			var err error
			if seconds, err = simulate(t.Context(), s, p); err != nil {
				t.Fatal(err)
			}
			p.HeldOut = i%4 == 1
		case probeCreate:
			seconds = float64(p.Requests*p.Writers) / s.Metadata.Creates
		}
		off := 1 + 0.02*float64(i%3-1)
		p.Seconds = []float64{seconds * off, seconds * off, 50 * seconds} // one was disturbed
		p.Median = seconds * off
	}
	return r
}

// TestFitFindsDescription fits to probes of a storage that is known.
func TestFitFindsDescription(t *testing.T) {
	if testkit.Enabled {
		t.Skip("one goroutine; .ci/run does it without the race detector")
	}
	known, err := pfs.Load("local-nvme")
	if err != nil {
		t.Fatal(err)
	}
	known.Targets.Rate, known.Sync, known.RPC = 700e6, 4e-3, 4<<20
	for _, direct := range []bool{true, false} {
		if !direct {
			known.Host.Dirty = 64 << 20
		}
		if direct && !testkit.Nightly() {
			continue
		}
		r := synthetic(t, known, direct)
		s, err := r.fit(t.Context(), tune.Host{Processors: 2, Copy: 5e9, Pull: 1e9, PullAll: 2e9, PullDelay: 1e-4})
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for i := range r.Probes {
			p := &r.Probes[i]
			if p.Predicted == 0 {
				continue
			}
			if p.HeldOut {
				held++
			}
			if math.Abs(p.off()) > 0.25 {
				t.Errorf("direct %v: %v: %.2f ms, the fit gives %.2f ms", direct, p, 1e3*p.Median, 1e3*p.Predicted)
			}
		}
		if s.Misfit.Count != held || held == 0 || s.Misfit.Scatter > 0.1 {
			t.Errorf("misfit %+v of %d held-out probes", s.Misfit, held)
		}
		if ratio := float64(s.Targets.Rate) / 700e6; ratio < 0.8 || ratio > 1.25 {
			t.Errorf("direct %v: rate %v", direct, s.Targets.Rate)
		}
		s.Name = "fitted"
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestFitNeedsProbes(t *testing.T) {
	r := &probed{Direct: true}
	if _, err := r.fit(t.Context(), tune.Host{}); err == nil {
		t.Error("no error")
	}
}
