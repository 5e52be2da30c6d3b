package image

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"ckpt/zones"
)

// Load reads the container file path, one of m.Files, into the regions, which
// must be the same that were written: names, zones, element types and sizes.
// Everything in the file is checked on the way; what the regions hold after an
// error is undefined.
//
// It fails with a DamageError, ErrOtherJob, ErrRegionsDiffer, ErrUnsupported or
// ErrNewerVersion.
func (j *Job) Load(ctx context.Context, m *Manifest, path string, into []zones.Region) error {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == path })
	if i < 0 {
		return opError("load", path, -1, fmt.Errorf("checkpoint %d has no such file", m.Number))
	}
	c, err := j.openFile(m, m.Files[i])
	if err != nil {
		return err
	}
	defer c.Close()
	mem, err := c.match(into)
	if err != nil {
		return err
	}
	r := &reader{depth: defaultDepth, dest: func(e extentRec) []byte {
		return mem[e.region][e.offset : e.offset+e.rawLen]
	}}
	return j.readAll(ctx, c, r)
}

// readAll reads the payload of c and the extents of other files it refers to.
func (j *Job) readAll(ctx context.Context, c *container, r *reader) error {
	if err := r.read(ctx, c.f, c.path, c.index.own()); err != nil {
		return err
	}
	if r.dest != nil {
		for _, e := range c.index.extents {
			if e.codec == codecZero {
				clear(r.dest(e))
			}
		}
	}
	for k, ref := range c.index.files {
		if err := j.readRef(ctx, c, ref, uint32(k+1), r); err != nil {
			return err
		}
	}
	return nil
}

// readRef reads the extents of c that are stored in the file ref.
func (j *Job) readRef(ctx context.Context, c *container, ref fileRec, k uint32, r *reader) error {
	x, err := j.openRef(c, ref)
	if err != nil {
		return r.damage(err)
	}
	defer x.Close()
	var extents []extentRec
	for _, e := range c.index.extents {
		if e.fileRef != k {
			continue
		}
		if e.fileOff > x.trailer.indexOffset || e.storedLen > x.trailer.indexOffset-e.fileOff {
			return r.damage(damaged(c.path, c.trailer.indexOffset, "extent ends outside the payload of %s", x.path))
		}
		extents = append(extents, e)
	}
	slices.SortStableFunc(extents, func(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) })
	return r.read(ctx, x.f, x.path, extents)
}

// match finds the memory for each region of the index.
func (c *container) match(into []zones.Region) ([][]byte, error) {
	byName := make(map[string]zones.Region, len(into))
	for _, r := range into {
		if err := checkRegion(r); err != nil {
			return nil, opError("load", c.path, -1, err)
		}
		if _, ok := byName[r.Name]; ok {
			return nil, errDiffer(c.path, "region %q is given twice", r.Name)
		}
		byName[r.Name] = r
	}
	mem := make([][]byte, len(c.index.regions))
	for i, rec := range c.index.regions {
		r, ok := byName[rec.name]
		switch {
		case int(rec.rank) != c.header.Rank:
			return nil, errDiffer(c.path, "the image holds rank %d as well as rank %d", rec.rank, c.header.Rank)
		case !ok:
			return nil, errDiffer(c.path, "there is no region %q", rec.name)
		case r.Zone != rec.zone || r.Elem != rec.elem || r.Size != rec.size:
			return nil, errDiffer(c.path, "region %q is %d bytes of %v in zone %v, was %d of %v in %v",
				rec.name, r.Size, r.Elem, r.Zone, rec.size, rec.elem, rec.zone)
		}
		mem[i] = r.Mem
	}
	if len(into) != len(mem) {
		return nil, errDiffer(c.path, "it holds %d regions, the process %d", len(mem), len(into))
	}
	return mem, nil
}
