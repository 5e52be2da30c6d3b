package plan

import (
	"fmt"
	"iter"
	"slices"
)

// A domain is what one writer owns: the stretch from lo to hi of a file or, if width is not 0,
// in it the width stripes of every row across the OSTs from OST ost on. Owners write whatever
// data is there.
type domain struct {
	self       int32 // position of the writer's rank
	file       int
	lo, hi     int64
	ost, width int
}

// ranges yields what is owned, in order and as long as possible: adjacent stripes of a row are
// one range.
func (d *domain) ranges(s *Settings) iter.Seq2[int64, int64] {
	return func(yield func(lo, hi int64) bool) {
		if d.width == 0 || d.width == s.StripeCount {
			if d.lo < d.hi {
				yield(d.lo, d.hi)
			}
			return
		}
		row := s.StripeSize * int64(s.StripeCount)
		// The place of the first OST's stripe in the first row, before the file if it begins on
		// a later OST; then the row that reaches to lo.
		begin := s.StripeSize * int64(d.ost-s.FirstOST)
		begin += max(0, d.lo-begin) / row * row
		for ; begin < d.hi; begin += row {
			lo, hi := max(begin, d.lo), min(begin+s.StripeSize*int64(d.width), d.hi)
			if lo < hi && !yield(lo, hi) {
				return
			}
		}
	}
}

// begins says whether the domain contains the first byte of the file.
func (d *domain) begins(s *Settings) bool {
	for lo := range d.ranges(s) {
		return lo == 0
	}
	return false
}

// assign makes the writers and their domains; members are the ranks in each file.
func (p *Plan) assign(members [][]int) {
	s := &p.Settings
	switch {
	case s.Strategy == Individual:
		for i, b := range p.bases {
			p.add(i, i, p.mapping.all[i:i+1], domain{file: b.File, lo: b.Offset, hi: b.Offset + p.lengths[i]})
		}
	case s.Layout == Aggregated:
		for f, ranks := range members {
			chosen := s.pick(p.mapping, ranks, 1)[0]
			p.Files[f].Rank = p.mapping.ranks[chosen]
			p.add(chosen, f, ranks, domain{file: f, hi: p.Files[f].Bytes})
		}
	case s.Strategy == TwoPhase:
		p.assignOSTs()
	default: // dynamic, static
		groups := p.mapping.groups(s.Aggregators, true)
		bounds := p.bounds(groups)
		for g, ranks := range groups {
			p.add(s.pick(p.mapping, ranks, 1)[0], g, ranks, domain{lo: bounds[g], hi: bounds[g+1]})
		}
	}
}

// assignOSTs divides the OSTs of the shared file among aggregators; with P4 several per OST,
// each for a group of ranks.
func (p *Plan) assignOSTs() {
	s, m := &p.Settings, p.mapping
	osts := s.StripeCount
	// There are fewer aggregators than OSTs, or a multiple of them.
	n := max(1, s.Aggregators/osts)
	each := s.Aggregators / n
	groups := [][]int{m.all}
	if n > 1 {
		// Group size is a multiple of the OSTs, so that with as many aggregators as possible
		// each rank is one; the last group takes the remainder (Larrosa, section 2.3).
		size := len(m.all) / osts / n * osts
		groups = make([][]int, n)
		for g := range groups {
			groups[g] = m.all[g*size : (g+1)*size]
		}
		groups[n-1] = m.all[(n-1)*size:]
	}
	bounds := p.bounds(groups)
	for g, ranks := range groups {
		for a, i := range s.pick(m, ranks, each) {
			from, to := a*osts/each, (a+1)*osts/each
			p.add(i, g, ranks, domain{lo: bounds[g], hi: bounds[g+1], ost: from, width: to - from})
		}
	}
}

// add makes the rank at position i the writer of domain d, for the bytes of members.
func (p *Plan) add(i, group int, members []int, d domain) {
	m := p.mapping
	w := Writer{Rank: m.ranks[i], Node: m.numbers[m.node[i]], Group: group}
	if last := len(p.Writers) - 1; last >= 0 && p.Writers[last].Group == group {
		w.Ranks = p.Writers[last].Ranks
	} else {
		w.Ranks = make([]int, len(members))
		for j, k := range members {
			w.Ranks[j] = m.ranks[k]
		}
	}
	for ost := range d.width {
		w.OSTs = append(w.OSTs, d.ost+ost)
	}
	d.self = int32(i)
	p.Writers = append(p.Writers, w)
	p.domains = append(p.domains, d)
}

// bounds divides the shared file among groups of consecutive ranks: group g has the stripes
// from bounds[g] to bounds[g+1], whose first byte of data is its own.
func (p *Plan) bounds(groups [][]int) []int64 {
	stripe := p.Settings.StripeSize
	bounds := make([]int64, len(groups)+1)
	bounds[len(groups)] = roundUp(p.Files[0].Bytes, stripe)
	var end int64 // of the data so far
	for g, ranks := range groups {
		bounds[g] = -1 // nothing of its own
		for _, i := range ranks {
			if p.lengths[i] == 0 {
				continue
			}
			if begin := p.bases[i].Offset; bounds[g] < 0 {
				switch low := begin - begin%stripe; {
				case end == 0: // the first takes what is in front of it: the header
					bounds[g] = 0
				case end > low:
					bounds[g] = roundUp(begin, stripe)
				default:
					bounds[g] = low
				}
			}
			end = p.bases[i].Offset + p.lengths[i]
		}
	}
	for g := len(groups) - 1; g >= 0; g-- {
		if bounds[g] < 0 {
			bounds[g] = bounds[g+1]
		}
	}
	return bounds
}

// Fit returns the settings with the most aggregators, up to those given, for so many ranks.
func (s Settings) Fit(ranks int) Settings {
	if s.Aggregators <= ranks {
		return s
	}
	s.Aggregators = ranks
	s.setDefaults()
	if s.byStripe() && s.P4 && ranks > s.StripeCount {
		s.Aggregators = ranks / s.StripeCount * s.StripeCount
	}
	return s
}

// count returns the number of aggregators; for individual writing into aggregated files, of
// files.
func (s *Settings) count(m *mapping) (int, error) {
	ranks, nodes := len(m.ranks), len(m.nodes)
	n := s.Aggregators
	if n > ranks {
		return 0, badSetting("aggregators", n, fmt.Sprintf("must be at most the number of ranks that write together, %d", ranks), "give fewer, or auto")
	}
	switch {
	case s.Layout == PerRank, s.Layout == Shared && s.Strategy == Individual:
		return ranks, nil
	case s.byStripe():
		return s.countByStripe(ranks, nodes)
	case n > 0:
		return n, nil
	}
	return nodes, nil
}

func (s *Settings) countByStripe(ranks, nodes int) (int, error) {
	n, osts := s.Aggregators, s.StripeCount
	switch {
	case n == Auto && ranks < osts:
		for n = ranks; osts%n != 0; n-- {
		}
		return n, nil
	case n == Auto && s.P4:
		return osts * max(1, nodes/osts), nil
	case n == Auto:
		return osts, nil
	case n == 0 && s.P4:
		// Fewer ranks than OSTs: all are aggregators (Larrosa, section 2.3).
		return max(ranks/osts*osts, min(ranks, osts)), nil
	case n == 0:
		return min(nodes, osts), nil
	case n <= osts:
		return n, nil
	case !s.P4:
		return 0, badSetting("aggregators", n,
			fmt.Sprintf("must be at most the stripe count, %d: without P4 each OST has one aggregator", osts),
			fmt.Sprintf("give at most %d, a larger stripe count, or P4", osts))
	case n%osts != 0:
		remedy := fmt.Sprintf("give %d", n/osts*osts)
		if up := (n/osts + 1) * osts; up <= ranks {
			remedy += fmt.Sprintf(" or %d", up)
		}
		return 0, badSetting("aggregators", n,
			fmt.Sprintf("must be a multiple of the stripe count, %d: with P4 each OST has the same number of them", osts), remedy)
	}
	return n, nil
}

// pick chooses n of some ranks as aggregators: the first rank of each node, as ROMIO and
// Larrosa do; with fewer nodes, further ranks evenly spread within each.
func (s *Settings) pick(m *mapping, ranks []int, n int) []int {
	index := make(map[int]int)
	var members [][]int // of each node in turn
	for _, i := range ranks {
		k, ok := index[m.node[i]]
		if !ok {
			k = len(members)
			index[m.node[i]] = k
			members = append(members, nil)
		}
		members[k] = append(members[k], i)
	}
	chosen := make([]int, 0, n)
	for k, share := range deal(lengths(members), n) {
		for _, part := range split(nil, members[k], share) {
			chosen = append(chosen, part[0])
		}
	}
	slices.Sort(chosen)
	return chosen
}
