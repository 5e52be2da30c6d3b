package plan

import (
	"math"
	"slices"
	"testing"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/modes"
)

func tierPlanning(t *testing.T) (*predict.Model, TierPlanning) {
	t.Helper()
	m, p := modePlanning(t)
	return m, TierPlanning{Request: p.Request, Codec: "none", LocalMiBPerS: 2048, StoreMiBPerS: 200}
}

// TestTier: bytes over rates, on top of what no storage speeds up.
func TestTier(t *testing.T) {
	m, p := tierPlanning(t)
	for _, p.Engine = range []dataset.Engine{dataset.DMTCP, dataset.Ckpt} {
		plain, err := Tier(m, p)
		if err != nil {
			t.Fatal(err)
		}
		fixed := plain.StoreS.Value - plain.DrainS.Value
		if fixed < 0 || math.Abs(plain.DrainS.Value*200-plain.AllMiB.Value) > 1e-6 || math.Abs((plain.LocalS.Value-fixed)*2048-plain.NodeMiB.Value) > 1e-6 {
			t.Errorf("%s: %+v", p.Engine, plain)
		}
		if math.Abs(4*plain.NodeMiB.Value/plain.AllMiB.Value-1) > 1e-6 {
			t.Errorf("%s: %g MiB on a node of four, %g in all", p.Engine, plain.NodeMiB.Value, plain.AllMiB.Value)
		}
		if plain.DrainCostS.Value != 0 || !slices.Contains(plain.Assumed, "a drain does not slow the job down") {
			t.Errorf("%s: drains cost %+v, assumed %q", p.Engine, plain.DrainCostS, plain.Assumed)
		}
		q := p
		q.Redundancy, q.Slowdown = 1, 0.1
		partner, err := Tier(m, q)
		if err != nil {
			t.Fatal(err)
		}
		if got := (partner.LocalS.Value - fixed) / (plain.LocalS.Value - fixed); math.Abs(got-2) > 1e-6 || math.Abs(partner.DrainCostS.Value-plain.DrainS.Value/10) > 1e-6 {
			t.Errorf("%s: a copy takes %g times as long, a drain costs %+v", p.Engine, got, partner.DrainCostS)
		}
		q.NetworkMiBPerS = 100
		slow, err := Tier(m, q)
		if err != nil {
			t.Fatal(err)
		}
		if got := (slow.LocalS.Value - fixed) * 100; math.Abs(got-plain.NodeMiB.Value) > 1e-6 {
			t.Errorf("%s: %g MiB go over the network, want %g", p.Engine, got, plain.NodeMiB.Value)
		}
		for _, r := range []modes.Range{plain.AllMiB, plain.LocalS, plain.StoreS, plain.LocalRestartS, plain.StoreRestartS, slow.LocalS} {
			if !(r.Low <= r.Value && r.Value <= r.High && r.Low > 0) {
				t.Errorf("%s: range %+v", p.Engine, r)
			}
		}
	}
}

func TestTierRefuses(t *testing.T) {
	m, good := tierPlanning(t)
	for name, change := range map[string]func(*TierPlanning){
		"no rate of a node":   func(p *TierPlanning) { p.LocalMiBPerS = 0 },
		"no rate of a store":  func(p *TierPlanning) { p.StoreMiBPerS = math.NaN() },
		"negative network":    func(p *TierPlanning) { p.NetworkMiBPerS = -1 },
		"slower than nothing": func(p *TierPlanning) { p.Slowdown = 1 },
		"negative redundancy": func(p *TierPlanning) { p.Redundancy = -1 },
		"unknown codec":       func(p *TierPlanning) { p.Codec = "lzma" },
	} {
		p := good
		change(&p)
		if _, err := Tier(m, p); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
