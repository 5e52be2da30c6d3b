package container

import (
	"context"
	"slices"

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
		if !isOf(rec.rank, rank) || !wanted[rec.zone] {
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
