package plan

import "fmt"

// shares makes rounds to which every member contributes the same number of
// bytes, its share of the buffer, until it has no more. The share is fixed once,
// as OMPIO does it (fcoll component static, with a buffer of constant size), among
// the ranks that have any bytes; what members that are done leave stays unused.
func (b *builder) shares(yield func(Round) bool) bool {
	members := b.members()
	if len(members) == 0 {
		return true
	}
	share := b.plan.Settings.Buffer / int64(len(members)) / PageSize * PageSize
	for len(members) > 0 {
		if b.moved > 0 && !yield(b.take()) {
			return false
		}
		left := members[:0]
		for _, spans := range members {
			rest := share
			for len(spans) > 0 && rest > 0 {
				sp := &spans[0]
				n := min(sp.bytes, rest)
				b.add(span{sp.piece, sp.offset, n})
				sp.offset += n
				sp.bytes -= n
				rest -= n
				if sp.bytes == 0 {
					spans = spans[1:]
				}
			}
			if len(spans) > 0 {
				left = append(left, spans)
			}
		}
		members = left
	}
	return true
}

// members returns what lies in the domain, rank by rank. The bytes of a rank lie
// together, and the ranks in order.
func (b *builder) members() [][]span {
	var all []span
	hint := 0
	for lo, hi := range b.domain.ranges(&b.plan.Settings) {
		for sp := range b.plan.spans(b.domain.file, lo, hi, &hint) {
			all = append(all, sp)
		}
	}
	var members [][]span
	first := 0
	for i := range all {
		if i+1 == len(all) || b.plan.pieces[all[i+1].piece].source != b.plan.pieces[all[i].piece].source {
			members = append(members, all[first:i+1])
			first = i + 1
		}
	}
	return members
}

// checkShares checks that the buffers are large enough for all members of each
// writer to contribute.
func (p *Plan) checkShares() error {
	for i := range p.domains {
		b := &builder{plan: p, domain: &p.domains[i]}
		if n := int64(len(b.members())); n > 0 && p.Settings.Buffer/n < PageSize {
			return badSetting("buffer", p.Settings.Buffer,
				fmt.Sprintf("must be at least %d: with the static strategy rank %d takes %d bytes from each of %d ranks", n*PageSize, p.Writers[i].Rank, PageSize, n),
				fmt.Sprintf("give a buffer of %d or more, more aggregators, or the dynamic strategy", n*PageSize))
		}
	}
	return nil
}
