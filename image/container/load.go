package container

import (
	"context"
	"slices"

	"golang.org/x/sync/semaphore"

	"ckpt/internal/durable"
	"ckpt/zones"
)

// Load reads the regions of a rank out of a file into the regions that were written, by names,
// zones, element types and sizes; with opt.Some, into some of them. It leaves out zones that
// into lacks. Everything that is read is checked; after an error the contents of the regions
// are undefined.
//
// It fails with a durable.DamageError, durable.ErrOtherJob, ErrRegionsDiffer, ErrUnsupported or
// durable.ErrNewerVersion.
func (p Place) Load(ctx context.Context, f File, rank int, into []zones.Region, opt LoadOptions) error {
	o, err := p.Open(f)
	if err != nil {
		return err
	}
	defer o.Close()
	mem, err := o.c.match(rank, into, opt.Some)
	if err != nil {
		return err
	}
	var wanted []extentRec
	for _, e := range o.c.index.extents {
		if mem[e.region] != nil && (!opt.Check || e.codec != codecZero) {
			wanted = append(wanted, e)
		}
	}
	r := &reader{depth: defaultDepth, progress: opt.Progress}
	if !opt.Check {
		r.dest = func(e extentRec) []byte { return mem[e.region][e.offset : e.offset+e.rawLen] }
		r.handsOver(opt.Loaded)
	}
	return o.read(ctx, wanted, r)
}

// match finds the memory for each region of the index, nil for those not wanted. With some, the
// rank may have more regions than into.
func (c *container) match(rank int, into []zones.Region, some bool) ([][]byte, error) {
	byName := make(map[string]zones.Region, len(into))
	wanted := make(map[zones.Zone]bool)
	for _, r := range into {
		if err := checkRegion(r, zones.PageRound(r.Size)); err != nil {
			return nil, durable.Op("load", c.path, -1, err)
		}
		if _, ok := byName[r.Name]; ok {
			return nil, errDiffer(c.path, "region %q is given twice", r.Name)
		}
		byName[r.Name] = r
		wanted[r.Zone] = true
	}
	mem := make([][]byte, len(c.index.regions))
	found := 0
	for i, rec := range c.index.regions {
		if !rec.of(rank) || !wanted[rec.zone] {
			continue
		}
		r, ok := byName[rec.name]
		switch {
		case !ok && some:
			continue
		case !ok:
			return nil, errDiffer(c.path, "there is no region %q", rec.name)
		case r.Zone != rec.zone || r.Elem != rec.elem || r.Size != rec.size:
			return nil, errDiffer(c.path, "region %q is %d bytes of %v in zone %v, was %d of %v in %v",
				rec.name, r.Size, r.Elem, r.Zone, rec.size, rec.elem, rec.zone)
		}
		mem[i] = slices.Clip(r.Mem)
		found++
	}
	if len(into) != found {
		return nil, errDiffer(c.path, "it holds %d regions of rank %d, the process %d", found, rank, len(into))
	}
	return mem, nil
}

// of reports whether a region is the rank's, or everybody's, like the segment of a node and the
// library.
func (r *regionRec) of(rank int) bool { return r.rank == -1 || int(r.rank) == rank }

// fillBytes is the most memory that a load writes to before it hands it over: the longest
// extent at least.
const fillBytes = maxExtent

// handsOver makes the reader hand over the memory that it has filled.
func (r *reader) handsOver(loaded func(mem []byte) error) {
	if loaded != nil {
		r.loaded, r.filling = loaded, semaphore.NewWeighted(fillBytes)
	}
}

// adjoining returns how many extents, from the first on, are handed over at once, and their
// memory: those that follow each other in memory, up to a staging buffer; without a hook all.
func (r *reader) adjoining(extents []extentRec) (n int, mem []byte) {
	if r.loaded == nil {
		return len(extents), nil
	}
	mem = r.dest(extents[0])
	for n = 1; n < len(extents); n++ {
		next := r.dest(extents[n])
		if !continues(mem, next) || len(mem)+len(next) > stageBytes {
			break
		}
		mem = mem[:len(mem)+len(next)]
	}
	return n, mem
}

// fill fills memory and hands it over.
func (r *reader) fill(ctx context.Context, path string, mem []byte, fill func() error) error {
	if r.loaded == nil {
		return fill()
	}
	n := int64(len(mem))
	if err := r.filling.Acquire(ctx, n); err != nil {
		return durable.Op("read", path, -1, err)
	}
	defer r.filling.Release(n)
	if err := fill(); err != nil {
		return err
	}
	return durable.Op("hand over memory of", path, -1, r.loaded(mem))
}

// zero fills memory that holds zeros.
func (r *reader) zero(ctx context.Context, path string, mem []byte) error {
	for len(mem) > 0 {
		part := mem[:min(len(mem), stageBytes)]
		err := r.fill(ctx, path, part, func() error {
			clear(part)
			return nil
		})
		if err != nil {
			return err
		}
		mem = mem[len(part):]
	}
	return nil
}
