package process

import (
	"context"
	"fmt"

	"ckpt/zones"
)

// A shadow is the agent's copy of a region, in memory that the client can write too.
type shadow struct {
	window *window
	region region
	filled bool   // it holds the region as of a Capture,
	since  bitset // and these pages were written since; nil: not known
}

// shadows are what one Capture fills.
type shadows struct {
	shadows map[string]*shadow
	small   *window // of all small regions
	busy    bool    // it is being written, or waits for that
	copier  *copier // a child that still fills them, or nil
	used    int     // number of its last Capture
}

// freeSet returns the shadows that were filled last and are not in use: the fewest pages differ.
func (m *memory) freeSet() *shadows {
	var set *shadows
	last := 0
	for _, s := range m.sets {
		last = max(last, s.used)
		if !s.busy && (set == nil || s.used > set.used) {
			set = s
		}
	}
	if set == nil {
		set = &shadows{shadows: map[string]*shadow{}}
		m.sets = append(m.sets, set)
	}
	set.used = last + 1
	return set
}

// A filling is what a Capture copies of a region.
type filling struct {
	shadow *shadow
	region region
	ranges []copyRange
}

func (p *Process) copyRegions(ctx context.Context, set *shadows, list []region) ([]zones.Region, error) {
	p.dropShadows(set, list)
	regions := make([]zones.Region, len(list))
	var small []int
	var left []filling // for a child
	for i, r := range list {
		regions[i] = r.zone()
		regions[i].Mem = []byte{}
		if r.small() {
			if r.size > 0 {
				small = append(small, i)
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := p.shadowOf(set, r)
		if err != nil {
			return nil, fmt.Errorf("capture region %q: %w", r.name, err)
		}
		left = append(left, p.stale(s, r))
		regions[i].Mem = s.window.mem[:zones.PageRound(r.size)]
	}
	if err := p.copySmall(set, list, small, regions); err != nil {
		return nil, err
	}
	for _, f := range p.fork(set, left) { // last: the child takes a processor
		if err := p.fill(f); err != nil {
			return nil, fmt.Errorf("capture region %q: %w", f.region.name, err)
		}
	}
	return regions, nil
}

// copySmall copies the small regions into one window, many with one call of the kernel: an order
// and its answer for each would take most of the pause.
func (p *Process) copySmall(set *shadows, list []region, small []int, regions []zones.Region) error {
	w, err := p.smallWindow(set, list)
	if err != nil || w == nil {
		return err
	}
	at := int64(0)
	ranges := make([]copyRange, len(small))
	for k, i := range small {
		r := &list[i]
		end := at + zones.PageRound(r.size)
		regions[i].Mem = w.mem[at:end:end]
		clear(regions[i].Mem[r.size:])
		ranges[k] = copyRange{r.address, uint64(at), uint64(r.size)}
		at = end
	}
	if !p.memory.refused {
		err := p.direct(kindOut, &region{name: "(small)"}, w.mem, ranges)
		if err == nil {
			return nil
		}
		p.refusedRead(err)
	}
	for k, i := range small { // which also finds the region that is not there
		if err := p.copyAll(kindOut, w, &list[i], ranges[k:k+1]); err != nil {
			return err
		}
	}
	return nil
}

// smallWindow returns the window for the small regions of a list, or nil.
func (p *Process) smallWindow(set *shadows, list []region) (*window, error) {
	size := int64(0)
	for _, r := range list {
		if r.small() {
			size += zones.PageRound(r.size)
		}
	}
	w := set.small
	if size == 0 || w != nil && int64(len(w.mem)) >= size {
		return w, nil
	}
	if w != nil {
		p.dropWindow(w)
		set.small, size = nil, 2*size
	}
	w, err := p.newWindow(size)
	set.small = w
	return w, err
}

// Prepare makes the memory that n Captures at a time will need, so that the first pauses are no
// longer than the others. The program waits for it, best in its call of Restore.
func (p *Process) Prepare(ctx context.Context, n int) error {
	p.orders.Lock()
	defer p.orders.Unlock()
	p.memory.areas = nil
	for len(p.memory.sets) < n {
		p.memory.sets = append(p.memory.sets, &shadows{shadows: map[string]*shadow{}})
	}
	for _, set := range p.memory.sets {
		if err := p.prepareSet(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

func (p *Process) prepareSet(ctx context.Context, set *shadows) error {
	list := p.protected()
	p.dropShadows(set, list)
	for _, r := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.small() {
			continue
		}
		if _, err := p.shadowOf(set, r); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	_, err := p.smallWindow(set, list)
	return err
}

func (p *Process) dropShadows(set *shadows, list []region) {
	sizes := map[string]int64{}
	for _, r := range list {
		sizes[r.name] = r.size
	}
	for name, s := range set.shadows {
		if size, ok := sizes[name]; !ok || size != s.region.size {
			p.dropWindow(s.window)
			delete(set.shadows, name)
		}
	}
}

func (p *Process) shadowOf(set *shadows, r region) (*shadow, error) {
	if s := set.shadows[r.name]; s != nil {
		return s, nil
	}
	if err := p.checkMapped(r); err != nil {
		return nil, err
	}
	w, err := p.newWindow(zones.PageRound(r.size))
	if err != nil {
		return nil, err
	}
	s := &shadow{window: w, region: r}
	set.shadows[r.name] = s
	return s, nil
}

// stale returns what changed since the shadow was filled last, and begins to count what changes
// from now on.
func (p *Process) stale(s *shadow, r region) filling {
	t := p.memory.tracks.tracked[r.name]
	f := filling{s, r, []copyRange{{r.address, 0, uint64(r.size)}}}
	if s.filled && s.since != nil && t != nil && t.known {
		f.ranges = t.changed(s.since)
	}
	s.region, s.filled = r, false // until all is copied
	if s.since = nil; t != nil && t.known && t.on {
		s.since = newBitset(t.pages())
	}
	return f
}

func (p *Process) fill(f filling) error {
	if err := p.copyRanges(f.shadow.window, f.region, f.ranges); err != nil {
		return err
	}
	f.shadow.filled = true
	return nil
}

func (t *track) changed(since bitset) (ranges []copyRange) {
	start, end := t.address, t.address+uint64(t.size)
	add := func(from, to uint64) {
		if from < to {
			ranges = append(ranges, copyRange{from, from - start, to - from})
		}
	}
	add(start, t.first) // a page that another region touches too
	since.runs(t.pages(), func(from, to int) {
		add(max(start, t.first+uint64(from)*zones.PageSize), min(end, t.first+uint64(to)*zones.PageSize))
	})
	add(t.end, end)
	return ranges
}

// orderBytes is how much an order to fill a shadow copies, so that the time of the order and its
// answer does not count.
const orderBytes = 64 << 20

// copyRanges copies parts of a region into its shadow, some at a time, by the faster way.
func (p *Process) copyRanges(to *window, r region, ranges []copyRange) error {
	choice := p.memory.choice(&r)
	for len(ranges) > 0 {
		chosen, limit := p.next(choice, orderBytes)
		var part []copyRange
		part, ranges = firstBytes(ranges, uint64(limit))
		bytes := int64(0)
		for _, c := range part {
			bytes += int64(c.bytes)
		}
		err := p.move(choice, chosen, bytes, func(w way) error {
			if w == byKernel {
				return p.direct(kindOut, &r, to.mem, part)
			}
			return p.copyAll(kindOut, to, &r, part)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// firstBytes divides a list of ranges, which it may change, after a number of bytes, or after as
// many ranges as an order holds.
func firstBytes(ranges []copyRange, limit uint64) (first, rest []copyRange) {
	for len(ranges) > 0 && limit > 0 && len(first) < maxRanges {
		r := ranges[0]
		n := min(r.bytes, limit)
		first = append(first, copyRange{r.address, r.offset, n})
		limit -= n
		if n == r.bytes {
			ranges = ranges[1:]
			continue
		}
		ranges[0] = copyRange{r.address + n, r.offset + n, r.bytes - n}
	}
	return first, ranges
}
