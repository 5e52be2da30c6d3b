package bench

import (
	"slices"

	"ckpt/image/nodes"
)

// A Result is what Run measured. Times have a value for each round.
type Result struct {
	Ranks  int     `json:"ranks"`
	Nodes  int     `json:"nodes"`
	Bytes  int64   `json:"bytes"` // of a checkpoint
	Rounds int     `json:"bench_rounds"`
	Ways   []Way   `json:"tier_way_list"`
	Ratios []Ratio `json:"tier_ratio_list"`
}

// A Way is what was measured of a scheme of protection, or of the store.
type Way struct {
	Name    string `json:"way"`
	Bytes   int64  `json:"bytes"`         // of a checkpoint
	Written int64  `json:"written_bytes"` // with what protects it
	// Redundancy is the bytes written beyond those of the checkpoint on its own nodes, by
	// these.
	Redundancy float64   `json:"redundancy_share"`
	Saves      []float64 `json:"save_times_s"`
	Save       float64   `json:"median_save_s"`
	SaveRate   float64   `json:"save_bytes_per_s"`
	Reads      []float64 `json:"read_times_s"` // of all files, on the node of each
	Read       float64   `json:"median_read_s"`
	ReadRate   float64   `json:"reading_bytes_per_s"`
	// Recovered are the bytes of the files that the lost node had.
	Recovered  int64     `json:"recovered_bytes"`
	Recoveries []float64 `json:"recovery_times_s"`
	Recovery   *float64  `json:"median_recovery_s"` // null if nothing was left
}

// A Ratio compares two of the ways of one run.
type Ratio struct {
	Name  string   `json:"name"`
	Value float64  `json:"ratio"`
	Least *float64 `json:"least_ratio"` // that it should be
	Most  *float64 `json:"most_ratio"`
	Holds bool     `json:"holds"`
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (v[n/2-1] + v[n/2]) / 2
	default:
		return v[n/2]
	}
}

// result takes the medians.
func (b *bench) result(ways []*way) *Result {
	r := &Result{Ranks: b.o.Ranks, Nodes: b.o.Nodes, Bytes: int64(b.o.Ranks) * b.o.Bytes, Rounds: b.o.Rounds}
	for _, w := range ways {
		m := Way{Name: w.name, Bytes: int64(b.o.Ranks) * w.bytes, Written: w.written, Recovered: w.recovered,
			Saves: w.save, Save: median(w.save), Reads: w.restore, Read: median(w.restore), Recoveries: w.recovery}
		if m.Recoveries == nil {
			m.Recoveries = []float64{}
		}
		m.SaveRate, m.ReadRate = rate(m.Bytes, m.Save), rate(m.Bytes, m.Read)
		if base := ways[0].written; !w.store && w.bytes == b.o.Bytes && base > 0 {
			m.Redundancy = float64(w.written-base) / float64(base)
		}
		if !w.lostAll && len(w.recovery) > 0 {
			t := median(w.recovery)
			m.Recovery = &t
		}
		r.Ways = append(r.Ways, m)
	}
	r.Ratios = b.ratios(r, ways)
	return r
}

func rate(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / seconds
}

// way returns what was measured of one, by name; nil if it was not.
func (r *Result) way(name string) *Way {
	i := slices.IndexFunc(r.Ways, func(w Way) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Ways[i]
}

// ratios compares the ways. The bounds are those that the tier is held to.
func (b *bench) ratios(r *Result, ways []*way) (list []Ratio) {
	add := func(name string, a, by, least, most float64) {
		if by <= 0 {
			return
		}
		x := Ratio{Name: name, Value: a / by, Holds: true}
		if least > 0 {
			x.Least, x.Holds = &least, x.Value >= least
		}
		if most > 0 {
			x.Most, x.Holds = &most, x.Holds && x.Value <= most
		}
		list = append(list, x)
	}
	local, twice, half, store := r.way(WayLocal), r.way(WayTwice), r.way(WayHalf), r.way(WayStore)
	before := local
	for _, w := range ways {
		if w.scheme.Kind() != nodes.Partner {
			continue
		}
		m := r.way(w.name)
		add("time to save, "+m.Name+" by "+before.Name, m.Save, before.Save, 1, 0)
		before = m
	}
	if m := r.way("partner"); m != nil {
		add("time to save, partner by "+WayTwice, m.Save, twice.Save, 0, 1.3)
	}
	for _, w := range ways {
		if w.scheme.Coded() {
			least := 0.0
			if w.scheme.String() == "rs:4+2" {
				least = 0.5
			}
			m := r.way(w.name)
			add("rate of saving, "+m.Name+" by local", m.SaveRate, local.SaveRate, least, 0)
		}
	}
	add("time, reading by saving, local", local.Read, local.Save, 0, 1)
	add("time of reading, half the bytes by all", half.Read, local.Read, 0.35, 0.65)
	add("time to save, local by store", local.Save, store.Save, 0, 0)
	return list
}
