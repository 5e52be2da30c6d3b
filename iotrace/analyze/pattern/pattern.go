package pattern

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/iotrace"
)

// Pattern describes the I/O of all ranks in a length that does not depend on their
// number, as long as they do the same. It follows Recorder's inter-process compression
// (Wang, Zhu, Mohror, Neuwirth, Snir: Recorder, 2024). Ranks are in one group if their
// requests have the same operations and sizes in the same order with the same steps,
// and begin at offsets linear in the number of the rank. More than two groups that
// differ only in sizes, as after a codec, are described together. So are files whose
// names differ only in numbers.
type Pattern struct {
	Groups []Group `json:"groups"`
	More   int     `json:"more_groups"` // not listed
}

// A Group is a set of ranks that do the same.
type Group struct {
	File  string `json:"file"`       // of several, {rank} is the number of the rank, # another varying number
	Files int    `json:"files"`      // number of files
	Ranks string `json:"rank_range"` // like 0-7; 0-60/4: every fourth; all but 0-60/4; empty if not done by ranks
	Count int    `json:"ranks"`
	// Items are the requests of each rank; empty if they are too irregular.
	Items []Item `json:"items,omitempty"`
	// Spread is set if the runs begin at offsets that are not linear in the rank.
	// Offsets are then the first rank's.
	Spread bool `json:"spread,omitempty"`
	// For each rank and file, from the least to the most; all patterns together.
	Detail   Detail   `json:"detail"`
	Requests [2]int64 `json:"requests_range"`
	Bytes    [2]int64 `json:"bytes_range"`

	// Names is the name of the files without its numbers.
	Names string `json:"-"`
}

// An Item is a run of Count requests of Bytes bytes: the first one of rank r at Offset
// + r·PerRank, each of the others Step further. Or it is a loop: Body, repeated Times
// times, each time Shift further.
type Item struct {
	Op      string `json:"op,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	BytesTo int64  `json:"bytes_to,omitempty"` // the largest size, if ranks differ; Bytes is the smallest, and the one that offsets use
	Count   int64  `json:"count,omitempty"`
	Offset  int64  `json:"offset"`
	PerRank int64  `json:"per_rank_bytes,omitempty"`
	Step    int64  `json:"step_bytes,omitempty"`
	Body    []Item `json:"body,omitempty"`
	Times   int64  `json:"times,omitempty"`
	Shift   int64  `json:"shift_bytes,omitempty"`
}

const (
	maxGroups = 64 // in a description
	maxAlike  = 16 // of files with similar names; more are described together
	maxAlone  = 6  // groups of a single rank among them
)

// Heaviest returns copies of at most so many groups, those that move the most bytes, in
// their order.
func (p Pattern) Heaviest(most int) []Group {
	return heaviest(p.Groups, most, func(g *Group) float64 { return weight(g.Bytes, g.Files, g.Count) })
}

// heaviest returns copies of the elements with the largest weights, in their order.
func heaviest[T any](list []T, most int, weight func(*T) float64) []T {
	if len(list) <= most {
		return slices.Clone(list)
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight(&list[b]), weight(&list[a])) })
	order = order[:most]
	slices.Sort(order)
	out := make([]T, most)
	for i, k := range order {
		out[i] = list[k]
	}
	return out
}

// weight is about the number of bytes that a group moves. bytes is the range of each
// rank and file.
func weight(bytes [2]int64, files, ranks int) float64 {
	return (float64(bytes[0]) + float64(bytes[1])) / 2 * float64(max(files, ranks))
}

// String returns the pattern as text: for each group a line with its files and ranks,
// and a line with their requests, in which
//
//	write 4×64 @64·rank/256     is four writes of 64 bytes, the first at 64·rank,
//	                            the others 256 bytes apart
//	22×4096                     without @: begins where the one before ended;
//	                            without /: each begins where the one before ended
//	1×4096-8192                 has a size of its own in each rank
//	5×[…]+1000                  is done five times, each time 1000 bytes further
func (p Pattern) String() string {
	var b strings.Builder
	for _, g := range p.Groups {
		switch fmt.Fprintf(&b, "%s (%d): ", g.File, g.Files); g.Count {
		case 0:
			b.WriteString("no rank\n  ")
		case 1:
			fmt.Fprintf(&b, "rank %s (1)\n  ", g.Ranks)
		default:
			fmt.Fprintf(&b, "ranks %s (%d)\n  ", g.Ranks, g.Count)
		}
		if g.Items == nil {
			fmt.Fprintf(&b, "%s: %s requests, %s bytes together", g.Detail, between(g.Requests), between(g.Bytes))
		} else {
			w := itemWriter{b: &b, at: &Item{Offset: -1}}
			w.items(g.Items, "")
		}
		if g.Spread {
			b.WriteString(" (others elsewhere)")
		}
		b.WriteByte('\n')
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", p.More)
	}
	return b.String()
}

func between(r [2]int64) string {
	if r[0] == r[1] {
		return strconv.FormatInt(r[0], 10)
	}
	return fmt.Sprintf("%d-%d", r[0], r[1])
}

// An itemWriter writes items. It knows where the last one ended.
type itemWriter struct {
	b  *strings.Builder
	at *Item // the offset at which a request needs no offset in the text
}

func (w *itemWriter) items(items []Item, op string) {
	for i := range items {
		it := &items[i]
		if i > 0 {
			w.b.WriteString(", ")
		}
		if it.Body != nil {
			fmt.Fprintf(w.b, "%d×[", it.Times)
			// The body begins elsewhere in the second round.
			before := w.at
			w.at = &Item{Offset: -1}
			if len(it.Body) == 1 && it.Body[0].Body == nil && it.Body[0].Offset == before.Offset && it.Body[0].PerRank == before.PerRank && contiguousLoop(it) {
				w.at = before
			}
			w.items(it.Body, "")
			fmt.Fprintf(w.b, "]%+d", it.Shift)
			w.at = &Item{Offset: w.at.Offset + (it.Times-1)*it.Shift, PerRank: w.at.PerRank}
			op = ""
			continue
		}
		if it.Op != op {
			op = it.Op
			w.b.WriteString(op + " ")
		}
		fmt.Fprintf(w.b, "%d×%d", it.Count, it.Bytes)
		if it.BytesTo > 0 {
			fmt.Fprintf(w.b, "-%d", it.BytesTo)
		}
		if it.Offset != w.at.Offset || it.PerRank != w.at.PerRank {
			switch {
			case it.PerRank == 0:
				fmt.Fprintf(w.b, " @%d", it.Offset)
			case it.Offset == 0:
				fmt.Fprintf(w.b, " @%d·rank", it.PerRank)
			default:
				fmt.Fprintf(w.b, " @%d·rank%+d", it.PerRank, it.Offset)
			}
		}
		if it.Count > 1 && it.Step != it.Bytes {
			fmt.Fprintf(w.b, "/%d", it.Step)
		}
		w.at = &Item{Offset: it.Offset + (it.Count-1)*it.Step + it.Bytes, PerRank: it.PerRank}
	}
}

// contiguousLoop reports whether each round of a loop of one run begins where the
// round before ended.
func contiguousLoop(it *Item) bool {
	r := &it.Body[0]
	return it.Shift == (r.Count-1)*r.Step+r.Bytes
}

// A Spatial pattern describes how offsets follow each other.
type Spatial string

// The spatial patterns. Mixed means that no other pattern has three quarters of the
// requests. Unknown stands for mixed where more than a quarter may have any pattern.
const (
	SequentialAccess Spatial = "sequential"
	StridedAccess    Spatial = "strided"
	RandomAccess     Spatial = "random"
	MixedSpatial     Spatial = "mixed"
	UnknownSpatial   Spatial = "unknown"
)

// A Detail is a finer spatial pattern.
type Detail string

// The Details. The first two are sequential; the strided ones are strided. A request
// without a known offset went to a position that moves, or was appended to a file of
// unknown length, and counts as Sequential; in a trace without offsets it is Unknown. A
// request of 0 bytes, as at the end of a file, has no pattern. NoDetail means no others.
const (
	Contiguous      Detail = "contiguous"       // requests touch
	Sequential      Detail = "sequential"       // forward, holes up to the size of requests
	StridedSimple   Detail = "strided-simple"   // constant step between starts
	StridedNested   Detail = "strided-nested"   // groups of such requests, a larger step apart
	StridedVariable Detail = "strided-variable" // forward with large or varying holes, or with seeks back
	Random          Detail = "random"
	Mixed           Detail = "mixed"
	Unknown         Detail = "unknown"
	NoDetail        Detail = "none"
)

var Details = [...]Detail{Contiguous, Sequential, StridedSimple, StridedNested, StridedVariable, Random, Mixed, Unknown}

// Spatial returns the pattern that a detail refines.
func (d Detail) Spatial() Spatial {
	switch d {
	case Contiguous, Sequential, NoDetail:
		return SequentialAccess
	case StridedSimple, StridedNested, StridedVariable:
		return StridedAccess
	case Random:
		return RandomAccess
	case Unknown:
		return UnknownSpatial
	}
	return MixedSpatial
}

// Unplaced is the detail of requests of a trace whose offsets are not known.
func Unplaced(t *iotrace.Trace) Detail {
	if slices.ContainsFunc(t.Warnings, func(w iotrace.Warning) bool { return w.Code == iotrace.WarnNoOffsets }) {
		return Unknown
	}
	return Sequential
}

// Counts are numbers of requests by detail.
type Counts [len(Details)]int64

// Add counts requests of a detail.
func (c *Counts) Add(d Detail, requests int64) {
	if i := slices.Index(Details[:], d); i >= 0 {
		c[i] += requests
	}
}

// Merge adds other counts.
func (c *Counts) Merge(o *Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// Total is the number of requests.
func (c *Counts) Total() int64 {
	var n int64
	for _, k := range c {
		n += k
	}
	return n
}

// Spatial returns the pattern of three quarters of the requests.
func (c *Counts) Spatial() Spatial {
	total := c.Total()
	if total == 0 {
		return SequentialAccess // no request is out of order
	}
	for _, s := range [...]Spatial{SequentialAccess, StridedAccess, RandomAccess} {
		var n int64
		for i, k := range c {
			if Details[i].Spatial() == s {
				n += k
			}
		}
		if ratio(float64(n), float64(total)) >= ClearShare {
			return s
		}
	}
	if unknown := c[slices.Index(Details[:], Unknown)]; ratio(float64(unknown), float64(total)) > 1-ClearShare {
		return UnknownSpatial
	}
	return MixedSpatial
}

// Detail returns the commonest detail of the spatial pattern.
func (c *Counts) Detail() Detail {
	s := c.Spatial()
	best, most := NoDetail, int64(0)
	for i, n := range c {
		if n > most && Details[i].Spatial() == s {
			best, most = Details[i], n
		}
	}
	if s == MixedSpatial {
		return Mixed
	}
	return best
}
