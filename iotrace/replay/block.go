package replay

import (
	"cmp"
	"slices"
)

// A block is a part of a shared file that several ranks fill with rows that have the
// same step from rank to rank and whose lowest requests begin less than a step apart.
// The pieces of a header that all ranks write in turn are a block each. If each rank
// has a part of the file, the requests are one block.
//
// For more ranks a block becomes wider by a step for each, and everything behind it
// moves: piece k of rank r of R is then at (k·R + r)·size for any R.
// moves on: piece k of rank r of R is then at (k·R + r)·size for any R.
type block struct {
	low, step int64
	from, to  int
	end       int64 // of all of its requests
	// crosses: the block overlaps another. Then neither shows a rule; any two points
	// lie on a line.
	crosses bool
	// stays: nothing behind the block moves, because it would meet requests without a
	// rule.
	stays bool
}

type span struct{ low, end int64 }

// maxWidth bounds blocks, so that sums of two do not overflow.
const maxWidth = 1<<62 - 1

// join groups rows into blocks, and sets the block of each row.
func join(rows []row) []*block {
	order := make([]*row, 0, len(rows))
	for i := range rows {
		if rows[i].step > 0 {
			order = append(order, &rows[i])
		}
	}
	slices.SortFunc(order, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.low, b.low))
	})
	var blocks []*block
	for i, r := range order {
		if i > 0 {
			if b := order[i-1].block; b.step == r.step && b.from == r.from && b.to == r.to && r.low < b.low+b.step {
				r.block = b
			}
		}
		if r.block == nil {
			r.block = &block{low: r.low, step: r.step, from: r.from, to: r.to, end: min(r.low, maxWidth) + r.step*int64(r.from)}
			blocks = append(blocks, r.block)
		}
		r.block.end = max(r.block.end, r.low+r.step*int64(r.from-1)+r.bytes)
	}
	slices.SortFunc(blocks, func(a, b *block) int { return cmp.Compare(a.low, b.low) })
	var widest *block // the earlier block that ends last
	for _, b := range blocks {
		if widest != nil && b.low < widest.end {
			b.crosses, widest.crosses = true, true
		}
		if widest == nil || b.end > widest.end {
			widest = b
		}
	}
	return blocks
}

// pin keeps the blocks in place that contain requests without a rule.
func pin(blocks []*block, loose []span) {
	slices.SortFunc(loose, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	k := 0
	var end int64 // of the requests that begin before the end of the block
	for _, b := range blocks {
		if b.crosses {
			continue
		}
		for k < len(loose) && loose[k].low < b.end {
			end = max(end, loose[k].end)
			k++
		}
		b.stays = end > b.low
	}
}

// A move shifts everything from offset at on.
type move struct{ at, by int64 }

func movesOf(blocks []*block) []move {
	var out []move
	var sum int64
	for _, b := range blocks { // blocks that do not cross are disjoint
		if !b.crosses && !b.stays {
			sum = min(sum+b.step*int64(b.to-b.from), maxWidth)
			out = append(out, move{b.end, sum})
		}
	}
	return out
}

// shift returns the distance by which offset off moves.
func shift(moves []move, off int64) int64 {
	n, _ := slices.BinarySearchFunc(moves, off, func(m move, off int64) int {
		if m.at <= off {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	return moves[n-1].by
}
