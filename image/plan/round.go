package plan

import (
	"fmt"
	"iter"
	"sort"
)

// InPlace, as a place in a buffer, means a writer's own bytes, written from where they are.
const InPlace = -1

// Round is one filling of a collective buffer and what becomes of it.
type Round struct {
	// Gathers say where the bytes of the round come from, in the order of the file.
	Gathers []Gather
	Writes  []Write // in the order of the file
}

// Gather is a run of bytes of one piece.
type Gather struct {
	From   int   // rank
	Key    int   // of its piece
	Offset int64 // in the piece
	Bytes  int64
	Buffer int64 // where they go in the collective buffer; InPlace: nowhere
}

// WriteBytes is the most that one operation of an individual writer writes, so that several fit
// into Settings.Buffer bytes.
const WriteBytes = 4 << 20

// Write is one write operation.
type Write struct {
	File   int // index into Plan.Files
	Offset int64
	Bytes  int64
	Parts  []Part // what is written, together Bytes long
}

// Part is a contiguous part of the memory that is written.
type Part struct {
	Buffer int64 // where in the collective buffer, or InPlace
	Key    int   // if InPlace: the piece of the writer,
	Offset int64 // and where in it
	Bytes  int64
}

// WriterPlan yields what a rank has to write, round after round. A round stays valid while the
// next is made.
func (p *Plan) WriterPlan(rank int) iter.Seq[Round] {
	return func(yield func(Round) bool) {
		w, ok := p.writer(rank)
		if !ok {
			return
		}
		b := &builder{plan: p, domain: &p.domains[w]}
		switch {
		case p.Settings.byStripe():
			ok = b.stripes(yield)
		case p.Settings.Strategy == Static:
			ok = b.shares(yield)
		default:
			ok = b.bytes(yield)
		}
		if ok && b.moved > 0 {
			yield(b.take())
		}
	}
}

// span is a run of bytes of one piece.
type span struct {
	piece         int   // index into Plan.pieces
	offset, bytes int64 // in the piece
}

// spans yields what lies in a file from lo to hi. The search begins at piece *hint, which it
// moves.
func (p *Plan) spans(file int, lo, hi int64, hint *int) iter.Seq[span] {
	return func(yield func(span) bool) {
		i, last := max(*hint, p.first[file]), p.first[file+1]
		// Mostly the next stretch begins in the same piece or the next; else halving the rest
		// is faster.
		for range 2 {
			if i < last && p.pieces[i].end() <= lo {
				i++
			}
		}
		if i < last && p.pieces[i].end() <= lo {
			i += sort.Search(last-i, func(j int) bool { return p.pieces[i+j].end() > lo })
		}
		for ; i < last && p.pieces[i].at < hi; i++ {
			pl := &p.pieces[i]
			from, to := max(lo, pl.at), min(hi, pl.end())
			*hint = i
			if !yield(span{piece: i, offset: from - pl.at, bytes: to - from}) {
				return
			}
		}
	}
}

// builder collects the rounds of one writer.
type builder struct {
	plan   *Plan
	domain *domain

	round  Round
	pieces []int  // of the gathers: index into plan.pieces
	parts  []Part // of all writes of the round
	first  []int  // for each write its first in parts
	moved  int64  // bytes in the round
	used   int64  // bytes in the buffer
}

// add puts s at the end of the round, and joins it to the last gather, write or part if it
// continues that.
func (b *builder) add(s span) {
	pl := &b.plan.pieces[s.piece]
	buffer := int64(InPlace)
	if pl.source != b.domain.self {
		buffer = b.used
		b.used += s.bytes
	}
	b.moved += s.bytes

	gathers := b.round.Gathers
	if n := len(gathers) - 1; n >= 0 && b.pieces[n] == s.piece && gathers[n].Offset+gathers[n].Bytes == s.offset {
		gathers[n].Bytes += s.bytes
	} else {
		b.round.Gathers = append(gathers, Gather{
			From: b.plan.mapping.ranks[pl.source], Key: pl.key, Offset: s.offset, Bytes: s.bytes, Buffer: buffer,
		})
		b.pieces = append(b.pieces, s.piece)
	}

	at := pl.at + s.offset
	writes := b.round.Writes
	if n := len(writes) - 1; b.left(at) > 0 {
		writes[n].Bytes += s.bytes
		// Buffer and pieces are filled in the order of the file: what goes on in the same
		// memory goes on without a gap.
		last := &b.parts[len(b.parts)-1]
		if own := buffer == InPlace; own == (last.Buffer == InPlace) && (!own || last.Key == pl.key) {
			last.Bytes += s.bytes
			return
		}
	} else {
		b.round.Writes = append(writes, Write{File: b.domain.file, Offset: at, Bytes: s.bytes})
		b.first = append(b.first, len(b.parts))
	}
	part := Part{Buffer: buffer, Bytes: s.bytes}
	if buffer == InPlace {
		part.Key, part.Offset = pl.key, s.offset
	}
	b.parts = append(b.parts, part)
}

// left returns how many bytes the last write may still take at an offset.
func (b *builder) left(at int64) int64 {
	n := len(b.round.Writes) - 1
	switch {
	case n < 0 || b.round.Writes[n].Offset+b.round.Writes[n].Bytes != at:
		return 0
	case b.plan.Settings.Strategy != Individual:
		return b.plan.Settings.Buffer
	}
	return WriteBytes - b.round.Writes[n].Bytes
}

// take returns the round and begins the next. The caller may keep it.
func (b *builder) take() Round {
	r := b.round
	end := len(b.parts)
	for i := len(r.Writes) - 1; i >= 0; i-- {
		r.Writes[i].Parts = b.parts[b.first[i]:end:end]
		end = b.first[i]
	}
	*b = builder{plan: b.plan, domain: b.domain, pieces: b.pieces[:0], first: b.first[:0]}
	// The next round is about as long as this one.
	b.round.Gathers = make([]Gather, 0, len(r.Gathers))
	b.round.Writes = make([]Write, 0, len(r.Writes))
	b.parts = make([]Part, 0, end)
	return r
}

// stripes makes rounds of whole stripes, as many as fit in the buffer: an OST sees partial ones
// only where the file has holes.
func (b *builder) stripes(yield func(Round) bool) bool {
	s := &b.plan.Settings
	var stripe []span
	hint := 0
	for lo, hi := range b.domain.ranges(s) {
		for lo < hi {
			end := min(hi, lo-lo%s.StripeSize+s.StripeSize)
			stripe = stripe[:0]
			var bytes int64
			for sp := range b.plan.spans(0, lo, end, &hint) {
				stripe = append(stripe, sp)
				bytes += sp.bytes
			}
			if b.moved+bytes > s.Buffer && !yield(b.take()) {
				return false
			}
			for _, sp := range stripe {
				b.add(sp)
			}
			lo = end
		}
	}
	return true
}

// bytes makes rounds of as many bytes as fit in the buffer.
func (b *builder) bytes(yield func(Round) bool) bool {
	s := &b.plan.Settings
	hint := 0
	for lo, hi := range b.domain.ranges(s) {
		for sp := range b.plan.spans(b.domain.file, lo, hi, &hint) {
			for sp.bytes > 0 {
				if b.moved == s.Buffer && !yield(b.take()) {
					return false
				}
				n := min(sp.bytes, s.Buffer-b.moved)
				if s.Strategy == Individual {
					left := b.left(b.plan.pieces[sp.piece].at + sp.offset)
					if left == 0 {
						left = WriteBytes
					}
					n = min(n, left)
				}
				b.add(span{sp.piece, sp.offset, n})
				sp.offset += n
				sp.bytes -= n
			}
		}
	}
	return true
}

// shares makes rounds to which every member contributes its share of the buffer, until it has
// no more. The share is fixed once, as in OMPIO (fcoll component static), among the ranks with
// bytes; what members that are done leave stays unused.
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

// members returns what lies in the domain, rank by rank, in order.
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

// checkShares checks that buffers are large enough for all members of each writer.
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
