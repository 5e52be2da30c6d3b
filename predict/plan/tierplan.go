package plan

import (
	"math"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/modes"
)

// A TierPlanning asks what checkpoints cost that go to directories on the nodes first, and
// from there into the store behind the job.
type TierPlanning struct {
	predict.Request
	Codec   string
	Engine  dataset.Engine // dmtcp by default; for ckpt Storing says how it stores
	Storing predict.Storing
	// LocalMiBPerS is the rate of the storage of one node, NetworkMiBPerS that between
	// nodes, of one of them; 0: it delays nothing. StoreMiBPerS is that of the store, for
	// all nodes together.
	LocalMiBPerS, NetworkMiBPerS, StoreMiBPerS float64
	// Redundancy is how many bytes other nodes keep for each byte of a checkpoint.
	Redundancy float64
	// Slowdown is the share of the speed that the job loses while a checkpoint is drained.
	Slowdown float64
}

// TierCosts is what such checkpoints cost. Times are in seconds.
type TierCosts struct {
	Mapping []int
	AllMiB  modes.Range // of the whole checkpoint
	NodeMiB modes.Range // of the fullest node, without redundancy
	LocalS  modes.Range // of a checkpoint on the nodes, with its redundancy
	StoreS  modes.Range // of one that is written into the store while the job waits
	DrainS  modes.Range // of copying one into the store behind the job
	// DrainCostS is what the job loses meanwhile.
	DrainCostS modes.Range
	// LocalRestartS and StoreRestartS are the times until the ranks compute again.
	LocalRestartS, StoreRestartS modes.Range
	Assumed                      []string
}

// Tier predicts these costs. The rates are those of the caller, so that the ranges are
// those of sizes and restarts.
func Tier(m *predict.Model, p TierPlanning) (*TierCosts, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	t, fixed, err := tierSizes(m, &p)
	if err != nil {
		return nil, err
	}
	write := t.NodeMiB.Scale((1 + p.Redundancy) / p.LocalMiBPerS)
	if p.NetworkMiBPerS > 0 {
		sent := t.NodeMiB.Scale(p.Redundancy / p.NetworkMiBPerS)
		write = modes.Range{Value: max(write.Value, sent.Value), Low: max(write.Low, sent.Low), High: max(write.High, sent.High)}
	} else if p.Redundancy > 0 {
		t.Assumed = append(t.Assumed, "the network does not delay redundancy")
	}
	t.LocalS = modes.Exactly(fixed).Plus(write)
	t.DrainS = t.AllMiB.Scale(1 / p.StoreMiBPerS)
	t.StoreS = modes.Exactly(fixed).Plus(t.DrainS)
	t.DrainCostS = t.DrainS.Scale(p.Slowdown)
	if p.Slowdown == 0 {
		t.Assumed = append(t.Assumed, "a drain does not slow the job down")
	}
	starting, assumed := m.Modes.Starting(p.App.NP)
	t.Assumed = append(append(t.Assumed, assumed...), "reading is as fast as writing")
	if p.Redundancy > 0 {
		t.Assumed = append(t.Assumed, "making the files of a lost node again takes as long as reading them")
	}
	t.LocalRestartS = starting.Plus(t.NodeMiB.Scale(1 / p.LocalMiBPerS))
	t.StoreRestartS = starting.Plus(t.DrainS)
	return t, nil
}

func (p *TierPlanning) check() error {
	for _, r := range []struct {
		name string
		rate float64
	}{{"storage of a node", p.LocalMiBPerS}, {"store", p.StoreMiBPerS}} {
		if !(r.rate > 0 && r.rate < 1e12) {
			return fit.Refuse("give its bytes per second, like 2GiB/s", "a rate of %g MiB/s of the %s is impossible", r.rate, r.name)
		}
	}
	switch {
	case !(p.NetworkMiBPerS >= 0 && p.NetworkMiBPerS < 1e12):
		return fit.Refuse("give its bytes per second, like 10GiB/s", "a rate of %g MiB/s of the network is impossible", p.NetworkMiBPerS)
	case !(p.Slowdown >= 0 && p.Slowdown < 1):
		return fit.Refuse("give the share of the speed that the job loses while a checkpoint is drained, like 2%", "a slowdown of %g is impossible", p.Slowdown)
	case !(p.Redundancy >= 0 && p.Redundancy < 1e6):
		return fit.Refuse("give the bytes for each byte of a checkpoint", "redundancy of %g is impossible", p.Redundancy)
	}
	return nil
}

// tierSizes predicts the bytes, and the part of a checkpoint that no storage speeds up.
// Files on the nodes are complete: no later checkpoint refers to an earlier one.
func tierSizes(m *predict.Model, p *TierPlanning) (t *TierCosts, fixed float64, err error) {
	if p.Engine == dataset.Ckpt {
		return tierStored(m, p)
	}
	i, err := m.Time(p.Request, p.Codec, nil)
	if err != nil {
		return nil, 0, err
	}
	node, share := 0.0, 1.0
	for _, l := range predict.Loads(&i.Size) {
		node = max(node, l.Total)
	}
	if i.TotalMiB > 0 {
		share = i.StoredMiB / i.TotalMiB
	}
	all := modes.Range{Value: i.StoredMiB, Low: share * i.LowMiB, High: share * i.HighMiB}
	return &TierCosts{Mapping: i.Mapping, AllMiB: all, NodeMiB: all.Scale(node / math.Max(i.TotalMiB, 1e-9))}, i.Latency.Coordination + i.Latency.Management, nil
}

func tierStored(m *predict.Model, p *TierPlanning) (*TierCosts, float64, error) {
	s, err := m.Stored(p.Request, p.Storing, nil)
	if err != nil {
		return nil, 0, err
	}
	ranks := 0
	for _, n := range s.Mapping {
		ranks = max(ranks, n)
	}
	all := modes.Range{Value: s.Full.Total.Value, Low: s.Full.Total.Low, High: s.Full.Total.High}.Scale(1. / (1 << 20))
	return &TierCosts{Mapping: s.Mapping, AllMiB: all, NodeMiB: all.Scale(float64(ranks) / float64(s.NP))},
		s.RefreshTime.Coordination + s.RefreshTime.Management, nil
}
