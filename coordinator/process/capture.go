package process

import (
	"context"
	"slices"

	"ckpt/zones"
)

// A Capture is the memory of a process at the time of a call.
type Capture struct {
	Regions []zones.Region

	clean   map[string]cleanPages
	base    int64
	hasBase bool
}

// cleanPages are the pages of a region that changed since the base.
type cleanPages struct {
	region
	first, end uint64
	dirty      bitset
}

// Base returns the checkpoint that Clean compares with: the one that was committed last.
func (c *Capture) Base() (number int64, ok bool) { return c.base, c.hasBase }

// Clean reports whether n bytes at an offset of a region are known to be as they were in
// the checkpoint that Base names. It may be called from any goroutine, at any later time.
func (c *Capture) Clean(name string, offset, n int64) bool {
	pages, ok := c.clean[name]
	if !c.hasBase || !ok || offset < 0 || offset > pages.size {
		return false
	}
	n = min(n, pages.size-offset) // the rest of the last page is zero in all checkpoints
	if n <= 0 {
		return n == 0
	}
	start := pages.address + uint64(offset)
	end := start + uint64(n)
	if start < pages.first || end > pages.end {
		return false
	}
	from, to := (start-pages.first)/zones.PageSize, (end-pages.first+zones.PageSize-1)/zones.PageSize
	return !pages.dirty.anyIn(int(from), int(to))
}

// base is the checkpoint that was committed last.
type base struct {
	number  int64
	known   bool
	pending bool // a View or Capture is neither committed nor aborted
}

// View returns the regions like [Process.Regions], for a checkpoint that is written while
// the process waits. Its Clean knows the pages that were not written.
func (p *Process) View(ctx context.Context) (Capture, error) {
	p.orders.Lock()
	defer p.orders.Unlock()
	list := p.protected()
	regions, err := p.memory.reserve(list)
	if err != nil {
		return Capture{}, err
	}
	if err := p.begin(ctx, list); err != nil {
		return Capture{}, err
	}
	return p.taken(regions, list), nil
}

// Capture copies the regions into memory of the agent, so that they can be written behind
// the computation. It copies the pages that changed since the last Capture. The regions
// are valid until the next Capture or Close.
func (p *Process) Capture(ctx context.Context) (Capture, error) {
	p.orders.Lock()
	defer p.orders.Unlock()
	list := p.protected()
	if err := p.begin(ctx, list); err != nil {
		return Capture{}, err
	}
	regions, err := p.copyRegions(ctx, list)
	if err != nil {
		return Capture{}, err
	}
	return p.taken(regions, list), nil
}

// begin finds the pages that were written since the last View or Capture. Memory that is gone
// has none, and would count as memory that did not change.
func (p *Process) begin(ctx context.Context, list []region) error {
	p.memory.base.pending, p.memory.areas = false, nil
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.checkWaiting(); err != nil {
		return err
	}
	for _, r := range list {
		if err := p.checkMapped(r); err != nil {
			return err
		}
	}
	return p.update(list)
}

// taken returns a capture, which keeps its own list of clean pages.
func (p *Process) taken(regions []zones.Region, list []region) Capture {
	b := &p.memory.base
	b.pending = true
	c := Capture{Regions: regions, base: b.number, hasBase: b.known, clean: map[string]cleanPages{}}
	for _, r := range list {
		if t := p.memory.tracks.tracked[r.name]; t != nil && t.known {
			c.clean[r.name] = cleanPages{r, t.first, t.end, slices.Clone(t.sinceBase)}
		}
	}
	return c
}

// Committed says that the last View or Capture is now checkpoint number: later ones
// compare with it.
func (p *Process) Committed(number int64) {
	p.orders.Lock()
	defer p.orders.Unlock()
	b := &p.memory.base
	if !b.pending {
		return // a View or Capture came in between: its pages are still compared with the old base
	}
	*b = base{number: number, known: true}
	for _, t := range p.memory.tracks.tracked {
		if t.known {
			clear(t.sinceBase)
		}
	}
}

// Aborted says that the last View or Capture is no checkpoint: its changed pages stay
// changed, compared with the checkpoint before.
func (p *Process) Aborted() {
	p.orders.Lock()
	defer p.orders.Unlock()
	p.memory.base.pending = false
}
