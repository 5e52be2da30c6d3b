package plan

import (
	"math"
	"slices"
	"testing"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

func tierPlanning(t *testing.T) (*predict.Model, Planning) {
	t.Helper()
	m, p := modePlanning(t)
	p.Modes = []service.Mode{service.Coordinated}
	p.Levels = &Levels{LocalMiBPerS: 2048, StoreMiBPerS: 200, Share: 0.85, Slots: 2}
	return m, p
}

func levelCosts(t *testing.T, m *predict.Model, p Planning) LevelCosts {
	t.Helper()
	options, err := Compare(m, p)
	if err != nil {
		t.Fatal(err)
	}
	return options[0].LevelCosts
}

// TestTier: bytes over rates, on top of what no storage speeds up.
func TestTier(t *testing.T) {
	m, p := tierPlanning(t)
	for _, p.Engine = range []dataset.Engine{dataset.DMTCP, dataset.Ckpt} {
		plain := levelCosts(t, m, p)
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
		q, levels := p, *p.Levels
		q.Levels = &levels
		levels.Redundancy, levels.Slowdown = 1, 0.1
		partner := levelCosts(t, m, q)
		if got := (partner.LocalS.Value - fixed) / (plain.LocalS.Value - fixed); math.Abs(got-2) > 1e-6 || math.Abs(partner.DrainCostS.Value-plain.DrainS.Value/10) > 1e-6 {
			t.Errorf("%s: a copy takes %g times as long, a drain costs %+v", p.Engine, got, partner.DrainCostS)
		}
		levels.NetworkMiBPerS = 100
		slow := levelCosts(t, m, q)
		if got := (slow.LocalS.Value - fixed) * 100; math.Abs(got-plain.NodeMiB.Value) > 1e-6 {
			t.Errorf("%s: %g MiB go over the network, want %g", p.Engine, got, plain.NodeMiB.Value)
		}
		for _, r := range []fit.Range{plain.AllMiB, plain.LocalS, plain.StoreS, plain.LocalRestartS, plain.StoreRestartS, slow.LocalS} {
			if !(r.Low <= r.Value && r.Value <= r.High && r.Low > 0) {
				t.Errorf("%s: range %+v", p.Engine, r)
			}
		}
	}
}

// TestTierGroups: groups that store together take what all ranks take together on the nodes, one
// after the other as many times, and a group reads less when it restarts.
func TestTierGroups(t *testing.T) {
	m, p := tierPlanning(t)
	all := levelCosts(t, m, p)
	p.Modes = []service.Mode{service.Semi}
	for _, together := range []float64{0, 1} {
		p.Together = []float64{together}
		options, err := Compare(m, p)
		if err != nil || len(options) != 4 { // two logs, with nodes and without
			t.Fatal(len(options), err)
		}
		for i := range options {
			o := &options[i]
			c, batches := &o.LevelCosts, 1.0
			if together == 0 {
				batches = float64(o.GroupCount)
			}
			if got := c.LocalS.Value / all.LocalS.Value; o.Log == service.Receiver && math.Abs(got-batches) > 1e-6 {
				t.Errorf("%g at once: %g times the time of all ranks, want %g", together, got, batches)
			}
			if c.StoreRestartS.Value >= all.StoreRestartS.Value || !(o.Failing.Low <= o.Expected && o.Expected <= o.Failing.High && o.Expected.Ends()) {
				t.Errorf("%g at once: restart %+v, all ranks %+v; expected %v in %+v", together, c.StoreRestartS, all.StoreRestartS, o.Expected, o.Failing)
			}
		}
	}
	p.Logs = []service.Log{service.None}
	if _, err := Compare(m, p); err == nil {
		t.Error("groups without logs are not refused")
	}
}

func TestTierRefuses(t *testing.T) {
	m, good := tierPlanning(t)
	for name, change := range map[string]func(*Planning){
		"no rate of a node":   func(p *Planning) { p.Levels.LocalMiBPerS = 0 },
		"no rate of a store":  func(p *Planning) { p.Levels.StoreMiBPerS = math.NaN() },
		"negative network":    func(p *Planning) { p.Levels.NetworkMiBPerS = -1 },
		"slower than nothing": func(p *Planning) { p.Levels.Slowdown = 1 },
		"negative redundancy": func(p *Planning) { p.Levels.Redundancy = -1 },
		"unknown codec":       func(p *Planning) { p.Codecs = []string{"lzma"} },
	} {
		p, levels := good, *good.Levels
		p.Levels = &levels
		change(&p)
		if _, err := Compare(m, p); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
