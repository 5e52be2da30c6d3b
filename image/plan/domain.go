package plan

import "iter"

// A domain is what one writer owns: the stretch from lo to hi of a file or, if
// width is not 0, of every row of stripes across the OSTs the width stripes from
// the one on OST ost. Owners write whatever data is there, whoever it is from.
type domain struct {
	self       int32 // position of the writer's rank
	file       int
	lo, hi     int64
	ost, width int
}

// ranges yields what is owned, in order and as long as possible. Adjacent
// stripes are one range only where they lie beside each other in a row.
func (d *domain) ranges(s *Settings) iter.Seq2[int64, int64] {
	return func(yield func(lo, hi int64) bool) {
		if d.width == 0 || d.width == s.StripeCount {
			if d.lo < d.hi {
				yield(d.lo, d.hi)
			}
			return
		}
		row := s.StripeSize * int64(s.StripeCount)
		// Where the first of the OSTs would have its stripe in the first row, which
		// is before the file if the file begins on a later OST; then the row that
		// reaches to lo.
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

// assign makes the writers and their domains; members are the ranks in each
// file.
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

// assignOSTs divides the OSTs of the shared file among the aggregators. With P4
// there are several per OST, each for a group of ranks.
func (p *Plan) assignOSTs() {
	s, m := &p.Settings, p.mapping
	osts := s.StripeCount
	// There are fewer aggregators than OSTs, or a multiple of them.
	n := max(1, s.Aggregators/osts)
	each := s.Aggregators / n
	groups := [][]int{m.all}
	if n > 1 {
		// The members of a group are a multiple of the OSTs, so that with as many
		// aggregators as possible each rank is one; the last group takes the
		// remainder (Larrosa, section 2.3).
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

// add makes the rank at position i the writer of domain d, and of the bytes of
// the members.
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

// bounds divides the shared file among groups of consecutive ranks: group g has
// the stripes from bounds[g] to bounds[g+1], those whose first byte of data is
// one of its own.
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
