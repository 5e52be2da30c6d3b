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
	filled bool // it holds the region as of the last Capture
}

// copyRegions brings the shadows of all regions up to date.
func (p *Process) copyRegions(ctx context.Context, list []region) ([]zones.Region, error) {
	p.dropShadows(list)
	regions := make([]zones.Region, len(list))
	for i, r := range list {
		regions[i] = zones.Region{Name: r.name, Zone: zones.Data, Elem: r.elem, Size: r.size, Mem: []byte{}}
		if r.size == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := p.shadowOf(r)
		if err != nil {
			return nil, fmt.Errorf("region %q: %w", r.name, err)
		}
		if err := p.fill(s, r); err != nil {
			return nil, err
		}
		regions[i].Mem = s.window.mem[:zones.PageRound(r.size)]
	}
	return regions, nil
}

// Prepare makes the memory that Capture will need, so that the first pause is no longer
// than the others. The program waits for it, best in its call of Restore.
func (p *Process) Prepare(ctx context.Context) error {
	p.orders.Lock()
	defer p.orders.Unlock()
	p.memory.areas = nil
	list := p.protected()
	p.dropShadows(list)
	for _, r := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.size == 0 {
			continue
		}
		if _, err := p.shadowOf(r); err != nil {
			return fmt.Errorf("region %q: %w", r.name, err)
		}
	}
	return nil
}

// dropShadows gives back the shadows of regions that are gone or have another size.
func (p *Process) dropShadows(list []region) {
	sizes := map[string]int64{}
	for _, r := range list {
		sizes[r.name] = r.size
	}
	for name, s := range p.memory.shadows {
		if size, ok := sizes[name]; !ok || size != s.region.size {
			_ = p.instruct(message{kind: kindUnmap, value: s.window.id}, nil)
			s.window.close()
			delete(p.memory.shadows, name)
		}
	}
}

func (p *Process) shadowOf(r region) (*shadow, error) {
	if s := p.memory.shadows[r.name]; s != nil {
		return s, nil
	}
	if err := p.checkMapped(r); err != nil {
		return nil, err
	}
	w, err := p.newWindow(zones.PageRound(r.size))
	if err != nil {
		return nil, err
	}
	if p.memory.shadows == nil {
		p.memory.shadows = map[string]*shadow{}
	}
	s := &shadow{window: w, region: r}
	p.memory.shadows[r.name] = s
	return s, nil
}

// fill copies what changed since the shadow was filled last.
func (p *Process) fill(s *shadow, r region) error {
	t := p.memory.tracks.tracked[r.name]
	known := s.filled && t != nil && t.known
	s.region, s.filled = r, false // until all is copied
	ranges := []copyRange{{r.address, 0, uint64(r.size)}}
	if known {
		ranges = t.changed()
	}
	if err := p.copyRanges(s.window, r, ranges); err != nil {
		return err
	}
	s.filled = true
	if t != nil && t.known {
		clear(t.sinceShadow)
	}
	return nil
}

// changed returns the ranges to copy into a shadow.
func (t *track) changed() (ranges []copyRange) {
	start, end := t.address, t.address+uint64(t.size)
	add := func(from, to uint64) {
		if from < to {
			ranges = append(ranges, copyRange{from, from - start, to - from})
		}
	}
	add(start, t.first) // a page that another region touches too
	t.sinceShadow.runs(t.pages(), func(from, to int) {
		add(max(start, t.first+uint64(from)*zones.PageSize), min(end, t.first+uint64(to)*zones.PageSize))
	})
	add(t.end, end)
	return ranges
}

// orderBytes is how much an order to fill a shadow copies. The time of an order and its
// answer must not count beside it.
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

// firstBytes divides a list of ranges, which it may change, after a number of bytes, or as many ranges as an order holds.
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
