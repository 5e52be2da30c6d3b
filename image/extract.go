package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// ErrNoArray says that a rank has no region of a name.
var ErrNoArray = errors.New("no such region")

// An Array is a region of a rank in a checkpoint.
type Array struct {
	Name  string     `json:"region"`
	Zone  zones.Zone `json:"zone"`
	Elem  zones.Elem `json:"type"`
	Bytes int64      `json:"bytes"`
	File  string     `json:"file"` // container file that lists it, relative to the job
	index int        // among the regions of the file
}

// Reads counts what was read from the storage, headers and indexes included.
type Reads struct {
	Calls int64 `json:"read_calls"`
	Bytes int64 `json:"read_bytes"`
}

// Arrays lists the regions of a rank: its own, those of the segment of its node, and
// the library. ErrRankNotFound if the checkpoint does not have the rank.
func (j *Job) Arrays(m *Manifest, rank int) ([]Array, error) {
	i := slices.IndexFunc(m.Ranks, func(r Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil, fmt.Errorf("checkpoint %d of job %s has %w %d", m.Number, j.name, ErrRankNotFound, rank)
	}
	r := m.Ranks[i]
	files := map[string][]zones.Zone{r.File: {zones.Data, zones.IOBuffer}}
	shared, library := cmp.Or(r.Shared, r.File), cmp.Or(r.Library, r.File)
	files[shared] = append(files[shared], zones.Shared)
	files[library] = append(files[library], zones.Library)
	var list []Array
	for path, wanted := range files {
		k := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == path })
		if k < 0 {
			return nil, durable.Damaged(j.manifestPath(m.Number), 0, "rank %d is in %s, which is not among the files", rank, path)
		}
		c, err := j.openFile(m, m.Files[k])
		if err != nil {
			return nil, err
		}
		node := leaderOf(m, path, r)
		for i, reg := range c.index.regions {
			own := reg.of(rank) || reg.zone == zones.Shared && int(reg.rank) == node
			if own && slices.Contains(wanted, reg.zone) {
				list = append(list, Array{reg.name, reg.zone, reg.elem, reg.size, path, i})
			}
		}
		c.Close()
	}
	slices.SortFunc(list, func(a, b Array) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.File, b.File), cmp.Compare(a.index, b.index))
	})
	return list, nil
}

// leaderOf returns the rank that has stored the segment of r's node in file path.
func leaderOf(m *Manifest, path string, r Rank) int {
	for _, other := range m.Ranks {
		if other.Node == r.Node && (r.Shared == "" && other.Rank == r.Rank || r.Shared == path) {
			return other.Rank
		}
	}
	return r.Rank
}

// FindArray returns the one of list that has the name.
func FindArray(list []Array, name string) (Array, error) {
	var names []string
	for _, a := range list {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Array{}, fmt.Errorf("%w: %q; there are %s", ErrNoArray, name, strings.Join(names, ", "))
}

// windowBytes is how much of an array Extract holds in memory at once: enough
// extents that their files are read in few calls.
const windowBytes = 16 << 20

// Extract writes the contents of an array to w, in order. It reads the extents of
// the array and no others, from whichever files hold them; holes are read along
// where that takes less time than another call. Every byte is checked before it is
// written. Progress, unless nil, is told of the bytes written.
func (j *Job) Extract(ctx context.Context, m *Manifest, a Array, w io.Writer, progress func(int64)) (Reads, error) {
	count := &countingFS{FS: j.fs}
	counted := &Job{fs: count, name: j.name, dir: j.dir, device: j.device}
	o, err := counted.Open(m, a.File)
	if err != nil {
		return count.reads(), err
	}
	defer o.Close()
	if a.index >= len(o.c.index.regions) || o.c.index.regions[a.index].name != a.Name {
		return count.reads(), errDiffer(o.c.path, "there is no region %q", a.Name)
	}
	x := extraction{o: o, device: j.device}
	records := o.c.index.extents[o.first[a.index]:o.first[a.index+1]]
	for left := a.Bytes; len(records) > 0; {
		n, size := window(records)
		b, err := x.read(ctx, records[:n], size)
		if err != nil {
			return count.reads(), err
		}
		b = b[:min(left, int64(len(b)))] // the last page may be longer than the array
		if _, err := w.Write(b); err != nil {
			return count.reads(), err
		}
		if progress != nil {
			progress(int64(len(b)))
		}
		left -= int64(len(b))
		records = records[n:]
	}
	return count.reads(), nil
}

// window returns how many extents to read together, at least one, and their size.
func window(records []extentRec) (n int, size int64) {
	for _, e := range records {
		if n > 0 && size+e.rawLen > windowBytes {
			break
		}
		n, size = n+1, size+e.rawLen
	}
	return n, size
}

// extraction reads parts of one region.
type extraction struct {
	o      *Contents
	device func() fileview.Device
	buf    []byte
}

// read returns the contents of extents that follow each other in a region.
func (x *extraction) read(ctx context.Context, records []extentRec, size int64) ([]byte, error) {
	b := staged(&x.buf, size)
	start := records[0].offset
	dest := func(e extentRec) []byte { return b[e.offset-start : e.offset-start+e.rawLen] }
	byFile := make(map[uint32][]extentRec)
	for _, e := range records {
		if e.codec == codecZero {
			clear(dest(e))
			continue
		}
		byFile[e.fileRef] = append(byFile[e.fileRef], e)
	}
	for _, extents := range byFile {
		slices.SortFunc(extents, func(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) })
		holder := x.o.holder(extents[0])
		r := &reader{depth: defaultDepth, dest: dest, device: x.device}
		if err := r.read(ctx, holder.f, holder.path, extents); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// A countingFS counts what is read of its files.
type countingFS struct {
	vfs.FS
	calls, bytes atomic.Int64
}

func (c *countingFS) reads() Reads { return Reads{c.calls.Load(), c.bytes.Load()} }

func (c *countingFS) Open(name string) (vfs.File, error) { return c.count(c.FS.Open(name)) }

func (c *countingFS) OpenDirect(name string) (vfs.File, error) {
	do, ok := c.FS.(vfs.DirectOpener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.count(do.OpenDirect(name))
}

func (c *countingFS) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{f, c}, nil
}

type countingFile struct {
	vfs.File
	of *countingFS
}

func (f countingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.of.calls.Add(1)
	f.of.bytes.Add(int64(n))
	return n, err
}
