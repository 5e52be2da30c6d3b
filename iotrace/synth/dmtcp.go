package synth

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ckpt/iotrace"
)

// From León: the 44 writes of the first burst have 4, 8, 6, 12, 20, 24, 32 and 79
// bytes, then 3582, then 4096 (text on Figures 3.14-3.16), and 8192 bytes in all
// (Table 2.6, Figure 5.14). The text does not say how often each small size occurs.
// The counts here make 42 writes and 514 bytes, which 3582 and 4096 complete.
var dmtcpHeader = []struct{ size, count int64 }{
	{79, 2}, {4, 23}, {8, 4}, {6, 2}, {12, 4}, {20, 3}, {24, 2}, {32, 2}, {3582, 1}, {4096, 1},
}

// The second burst begins as in Figure 3.17: the second write of 4096 bytes that
// Figure 3.14 mentions, then the writes of the figure. Zero stands for the data
// segment, 109.43 MiB in BT.B.4.
var dmtcpStart = []int64{4096, 102400, 4096, 4096, 4096, 4096, 4096, 0, 4096, 1343488, 4096}

const (
	page = 4096
	// dmtcpData is the data segment of BT.B.4 (Figure 3.17).
	dmtcpData = 114749440
	// dmtcpWrites is the number of writes in the second burst (Figure 5.14, cluster).
	dmtcpWrites = 163
	// dmtcpLibraries is the size of library areas and stacks: the rest of the 155.12
	// MiB in the second burst of BT.B.4, without the data, the shared segment and the
	// writes of Figure 3.17.
	dmtcpLibraries = 463 * page
)

// dmtcp is a coordinated checkpoint of NAS BT under DMTCP: one image per rank, written
// from the beginning to the end in two bursts. All ranks do the same.
//
// From the thesis: the sizes, counts and offsets above; for four ranks of class
// B 163 writes and 155.12 MiB in the second burst; the time of a write, 1.46e-7 s
// for a byte (Equation 5.1). Filled in: the second between the bursts; which
// library areas there are (the seed chooses); other classes and numbers of ranks,
// by the volume of the grid (N = 64, 102, 162, 408 points a side, NPB), and the
// shared segment of MPICH, 25.47 + 4·p + p²/16 MiB, with up to 64 ranks on a node
// (Equation 3.11 is its regression).
func dmtcp(p Params) *iotrace.Trace {
	s := newScript(fmt.Sprintf("bt.%s.%d under DMTCP", p.Class, p.Ranks), p)
	n := map[string]float64{"A": 64, "B": 102, "C": 162, "D": 408}[p.Class]
	pages := func(bytes float64) int64 { return max(1, int64(bytes/page+0.5)) * page }
	data := pages(dmtcpData * (n / 102) * (n / 102) * (n / 102) * 4 / float64(p.Ranks))
	pn := float64(min(p.Ranks, 64))
	shared := pages((25.47 + 4*pn + pn*pn/16) * (1 << 20))
	second := dmtcpSecond(rand.New(rand.NewPCG(p.Seed, 11)), data, shared)

	const perByte = 1.46041308e-07 // s, Equation 5.1
	took := func(size int64) time.Duration {
		return 20*time.Microsecond + time.Duration(float64(size)*perByte*float64(time.Second))
	}
	files := make([]int32, p.Ranks)
	offs := make([]int64, p.Ranks)
	write := func(rank int, size int64) {
		s.do(rank, iotrace.Write, files[rank], offs[rank], size, took(size))
		offs[rank] += size
	}
	for rank := range p.Ranks {
		files[rank] = s.file(fmt.Sprintf("ckpt_bt.%s.%d_rank%d.dmtcp", p.Class, p.Ranks, rank))
		s.do(rank, iotrace.Open, files[rank], iotrace.None, 0, 100*time.Microsecond)
		s.trace.Events[len(s.trace.Events)-1].Create = true
		for _, h := range dmtcpHeader {
			for range h.count {
				write(rank, h.size)
			}
		}
	}
	s.meet(time.Second)
	for rank := range p.Ranks {
		for _, size := range second {
			write(rank, size)
		}
		s.do(rank, iotrace.Close, files[rank], iotrace.None, 0, 20*time.Microsecond)
	}
	return s.finish()
}

// dmtcpSecond returns the sizes of the second burst. Most are one page.
func dmtcpSecond(r *rand.Rand, data, shared int64) []int64 {
	var out []int64
	for _, size := range dmtcpStart {
		if size == 0 {
			size = data
		}
		out = append(out, size)
	}
	// The library areas have 1 to 60 pages, one in seven more than one.
	left := int64(dmtcpLibraries)
	at := len(out)
	for len(out) < dmtcpWrites-1 {
		size := int64(page)
		after := int64(dmtcpWrites-2-len(out)) * page // for the other writes
		switch {
		case after == 0:
			size = left
		case r.IntN(7) == 0 && left > after:
			size += min(r.Int64N(60)*page, (left-size-after)/page*page)
		}
		out = append(out, size)
		left -= size
	}
	// The shared segment lies between the libraries and the stack.
	at += 2 * (len(out) - at) / 3
	out = append(out[:at], append([]int64{shared}, out[at:]...)...)
	return out
}
