package dataset

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// A kindSpec is a kind of ranks in a spec. The kinds follow each other in the order of the
// ranks, and again from the first one. The last without a number is the rest.
type kindSpec struct {
	Name  string      `yaml:"name"`
	Ranks *expression `yaml:"ranks"`
}

// A KindOfRanks is ranks that hold other arrays than the rest.
type KindOfRanks struct {
	Name string
	// Ranks is how many there are in the job.
	Ranks int

	holders holders
}

// holders are the ranks in some spans of each Every ranks; all if Every is 0.
type holders struct {
	spans []span
	every int
}

// A span is the ranks from the first up to the last, which is not one of them.
type span struct{ from, to int }

func (h holders) has(rank int) bool {
	return h.every == 0 || slices.ContainsFunc(h.spans, func(s span) bool { return rank%h.every >= s.from && rank%h.every < s.to })
}

// of counts them among np ranks, a multiple of Every.
func (h holders) of(np int) (n int) {
	if h.every == 0 {
		return np
	}
	for _, s := range h.spans {
		n += np / h.every * (s.to - s.from)
	}
	return n
}

func unknownKind(names []string, kinds []kindSpec) string {
	for _, name := range names {
		if !slices.ContainsFunc(kinds, func(k kindSpec) bool { return k.Name == name }) {
			return name
		}
	}
	return ""
}

func checkKinds(list []kindSpec) error {
	if len(list) > maxItems {
		return fmt.Errorf("more than %d kinds of ranks", maxItems)
	}
	seen := map[string]bool{}
	for i, k := range list {
		switch {
		case !isIdentifier(k.Name):
			return fmt.Errorf("kinds[%d]: name %q: want a letter, then letters, digits, - or _", i, k.Name)
		case seen[k.Name]:
			return fmt.Errorf("kind %s: the name is taken", k.Name)
		case k.Ranks == nil && i < len(list)-1:
			return fmt.Errorf("kind %s: ranks is missing; only the last kind may be the rest", k.Name)
		}
		seen[k.Name] = true
	}
	return nil
}

// kindsOf divides the ranks of an instance into kinds.
func (w *Workload) kindsOf(inst *Instance) ([]KindOfRanks, error) {
	var list []KindOfRanks
	sum, every := 0, 0
	for _, k := range w.spec.Kinds {
		n := int64(inst.NP - sum)
		if k.Ranks == nil {
			every = inst.NP
		} else {
			var err error
			if n, err = k.Ranks.size(inst.Params); err != nil {
				return nil, fmt.Errorf("kind %s: ranks: %w", k.Name, err)
			}
		}
		if n < 0 || n > int64(inst.NP-sum) {
			return nil, fmt.Errorf("kind %s: the kinds have more than the %d ranks of the job", k.Name, inst.NP)
		}
		list = append(list, KindOfRanks{Name: k.Name, holders: holders{spans: []span{{sum, sum + int(n)}}}})
		sum += int(n)
	}
	if every == 0 {
		every = sum
	}
	if len(list) > 0 && (every == 0 || inst.NP%every != 0) {
		return nil, fmt.Errorf("kinds of %d ranks together do not divide the %d ranks of the job", every, inst.NP)
	}
	for i := range list {
		list[i].holders.every = every
		list[i].Ranks = list[i].holders.of(inst.NP)
	}
	return list, nil
}

// holders are the ranks of some kinds; all for no kind.
func (inst *Instance) holders(kinds []string) (h holders) {
	for _, k := range inst.Kinds {
		if slices.Contains(kinds, k.Name) {
			h.spans, h.every = append(h.spans, k.holders.spans...), k.holders.every
		}
	}
	return h
}

// A RankRun is consecutive ranks.
type RankRun struct{ First, Last int }

// A RankShare is the ranks that hold equally much of each array.
type RankShare struct {
	// Ranks are Count ranks, in ascending order.
	Ranks []RankRun
	Count int
	// Bytes is the data zone of each of them, from Low to High where several rules may hold.
	Bytes, Low, High int64
}

// First is one of the ranks.
func (s *RankShare) First() int { return s.Ranks[0].First }

// Shares divides the ranks by what they hold, in the order of the first of each.
func (inst *Instance) Shares() []RankShare { return inst.shares() }

// Uneven reports whether ranks may hold unequally much.
func (inst *Instance) Uneven() bool { return len(inst.Kinds) > 0 || inst.Global() }

func (inst *Instance) divide() []RankShare {
	if !inst.Uneven() {
		s := inst.shareOf(0)
		s.Ranks, s.Count = []RankRun{{0, inst.NP - 1}}, inst.NP
		return []RankShare{s}
	}
	var list []RankShare
	at := map[string]int{}
	var key []byte
	for rank := range inst.NP {
		key = inst.holding(key[:0], rank)
		i, ok := at[string(key)]
		if !ok {
			i = len(list)
			at[string(key)] = i
			list = append(list, inst.shareOf(rank))
		}
		s := &list[i]
		s.Count++
		if n := len(s.Ranks); n > 0 && s.Ranks[n-1].Last == rank-1 {
			s.Ranks[n-1].Last = rank
		} else {
			s.Ranks = append(s.Ranks, RankRun{rank, rank})
		}
	}
	return list
}

// holding appends what a rank has of each array, under each rule.
func (inst *Instance) holding(key []byte, rank int) []byte {
	for i := range inst.Arrays {
		a := &inst.Arrays[i]
		key = fmt.Appendf(key, "%d ", a.Of(rank).Count)
		for _, l := range a.Others {
			key = fmt.Appendf(key, "%d ", l.Elements(rank))
		}
	}
	return key
}

// shareOf is what a rank holds.
func (inst *Instance) shareOf(rank int) RankShare {
	s := RankShare{Bytes: inst.Runtime, Low: inst.Runtime, High: inst.Runtime}
	for i := range inst.Arrays {
		a := &inst.Arrays[i]
		n := a.Of(rank).Bytes()
		low, high := a.doubt(n)
		for _, l := range a.Others {
			other := l.Elements(rank) * int64(a.Elem.Size())
			low, high = min(low, other), max(high, other)
		}
		s.Bytes, s.Low, s.High = s.Bytes+n, s.Low+low, s.High+high
	}
	return s
}

// doubt is the range of an amount of the array that a law gives.
func (a *Array) doubt(n int64) (low, high int64) {
	mean := float64(a.Bytes())
	if a.Layout != nil {
		mean = float64(a.Total(0)) / float64(a.Layout.Ranks())
	}
	if a.High == 0 || mean == 0 || a.Low == a.High && a.Layout != nil {
		return n, n
	}
	scale := float64(n) / mean
	return min(n, int64(float64(a.Low)*scale)), max(n, int64(float64(a.High)*scale))
}

// TotalRange returns the least and the most bytes of the data zones of all ranks, where several
// rules may hold.
func (inst *Instance) TotalRange() (low, high int64) {
	low = inst.Runtime * int64(inst.NP)
	high = low
	for i := range inst.Arrays {
		a := &inst.Arrays[i]
		least, most := a.doubt(a.Total(inst.NP))
		for _, l := range a.Others {
			other := l.All() * int64(a.Elem.Size())
			least, most = min(least, other), max(most, other)
		}
		low, high = low+least, high+most
	}
	return low, high
}

// A MeasuredSize is the bytes that a rank had of an array on a number of ranks.
type MeasuredSize struct {
	NP    int
	Bytes int64
	// Whole is the bytes of which each rank has an equal share, whatever their number; 0: not known.
	Whole int64
}

func checkMeasured(sizes map[int]int64, elem int64) error {
	if len(sizes) == 0 || len(sizes) > maxItems {
		return fmt.Errorf("measured: sizes on %d numbers of ranks (want 1 to %d)", len(sizes), maxItems)
	}
	for np, bytes := range sizes {
		switch {
		case np < 1 || np > maxProcs:
			return fmt.Errorf("measured: %d ranks (want 1 to %d)", np, maxProcs)
		case bytes < 0 || bytes%elem != 0:
			return fmt.Errorf("measured: %d bytes on %d ranks are no whole number of elements", bytes, np)
		}
	}
	return nil
}

func measuredPoints(sizes map[int]int64) []MeasuredSize {
	var list []MeasuredSize
	for np, bytes := range sizes {
		list = append(list, MeasuredSize{NP: np, Bytes: bytes})
	}
	slices.SortFunc(list, func(a, b MeasuredSize) int { return a.NP - b.NP })
	return list
}

// measuredAt guesses the bytes on a number of ranks: those measured there, and else a power of
// the number of ranks through the two nearest. Package predict has laws, with intervals.
func measuredAt(list []MeasuredSize, np int) float64 {
	i := slices.IndexFunc(list, func(m MeasuredSize) bool { return m.NP >= np })
	switch {
	case i >= 0 && list[i].NP == np || len(list) == 1:
		return float64(list[max(i, 0)].Bytes)
	case i < 0:
		i = len(list) - 1
	}
	i = max(i, 1)
	a, b := list[i-1], list[i]
	if a.Bytes == 0 || b.Bytes == 0 {
		return float64(max(a.Bytes, b.Bytes))
	}
	k := math.Log(float64(b.Bytes)/float64(a.Bytes)) / math.Log(float64(b.NP)/float64(a.NP))
	return float64(a.Bytes) * math.Pow(float64(np)/float64(a.NP), k)
}

// WithMeasured is the instance with other sizes of the arrays that were measured: bytes of a
// rank, with their range.
func (inst *Instance) WithMeasured(size func(list []MeasuredSize) (bytes, low, high int64)) *Instance {
	own := *inst
	own.Arrays = slices.Clone(inst.Arrays)
	for i := range own.Arrays {
		a := &own.Arrays[i]
		if a.Measured == nil {
			continue
		}
		bytes, low, high := size(a.Measured)
		if a.Low, a.High = low, high; a.Layout == nil {
			a.Count = bytes / int64(a.Elem.Size())
		}
	}
	own.shares = sync.OnceValue(own.divide)
	return &own
}

// Opaque returns the names of arrays whose sizes were measured on too few numbers of ranks for
// a law.
func (inst *Instance) Opaque() (names []string) {
	for _, a := range inst.Arrays {
		if len(a.Measured) == 1 && a.Measured[0].NP != inst.NP && a.Measured[0].Whole == 0 {
			names = append(names, a.Name)
		}
	}
	return names
}
