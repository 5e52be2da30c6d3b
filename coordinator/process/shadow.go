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
	var ranges []copyRange
	if known {
		ranges = t.changed()
	} else {
		ranges = pieces(nil, r.address, 0, uint64(r.size))
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
	if t.first > start { // a page that another region touches too
		ranges = pieces(ranges, start, 0, t.first-start)
	}
	t.sinceShadow.runs(t.pages(), func(from, to int) {
		a := max(start, t.first+uint64(from)*zones.PageSize)
		b := min(end, t.first+uint64(to)*zones.PageSize)
		ranges = pieces(ranges, a, a-start, b-a)
	})
	if t.end < end {
		ranges = pieces(ranges, t.end, t.end-start, end-t.end)
	}
	return ranges
}

// pieces adds a range, cut into parts no longer than a window: the unit of measurement.
func pieces(ranges []copyRange, address, offset, bytes uint64) []copyRange {
	for bytes > 0 {
		n := min(bytes, windowBytes)
		ranges = append(ranges, copyRange{address, offset, n})
		address, offset, bytes = address+n, offset+n, bytes-n
	}
	return ranges
}

// copyRanges copies parts of a region into its shadow, some at a time, by the faster way.
func (p *Process) copyRanges(w *window, r region, ranges []copyRange) error {
	choice := p.memory.choice(&r)
	for len(ranges) > 0 {
		n, bytes := 0, uint64(0)
		for n < len(ranges) && n < maxRanges && bytes < windowBytes {
			bytes += ranges[n].bytes
			n++
		}
		err := p.choose(choice, int64(bytes), func(way way) error {
			if way == byKernel {
				return p.direct(kindOut, &r, w.mem, ranges[:n])
			}
			return p.copyAll(kindOut, w, &r, ranges[:n])
		})
		if err != nil {
			return err
		}
		ranges = ranges[n:]
	}
	return nil
}
