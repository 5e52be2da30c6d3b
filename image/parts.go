package image

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
	"ckpt/zones/global"
)

// A GlobalPart is what a rank holds of an array of all ranks, in a region of its own.
type GlobalPart struct {
	Region string `json:"region"`
	global.Part
}

// slabBytes is how much of an array a rank reads before it hands it over.
const slabBytes = 4 << 20

// openFiles is how many files a PartReader keeps open.
const openFiles = 16

// A PartReader reads regions of a checkpoint for a rank that did not write them: of another
// number of ranks, or with other parts of the same arrays. It holds a few MiB, in one
// goroutine.
type PartReader struct {
	job    *Job
	m      *Manifest
	rank   int // that reads
	opt    container.LoadOptions
	blocks func(region string) ([]global.Held, error)
	cells  func(region string) ([]int64, error)
	open   []openFile // the one used last at the end
	most   int        // of them
	region *container.RegionReader
	// readers, unless nil, are those of regions read before.
	readers map[place]*container.RegionReader
	at      place
}

// A place is a region of a rank.
type place struct {
	rank int
	name string
}

type openFile struct {
	path string
	*container.Contents
}

// Parts returns a reader of a checkpoint for a rank.
func (j *Job) Parts(m *Manifest, rank int, opt container.LoadOptions) *PartReader {
	return &PartReader{job: j, m: m, rank: rank, opt: opt, at: place{rank: -1}, most: openFiles}
}

// WithBlocks tells the reader where the ranks of the checkpoint hold an array in blocks.
func (p *PartReader) WithBlocks(of func(region string) ([]global.Held, error)) *PartReader {
	p.blocks = of
	return p
}

// WithCells tells the reader which cells the rank wants of an array that lists give.
func (p *PartReader) WithCells(of func(region string) ([]int64, error)) *PartReader {
	p.cells = of
	return p
}

// Close closes all files.
func (p *PartReader) Close() {
	for _, o := range p.open {
		o.Close()
	}
	p.open = nil
}

// Load fills a region: a part of a global array from the ranks that held its cells, a
// replicated region from the first rank, any other from the rank itself. It fails as
// container.Place.Load does.
func (p *PartReader) Load(ctx context.Context, into zones.Region) error {
	if into.Blocks != nil {
		return p.loadBlocks(ctx, into)
	}
	if into.Part == nil {
		return p.whole(ctx, into)
	}
	held, err := p.held(into)
	if err != nil {
		return err
	}
	if into.Part.Index != nil {
		return p.listed(ctx, into, held)
	}
	if into.Part.Padded() && p.opt.Current != nil {
		if err := p.opt.Current(into.Mem[:into.Size]); err != nil {
			return err
		}
	}
	handed := int64(0)
	for _, slab := range into.Part.Slabs(slabBytes) {
		mem := into.Mem[slab.Offset : slab.Offset+slab.Bytes]
		got := int64(0)
		for _, h := range held {
			list := into.Part.From(h.Rank, h.Part, slab)
			for _, t := range list {
				got += t.Bytes()
			}
			if err := p.transfers(ctx, h, into, list, mem); err != nil {
				return err
			}
		}
		if got < into.Part.Holds(slab) && p.edgesDiffer(into, held) {
			return p.differ("array %q had a smaller halo beyond an edge", into.Part.Name(into.Name))
		}
		if got != into.Part.Holds(slab) {
			return durable.Damaged(p.job.manifestPath(p.m.Number), 0, "%d of %d bytes of array %q are in no rank's part", into.Part.Holds(slab)-got, slab.Bytes, into.Name)
		}
		// Whole pages, so that the memory can be given back.
		ready := slab.Offset + slab.Bytes
		if ready < into.Size {
			ready &^= zones.PageSize - 1
		}
		if err := p.loaded(into.Mem[handed:ready]); err != nil {
			return err
		}
		handed = ready
	}
	return nil
}

// loadBlocks fills the blocks of a region. The rest of it stays as it is.
func (p *PartReader) loadBlocks(ctx context.Context, into zones.Region) error {
	held, err := p.blocks(into.Name)
	if err != nil {
		return err
	}
	mem := into.Mem[:into.Size]
	for _, h := range held {
		for _, block := range into.Blocks {
			for _, slab := range block.Slabs(slabBytes) {
				if err := p.transfers(ctx, h, into, block.From(h.Rank, h.Part, slab), mem); err != nil {
					return err
				}
			}
		}
	}
	return p.loaded(mem)
}

// edgesDiffer reports whether ranks of the checkpoint have other halos than the part.
func (p *PartReader) edgesDiffer(into zones.Region, held []global.Held) bool {
	return slices.ContainsFunc(held, func(h global.Held) bool {
		return slices.ContainsFunc(h.Part.Axes, func(s global.Stretch) bool {
			return slices.ContainsFunc(into.Part.Axes, func(t global.Stretch) bool { return s.Lower != t.Lower || s.Upper != t.Upper })
		})
	})
}

// held returns the parts of an array, which fit the one to read.
func (p *PartReader) held(into zones.Region) ([]global.Held, error) {
	name := into.Part.Name(into.Name)
	held := p.m.heldOf(name)
	for _, h := range held {
		if err := h.Part.Fits(into.Part); err != nil {
			return nil, p.differ("array %q is another one than that of rank %d in it: %v", name, h.Rank, err)
		}
	}
	if len(held) == 0 {
		return nil, p.differ("it has no array %q of all ranks", name)
	}
	return held, nil
}

// listed fills a region of whose cells there is a list, from ranks that have lists of theirs. All
// of the region is in memory at once.
func (p *PartReader) listed(ctx context.Context, into zones.Region, held []global.Held) error {
	cells, err := p.cells(into.Name)
	if err != nil {
		return err
	}
	want := global.Want(cells)
	for _, h := range held {
		x := h.Part.Index
		if x.Own == 0 || !want.Between(x.Low, x.High) {
			continue
		}
		if err := p.turn(place{h.Rank, global.Listed(h.Region)}, zones.Region{Zone: into.Zone, Elem: zones.Int64}, 8*x.Held); err != nil {
			return err
		}
		list := make([]byte, 8*x.Own)
		if err := p.region.Copy(ctx, &target{list}, 0, 8*x.Own, nil); err != nil {
			return err
		}
		if err := p.turn(place{h.Rank, h.Region}, into, x.Held*h.Part.Elem); err != nil {
			return err
		}
		moves, elem := want.From(global.Cells(list)), h.Part.Elem
		err := p.region.Gather(ctx, into.Mem, func(span func(src, n int64)) {
			for _, m := range moves {
				span(m.From*elem, m.N*elem)
			}
		}, func(block func(dst, src, n int64)) {
			for _, m := range moves {
				block(m.To*elem, m.From*elem, m.N*elem)
			}
		})
		if err != nil {
			return err
		}
	}
	if cell, n := want.Missing(); n > 0 {
		return p.differ("no rank has cell %d of array %q, and %d others", cell, into.Name, n-1)
	}
	return p.loaded(into.Mem[:into.Size])
}

func (p *PartReader) differ(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", p.job.manifestPath(p.m.Number), container.ErrRegionsDiffer, fmt.Sprintf(format, args...))
}

// loaded hands memory over.
func (p *PartReader) loaded(mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	if p.opt.Progress != nil {
		p.opt.Progress(int64(len(mem)))
	}
	if p.opt.Loaded == nil {
		return nil
	}
	return p.opt.Loaded(mem)
}

// whole fills a region that one rank has.
func (p *PartReader) whole(ctx context.Context, into zones.Region) error {
	from := p.rank
	if into.Replicated {
		from = p.m.Ranks[0].Rank
	}
	if err := p.turn(place{from, into.Name}, into, into.Size); err != nil {
		return err
	}
	for at := int64(0); at < into.Size; at += slabBytes {
		mem := into.Mem[at:min(at+slabBytes, into.Size)]
		if err := p.region.Copy(ctx, &target{mem}, at, at+int64(len(mem)), nil); err != nil {
			return err
		}
		if err := p.loaded(mem); err != nil {
			return err
		}
	}
	return nil
}

// anySize is of a region that has blocks and perhaps more.
const anySize = -1

// turn makes the reader one of another region, which has so many bytes.
func (p *PartReader) turn(to place, like zones.Region, size int64) error {
	if p.at == to {
		return nil
	}
	o, k, err := p.find(to)
	if err != nil {
		return err
	}
	if r := o.Regions[k]; r.Zone != like.Zone || r.Elem != like.Elem || r.Size != size && size != anySize {
		return p.differ("region %q is %d bytes of %v, was %d of %v", to.name, size, like.Elem, r.Size, r.Elem)
	}
	if p.readers != nil {
		p.region = p.reader(to, o, k)
	} else if p.region == nil {
		p.region = o.Region(k)
	} else {
		p.region.Turn(o, k)
	}
	p.at = to
	return nil
}

// reader returns a reader of its own for a region, so that going back and forth between the ranks of a
// row reads no extent twice. All of them together keep no more than one does.
func (p *PartReader) reader(at place, o *container.Contents, region int) *container.RegionReader {
	if r := p.readers[at]; r != nil {
		return r
	}
	if len(p.readers) == openFiles {
		clear(p.readers)
	}
	p.readers[at] = o.RegionKeeping(region, slabBytes*4/openFiles)
	return p.readers[at]
}

// find opens the file that has a region.
func (p *PartReader) find(at place) (o *container.Contents, region int, err error) {
	i := slices.IndexFunc(p.m.Ranks, func(r Rank) bool { return r.Rank == at.rank })
	if i < 0 {
		return nil, 0, p.differ("it has no rank %d", at.rank)
	}
	if o, err = p.file(p.m.Ranks[i].File); err != nil {
		return nil, 0, err
	}
	if region = o.Find(at.rank, at.name); region < 0 {
		return nil, 0, p.differ("there is no region %q of rank %d", at.name, at.rank)
	}
	return o, region, nil
}

// file opens a file, and closes another one if there are too many.
func (p *PartReader) file(path string) (*container.Contents, error) {
	if i := slices.IndexFunc(p.open, func(o openFile) bool { return o.path == path }); i >= 0 {
		found := p.open[i]
		p.open = append(slices.Delete(p.open, i, i+1), found)
		return found.Contents, nil
	}
	o, err := p.job.Open(p.m, path)
	if err != nil {
		return nil, err
	}
	if len(p.open) == p.most {
		p.open[0].Close()
		p.open = slices.Delete(p.open, 0, 1)
	}
	p.open = append(p.open, openFile{path, o})
	return o, nil
}

// transfers carries transfers from one rank out.
func (p *PartReader) transfers(ctx context.Context, from global.Held, into zones.Region, list []global.Transfer, mem []byte) error {
	if len(list) == 0 {
		return nil
	}
	size := from.Part.Cells() * from.Part.Elem
	if into.Blocks != nil {
		size = anySize
	}
	if err := p.turn(place{from.Rank, cmp.Or(from.Region, into.Name)}, into, size); err != nil {
		return err
	}
	return p.region.Gather(ctx, mem, func(span func(src, n int64)) {
		for _, t := range list {
			t.Spans(container.BlockSize, span)
		}
	}, func(block func(dst, src, n int64)) {
		for _, t := range list {
			t.Blocks(block)
		}
	})
}

// A target is memory that is written to from its start.
type target struct{ rest []byte }

func (t *target) Write(b []byte) (int, error) {
	n := copy(t.rest, b)
	t.rest = t.rest[n:]
	return n, nil
}

// CheckRest reads what rank r has stored in its data zone and what no other rank reads when
// another number of ranks fills these regions. It returns the first damage.
func (j *Job) CheckRest(ctx context.Context, m *Manifest, r *Rank, filled []zones.Region) error {
	if r.File == "" {
		return nil
	}
	f, err := m.file(r.File)
	if err != nil {
		return err
	}
	regions, err := j.Place().Regions(f)
	if err != nil {
		return err
	}
	o, err := j.Place().Open(f)
	if err != nil {
		return err
	}
	defer o.Close()
	for i, reg := range regions {
		read := slices.ContainsFunc(filled, func(f zones.Region) bool {
			return f.Name == reg.Name && (f.Part != nil && !f.Part.HasHalo() || f.Replicated && r.Rank == m.Ranks[0].Rank)
		})
		if reg.Rank != r.Rank || reg.Zone != zones.Data || read {
			continue
		}
		if err := o.Region(i).Copy(ctx, io.Discard, 0, reg.Size, nil); err != nil {
			return err
		}
	}
	return nil
}
