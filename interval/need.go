package interval

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// A Need asks which storage keeps the waste of a job within a share of its time.
type Need struct {
	Waste    float64       // share of the time that checkpoints, restarts and repeated work may take
	Bytes    float64       // of a checkpoint
	Node     float64       // of them, those of the fullest node
	MTBF     time.Duration // of the whole job
	Downtime time.Duration // after every failure, free of failures

	// Of checkpoints that go to the nodes first: the share of the failures that they survive,
	// the bytes that other nodes keep for each byte, and how many a node has space for.
	Share      float64
	Redundancy float64
	Slots      int
	// NodeRate is what the storage of a node takes, in bytes per second; 0 asks for it.
	NodeRate float64
}

// A Needed is the storage that a [Need] asks for. Rates are in bytes per second.
type Needed struct {
	StoreRate  float64 `json:"store_bytes_per_s"` // of all nodes together
	NodeRate   float64 `json:"node_bytes_per_s"`  // of the storage of one node, 0 without
	Checkpoint float64 `json:"checkpoint_s"`      // that the job waits
	Drain      float64 `json:"drain_s"`           // into the store, behind the job
	Interval   float64 `json:"interval_s"`
	Period     float64 `json:"level_period_s"` // between checkpoints in the store
	Waste      float64 `json:"waste"`
}

// A NeedRow is the storage for another waste and failure rate.
type NeedRow struct {
	Waste float64 `json:"waste"`
	MTBF  float64 `json:"mtbf_s"`
	Alone *Needed `json:"store_alone"` // null where no storage is fast enough
	First *Needed `json:"nodes_first"`
}

// Around solves for other wastes and failure rates around those asked: of each waste all rates. A
// rate beyond the longest time that is counted is left out.
func (n *Need) Around() (rows []NeedRow) {
	wastes := []float64{0.01, 0.02, 0.05, 0.1, 0.2}
	if !slices.Contains(wastes, n.Waste) {
		wastes = append(wastes, n.Waste)
		slices.Sort(wastes)
	}
	for _, waste := range wastes {
		for _, factor := range []float64{0.25, 0.5, 1, 2, 4} {
			other := *n
			if n.MTBF.Seconds()*factor >= longest {
				continue
			}
			other.Waste, other.MTBF = waste, Lasting(n.MTBF.Seconds()*factor)
			row := NeedRow{Waste: waste, MTBF: other.MTBF.Seconds()}
			if of, err := other.StoreAlone(); err == nil {
				row.Alone = &of
			}
			if of, err := other.NodesFirst(); err == nil {
				row.First = &of
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// WasteOf returns the waste at the best interval on a store that takes a checkpoint in so many seconds,
// and gives it back as fast; 1 if the job makes no progress there.
func (n *Need) WasteOf(seconds float64) float64 {
	lasts := max(1, Lasting(seconds))
	m := Model{Cost: lasts, Restart: lasts, MTBF: n.MTBF, Downtime: n.Downtime}
	o, err := m.Optimum()
	if err != nil {
		return 1
	}
	waste, err := m.Waste(o.Exact)
	if err != nil {
		return 1
	}
	return waste
}

func (n *Need) check() error {
	switch {
	case !(n.Waste > 0 && n.Waste < 1):
		return outOfRange("waste", n.Waste, "must be over 0 and below 100%", "give the accepted share of the time, like 5%")
	case !(n.Bytes > 0 && n.Bytes < 1e21):
		return outOfRange("checkpoint size", n.Bytes, "must be over 0 bytes", "give the memory of a node, or the size of a checkpoint")
	}
	if err := positive("MTBF", n.MTBF); err != nil {
		return err
	}
	return notNegative("downtime", n.Downtime)
}

// StoreAlone is the store that is fast enough if the job waits until each checkpoint is in it.
// A restart reads as fast.
func (n *Need) StoreAlone() (Needed, error) {
	if err := n.check(); err != nil {
		return Needed{}, err
	}
	rate, err := n.leastRate(func(rate float64) float64 {
		m, best := n.alone(rate)
		if waste, err := m.Waste(best); err == nil && best > 0 {
			return waste
		}
		return 1
	})
	if err != nil {
		return Needed{}, err
	}
	m, best := n.alone(rate)
	out := Needed{StoreRate: rate, Checkpoint: n.Bytes / rate, Interval: best.Seconds(), Period: (best + m.Cost).Seconds()}
	out.Waste, err = m.Waste(best)
	return out, err
}

// alone is the job on a store of a rate, with its best interval, 0 if it makes no progress.
func (n *Need) alone(rate float64) (*Model, time.Duration) {
	cost := ofSeconds(n.Bytes / rate)
	m := &Model{Cost: cost, Restart: cost, MTBF: n.MTBF, Downtime: n.Downtime}
	best, err := m.Optimum()
	if err != nil {
		return m, 0
	}
	return m, best.Exact
}

// NodesFirst is the storage of the nodes and the store that are fast enough if checkpoints go
// to the nodes, and from there into the store behind the job. Half of the waste is the nodes',
// unless their rate is given: they are then as fast as they would have to be without a store,
// if they survived all failures and half of the waste were accepted.
func (n *Need) NodesFirst() (Needed, error) {
	if err := n.check(); err != nil {
		return Needed{}, err
	}
	node := n.NodeRate
	if node == 0 {
		half := *n
		half.Waste, half.Bytes = n.Waste/2, n.Node*(1+n.Redundancy)
		of, err := half.StoreAlone()
		if err != nil {
			return Needed{}, err
		}
		node = of.StoreRate
	}
	best := func(rate float64) (*Hierarchy, PatternRow, error) {
		h := n.levels(node, rate)
		p, err := h.Best(Pattern{})
		if err != nil {
			return h, PatternRow{}, err
		}
		row, err := h.Row(24*time.Hour, p)
		return h, row, err
	}
	rate, err := n.leastRate(func(rate float64) float64 {
		if _, row, err := best(rate); err == nil {
			return row.Waste
		}
		return 1
	})
	if err != nil {
		return Needed{}, err
	}
	h, row, err := best(rate)
	if err != nil {
		return Needed{}, err
	}
	return Needed{StoreRate: rate, NodeRate: node, Checkpoint: h.Levels[0].Cost.Seconds(), Drain: h.Levels[1].Drain.Seconds(), Interval: row.Interval,
		Period: row.Levels[1].Period, Waste: row.Waste}, nil
}

// levels are the nodes and the store, with their rates.
func (n *Need) levels(node, store float64) *Hierarchy {
	local, drain := ofSeconds(n.Node*(1+n.Redundancy)/node), ofSeconds(n.Bytes/store)
	return &Hierarchy{MTBF: n.MTBF, Downtime: n.Downtime, Slots: n.Slots, Levels: []StorageLevel{
		{Name: "nodes", Cost: local, Restart: ofSeconds(n.Node / node), Share: n.Share},
		{Name: "store", Drain: drain, Restart: drain, Share: 1},
	}}
}

// leastRate is the least rate with which the waste is within the accepted share: the waste
// falls with the rate.
func (n *Need) leastRate(waste func(rate float64) float64) (float64, error) {
	const fastest = 1e6 // times the checkpoint in a second
	low, high := math.Log(n.Bytes/n.MTBF.Seconds()/1e3), math.Log(n.Bytes*fastest)
	if floor := waste(math.Exp(high)); !(floor <= n.Waste) {
		return 0, outOfRange("waste", percent(n.Waste), "cannot be reached with any storage: with checkpoints that cost nothing "+percent(floor)+" are wasted",
			"accept more, shorten the downtime, or run on fewer nodes: a job of half the nodes fails half as often")
	}
	for range 60 {
		if mid := (low + high) / 2; waste(math.Exp(mid)) <= n.Waste {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Exp(high), nil
}

// ofSeconds is a time of some seconds, at least a nanosecond.
func ofSeconds(seconds float64) time.Duration {
	return time.Duration(min(max(1, seconds*1e9), math.MaxInt64/4))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }
