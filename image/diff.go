package image

import (
	"bytes"
	"context"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// Change counts bytes by what became of them between two checkpoints, page by page: a page has
// changed if one byte has.
type Change struct {
	Unchanged int64 `json:"unchanged_bytes"`
	Changed   int64 `json:"changed_bytes"`
	New       int64 `json:"new_bytes"`
	Gone      int64 `json:"gone_bytes"`
}

// Plus returns the sum of c and d.
func (c Change) Plus(d Change) Change {
	return Change{c.Unchanged + d.Unchanged, c.Changed + d.Changed, c.New + d.New, c.Gone + d.Gone}
}

// Share returns the part of the bytes in both checkpoints that changed, 0 to 1.
func (c Change) Share() float64 {
	if c.Changed == 0 {
		return 0
	}
	return float64(c.Changed) / float64(c.Changed+c.Unchanged)
}

// A RegionChange says what became of a region. Memory of several ranks, like a segment, has
// rank -1 and is named by its file.
type RegionChange struct {
	Rank   int        `json:"rank"`
	File   string     `json:"file"`
	Region string     `json:"region"`
	Zone   zones.Zone `json:"zone"`
	Change
}

// A Side is one of the checkpoints that Diff compares.
type Side struct {
	Job      *Job
	Manifest *Manifest
}

// LayoutRegion names the region of an imported image that holds the headers of its file.
const LayoutRegion = "layout"

// Diff compares checkpoint b with checkpoint a, region by region: regions of one name and rank
// belong together, wherever they are stored. Extents that both take from one place are not
// read. Progress, if not nil, is told the bytes compared since its last call, one call at a
// time. Diff fails with a durable.DamageError, or as Open does.
func Diff(ctx context.Context, a, b Side, progress func(int64)) ([]RegionChange, error) {
	left, err := a.regions()
	if err != nil {
		return nil, err
	}
	right, err := b.regions()
	if err != nil {
		return nil, err
	}
	// Regions whose two places are in the same two files are compared together.
	type pair struct{ a, b string }
	tasks := make(map[pair][]regionKey)
	var pairs []pair
	out := make(map[regionKey]*RegionChange)
	var keys []regionKey
	for _, k := range slices.Concat(left.keys, right.keys) {
		if out[k] != nil {
			continue
		}
		l, r := left.at[k], right.at[k]
		out[k] = &RegionChange{Rank: k.rank, File: k.file, Region: k.name, Zone: max(l.zone, r.zone)}
		keys = append(keys, k)
		p := pair{l.file, r.file}
		if tasks[p] == nil {
			pairs = append(pairs, p)
		}
		tasks[p] = append(tasks[p], k)
	}
	d := differ{progress: progress}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyFiles)
	for _, p := range pairs {
		g.Go(func() error {
			ca, err := a.open(p.a)
			if err != nil {
				return err
			}
			defer ca.Close()
			cb, err := b.open(p.b)
			if err != nil {
				return err
			}
			defer cb.Close()
			for _, k := range tasks[p] {
				c := out[k]
				l, r := left.at[k], right.at[k]
				switch {
				case p.a == "":
					c.New = r.size
				case p.b == "":
					c.Gone = l.size
				default:
					c.Change, err = d.region(gctx, ca, l.index, cb, r.index, a.Manifest.Origin != "" && b.Manifest.Origin != "")
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var list []RegionChange
	for _, k := range keys {
		list = append(list, *out[k])
	}
	return list, nil
}

// regionKey names a region in any checkpoint of a job.
type regionKey struct {
	rank int
	file string // without directory; empty if the region is of a rank
	name string
}

// regionPlace is where a checkpoint has it.
type regionPlace struct {
	file  string
	index int
	zone  zones.Zone
	size  int64
}

type regionTable struct {
	keys []regionKey
	at   map[regionKey]regionPlace
}

func (s Side) regions() (*regionTable, error) {
	t := &regionTable{at: make(map[regionKey]regionPlace)}
	for _, f := range s.Manifest.Files {
		if s.Manifest.Origin != "" && (f.Kind == container.KindLibrary || f.Kind == container.KindShared) {
			continue // it only holds extents for the others
		}
		regions, err := s.Job.Place().Regions(f)
		if err != nil {
			return nil, err
		}
		for i, r := range regions {
			if f.Kind == container.KindFiles && r.Zone == zones.Library {
				continue // no memory: scripts, the list of files
			}
			if s.Manifest.Origin != "" && r.Name == LayoutRegion {
				continue // no memory either
			}
			k := regionKey{rank: r.Rank, name: r.Name}
			if r.Rank < 0 {
				k.file = path.Base(f.Path)
			}
			t.keys = append(t.keys, k)
			t.at[k] = regionPlace{f.Path, i, r.Zone, zones.PageRound(r.Size)}
		}
	}
	return t, nil
}

// open opens a file of the checkpoint, or nothing without a name.
func (s Side) open(name string) (*container.Contents, error) {
	if name == "" {
		return &container.Contents{}, nil
	}
	return s.Job.Open(s.Manifest, name)
}

type differ struct {
	mu       sync.Mutex
	progress func(int64)
}

func (d *differ) done(n int64) {
	if d.progress != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.progress(n)
	}
}

// region compares two regions, whose extents may be cut differently, page by page. Untouched
// leaves out zeros of both: address space that was never used.
func (d *differ) region(ctx context.Context, a *container.Contents, i int, b *container.Contents, j int, untouched bool) (Change, error) {
	var c Change
	l, r := cursor{o: a, extents: a.Extents(i)}, cursor{o: b, extents: b.Extents(j)}
	for !l.end() && !r.end() {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		n := min(l.left(), r.left())
		if l.extents[0].Zero && r.extents[0].Zero {
			if !untouched {
				c.Unchanged += n
			}
		} else if l.whole() && r.whole() && l.extents[0].SameAs(r.extents[0]) {
			c.Unchanged += n
		} else {
			x, err := l.bytes(ctx, n)
			if err != nil {
				return c, err
			}
			y, err := r.bytes(ctx, n)
			if err != nil {
				return c, err
			}
			for at := int64(0); at < n; at += zones.PageSize {
				if bytes.Equal(x[at:at+zones.PageSize], y[at:at+zones.PageSize]) {
					c.Unchanged += zones.PageSize
				} else {
					c.Changed += zones.PageSize
				}
			}
		}
		d.done(n)
		l.skip(n)
		r.skip(n)
	}
	c.Gone, c.New = l.rest(), r.rest()
	return c, nil
}

// cursor goes through the extents of a region.
type cursor struct {
	o       *container.Contents
	extents []container.Extent
	at      int64 // bytes of the first extent that are done
	buf     []byte
	read    bool // buf holds the first extent
}

func (c *cursor) end() bool   { return len(c.extents) == 0 }
func (c *cursor) left() int64 { return c.extents[0].Bytes - c.at }
func (c *cursor) whole() bool { return c.at == 0 }

func (c *cursor) bytes(ctx context.Context, n int64) ([]byte, error) {
	e := c.extents[0]
	if !c.read {
		if int64(cap(c.buf)) < e.Bytes {
			c.buf = vfs.Aligned(int(e.Bytes))
		}
		if err := c.o.Read(ctx, e, c.buf[:e.Bytes]); err != nil {
			return nil, err
		}
		c.read = true
	}
	return c.buf[c.at : c.at+n], nil
}

func (c *cursor) skip(n int64) {
	c.at += n
	if c.at == c.extents[0].Bytes {
		c.extents, c.at, c.read = c.extents[1:], 0, false
	}
}

func (c *cursor) rest() int64 {
	n := -c.at
	for _, e := range c.extents {
		n += e.Bytes
	}
	return n
}
