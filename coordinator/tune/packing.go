package tune

import (
	"math"

	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// The codecs that a search tries, the cheapest first. Auto chooses among them.
var codecs = []string{none, "s2", "zstd", "gzip"}

const (
	none = "none"
	auto = "auto"
)

// A speed is a codec's: bytes of memory that a processor packs in a second, and what
// is left of them.
type speed struct{ rate, ratio float64 }

// usual are the speeds of codecs that a description does not have, on the data of live
// solvers and a processor of 2.6 GHz (docs/CODECS.md). Without a codec it is digests and
// checksums.
var usual = map[string]speed{none: {1.5e9, 1}, "s2": {0.8e9, 0.73}, "zstd": {0.3e9, 0.69}, "gzip": {0.15e9, 0.69}}

// speedOf returns the speed of a codec on the processors of a system.
func speedOf(sys *pfs.System, codec string) speed {
	s := usual[codec]
	known, ok := sys.Codecs[codec]
	if !ok {
		return s
	}
	if known.Pack > 0 {
		s.rate = float64(known.Pack)
	}
	if known.Ratio > 0 && codec != none {
		s.ratio = known.Ratio
	}
	return s
}

// looked returns how long one processor looks at what a rank stores: for zeros, and with
// Incremental for what has changed. Without, the checksums are made while the bytes are
// written.
func (c *Case) looked(sys *pfs.System, read int64) float64 {
	if !c.Incremental {
		return 0
	}
	return float64(read) / speedOf(sys, none).rate
}

// packing returns the seconds of one processor that each rank needs for its memory, by its
// position.
func (c *Case) packing(sys *pfs.System, l *load, codec string) []float64 {
	list := make([]float64, len(l.sources))
	for i := range list {
		switch {
		case c.Packing != nil:
			list[i] = c.Packing(l.sources[i].Rank)
		case c.Memory != nil:
		default:
			list[i] = c.looked(sys, l.read[i])
			if codec != none && !c.Whole {
				list[i] += float64(l.offered[i]) / speedOf(sys, codec).rate
			}
		}
	}
	return list
}

// The rounds in which a rank packs: of so many chunks of memory (docs/FORMAT.md).
const (
	chunksAlone    = 4
	chunksTogether = 16
)

// rounds is how many rounds the rank with the most memory packs in.
func (c *Case) rounds(l *load, s *plan.Settings) float64 {
	if c.Memory != nil || c.Packing != nil {
		return 1
	}
	chunks := int64(chunksTogether)
	if s.Layout == plan.PerRank {
		chunks = chunksAlone
	}
	most := int64(1)
	for _, n := range l.read {
		most = max(most, n)
	}
	return math.Ceil(float64(most) / float64(chunks*plan.WriteBytes))
}

// A host is where ranks share processors.
type hosts struct {
	of    []int // by position of the rank
	count int
}

func hostsOf(sys *pfs.System, l *load) hosts {
	h := hosts{of: make([]int, len(l.sources))}
	if sys.Host.OneHost {
		h.count = 1
		return h
	}
	index := make(map[int]int)
	for i := range l.sources {
		n, ok := index[l.sources[i].Node]
		if !ok {
			n = len(index)
			index[l.sources[i].Node] = n
		}
		h.of[i] = n
	}
	h.count = len(index)
	return h
}

// slowest returns the longest time that a host needs for work of its ranks, each of which
// uses one processor at a time.
func (h *hosts) slowest(sys *pfs.System, seconds func(i int) float64) float64 {
	sums, longest := make([]float64, h.count), make([]float64, h.count)
	for i, host := range h.of {
		s := seconds(i)
		sums[host] += s
		longest[host] = max(longest[host], s)
	}
	worst := 0.0
	for i := range sums {
		worst = max(worst, longest[i], sums[i]/float64(max(1, sys.Host.Processors)))
	}
	return worst
}
