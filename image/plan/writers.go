package plan

import (
	"cmp"
	"slices"
)

// OSTWriters counts the ranks that write to each OST.
type OSTWriters struct {
	// Each has, for each OST, the number of ranks that write stripes with data there.
	Each []int64
	// Most is the largest of Each. File is the largest number of ranks that write
	// into one file on one OST: on Lustre these wait for each other's locks
	// (Larrosa, section 1.2.4).
	Most, File int64
}

// OSTWriters counts the writers of each OST. It goes through the pieces and the
// writers, not the stripes, of which there may be millions.
func (p *Plan) OSTWriters() OSTWriters {
	order := make([]int, len(p.domains)) // writers by file
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.domains[a].file, p.domains[b].file) })
	osts := p.Settings.StripeCount
	c := ostCounter{plan: p, file: -1, touched: make([]bool, osts), into: make([]int64, osts), all: make([]int64, osts)}
	for _, i := range order {
		c.add(&p.domains[i])
	}
	c.endFile()
	w := OSTWriters{Each: c.all, File: c.most}
	for ost := range w.Each {
		w.Each[ost] += c.everywhere
		w.Most = max(w.Most, w.Each[ost])
	}
	return w
}

// ostCounter goes through domains file by file, those of a file in order.
type ostCounter struct {
	plan *Plan
	hint int // into plan.pieces

	file    int    // of the last domain,
	lo, hi  int64  // and its stretch of it
	touched []bool // OSTs on which that stretch has data
	n       int    // how many these are

	into, all  []int64 // writers on each OST: of the file, of all files,
	intoAll    int64   // and those of the file that write to every OST
	everywhere int64   // the same of all files
	most       int64   // of one file on one OST
}

// add counts the OSTs to which the owner of d writes.
func (c *ostCounter) add(d *domain) {
	if d.file != c.file {
		c.endFile()
		c.file, c.lo, c.hi = d.file, -1, -1
	}
	if d.lo != c.lo || d.hi != c.hi {
		c.lo, c.hi = d.lo, d.hi
		c.touch()
	}
	osts := len(c.touched)
	if c.n == osts && (d.width == 0 || d.width == osts) {
		c.intoAll++
		return
	}
	from, to := 0, osts
	if d.width > 0 {
		from, to = d.ost, d.ost+d.width
	}
	for ost := from; ost < to; ost++ {
		if c.touched[ost] {
			c.into[ost]++
		}
	}
}

// touch finds the OSTs on which the stretch has data.
func (c *ostCounter) touch() {
	clear(c.touched)
	c.n = 0
	s, osts := &c.plan.Settings, int64(len(c.touched))
	for sp := range c.plan.spans(c.file, c.lo, c.hi, &c.hint) {
		at := c.plan.pieces[sp.piece].at + sp.offset
		first, last := at/s.StripeSize, (at+sp.bytes-1)/s.StripeSize
		for stripe := first; stripe <= min(last, first+osts-1); stripe++ {
			ost := (int64(s.FirstOST) + int64(c.file) + stripe) % osts
			if !c.touched[ost] {
				c.touched[ost] = true
				c.n++
			}
		}
		if c.n == len(c.touched) {
			return
		}
	}
}

// endFile adds the counts of the file to those of all.
func (c *ostCounter) endFile() {
	for ost, n := range c.into {
		c.most = max(c.most, n+c.intoAll)
		c.all[ost] += n
	}
	clear(c.into)
	c.everywhere += c.intoAll
	c.intoAll = 0
}
