package container

import (
	"context"
	"errors"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"

	"golang.org/x/sync/errgroup"
)

// CopyOptions are the settings of Copy.
type CopyOptions struct {
	// Pace, if not nil, waits until n bytes may be written; its error ends the copy.
	Pace func(ctx context.Context, n int) error
}

// Same checks, byte for byte, a container file that refers to no other. Progress, if not nil,
// is told the bytes read since its last call.
func (p Place) Same(ctx context.Context, f File, progress func(int64)) error {
	return p.check(ctx, f, progress, true)
}

// Copy makes path, of another file system, the same as a container file that refers to no
// other, and returns when its data is durable; its name becomes so at the next SyncDir. All
// that is copied is checked. The file must not exist; after an error it does not. Damage of the
// source is a durable.DamageError that names it.
func (p Place) Copy(ctx context.Context, f File, to vfs.FS, path string, opt CopyOptions) error {
	c, err := p.complete(f)
	if err != nil {
		return err
	}
	defer c.Close()
	o, err := createOutput(to, path, tracer{}, false, c.size)
	if err != nil {
		return err
	}
	k := &copier{c: c, o: o, opt: opt, own: c.index.ownOnce()}
	return o.close(k.run(ctx))
}

// A Base is what the copy of a rank's file may refer to: its file of an earlier checkpoint, in
// the place that the copy goes to.
type Base struct {
	Place  Place
	File   File
	Number int // of the checkpoint
	Oldest int // of the checkpoints that the copy may depend on
}

// CopySince is Copy without the extents that base has: the copy refers to them. It returns the
// entry of the copy. A base that cannot be read makes a complete copy.
func (p Place) CopySince(ctx context.Context, f File, to vfs.FS, path string, base *Base, opt CopyOptions) (File, error) {
	if base == nil {
		return f, p.Copy(ctx, f, to, path, opt)
	}
	c, err := p.complete(f)
	if err != nil {
		return f, err
	}
	defer c.Close()
	had := NewHistory()
	if had.Recall(base.Place, base.File, base.Number, c.header.Rank) != nil {
		return f, p.Copy(ctx, f, to, path, opt)
	}
	place := base.Place
	place.FS = to
	b, err := place.Build(path, c.header, nil)
	if err != nil {
		return f, err
	}
	s := &sinceCopier{copier: copier{c: c, opt: opt}, b: b, past: had.of(base.Number), oldest: base.Oldest, moved: map[int64]int64{}}
	if err := s.run(ctx); err != nil {
		return f, errors.Join(err, b.Discard())
	}
	info, err := b.Close()
	if err == nil {
		f.Bytes, f.Holes, f.IndexBlake3 = info.Bytes, 0, info.IndexBlake3
	}
	return f, err
}

// A sinceCopier copies the extents of a container that an earlier one does not have.
type sinceCopier struct {
	copier
	b      *Builder
	past   *past
	oldest int
	moved  map[int64]int64 // places of extents in the copy, by their place in the file
	buf    []byte
}

func (s *sinceCopier) run(ctx context.Context) error {
	x, next := s.c.index, 0
	for i, r := range x.regions {
		r.extents = 0
		s.b.index.regions = append(s.b.index.regions, r)
		s.b.open = zones.PageRound(r.size)
		s.b.zones.Add(r.zone, r.size)
		for ; next < len(x.extents) && int(x.extents[next].region) == i; next++ {
			if err := s.extent(ctx, r, x.extents[next]); err != nil {
				return err
			}
		}
		if err := s.b.full(); err != nil {
			return err
		}
	}
	return nil
}

// extent adds an extent to the copy: a reference, or its bytes.
func (s *sinceCopier) extent(ctx context.Context, r regionRec, e extentRec) error {
	if e.codec == codecZero {
		return s.b.add(e)
	}
	if at, ok := s.past.same(r, e, s.oldest); ok {
		return s.b.add(s.b.reference(at))
	}
	from := e.fileOff
	if to, again := s.moved[from]; again {
		e.fileOff = to
		return s.b.add(e)
	}
	e.fileOff = s.b.at + int64(s.b.n)
	s.moved[from] = e.fileOff
	if err := s.b.add(e); err != nil {
		return err
	}
	b := staged(&s.buf, zones.PageRound(e.storedLen))
	e.fileOff = from
	if err := s.pace(ctx, len(b)); err != nil {
		return err
	}
	if err := s.c.stored(&e, b); err != nil {
		return err
	}
	return s.b.store(b)
}

// stored reads the stored bytes of an extent, whole pages, and checks them.
func (c *container) stored(e *extentRec, b []byte) error {
	if err := durable.ReadAt(c.f, c.path, b, e.fileOff); err != nil {
		return err
	}
	if durable.Sum(b[:e.storedLen]) != e.storedCRC {
		return durable.Damaged(c.path, e.fileOff, "checksum of an extent of %d bytes does not match", e.storedLen)
	}
	if !codec.IsZero(b[e.storedLen:]) {
		return durable.Damaged(c.path, e.fileOff+e.storedLen, "bytes outside of all extents are not zero")
	}
	return nil
}

// complete opens a file that refers to no other.
func (p Place) complete(f File) (*container, error) {
	c, err := p.open(f)
	if err != nil {
		return nil, err
	}
	if err := c.refersToNone(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *container) refersToNone() error {
	if n := len(c.index.files); n > 0 {
		return durable.Damaged(c.path, c.trailer.indexOffset, "it refers to %d other files, want none", n)
	}
	return nil
}

// A copier copies a container a stage at a time: the next one is read while one is written.
type copier struct {
	c      *container
	o      *output
	opt    CopyOptions
	own    []extentRec // in the order of the file
	sum    uint32      // of what has been read of the first of own
	stages [2][]byte
}

func (k *copier) run(ctx context.Context) error {
	end := k.c.trailer.indexOffset
	header := aligned(BlockSize)
	k.c.header.encode(header)
	if err := k.o.write(header, 0); err != nil {
		return err
	}
	var last *errgroup.Group // the write under way
	wait := func(err error) error {
		if last != nil {
			if werr := last.Wait(); err == nil {
				err = werr
			}
			last = nil
		}
		return err
	}
	for i, at := 0, int64(BlockSize); at < end; i++ {
		b := staged(&k.stages[i%2], min(stageBytes, end-at))
		err := k.read(ctx, b, at)
		if err = wait(err); err != nil {
			return err
		}
		last = new(errgroup.Group)
		off := at
		last.Go(func() error { return k.o.write(b, off) })
		at += int64(len(b))
	}
	if err := wait(nil); err != nil {
		return err
	}
	return k.tail(ctx)
}

// tail writes the index and the trailer, which have one encoding and were checked as the file
// was opened, and syncs.
func (k *copier) tail(ctx context.Context) error {
	t := k.c.index.tailWith(k.c.trailer.indexOffset, k.c.trailer.copies)
	if t.trailer != k.c.trailer {
		return durable.Damaged(k.c.path, k.c.trailer.indexOffset, "index is not in its one encoding")
	}
	if err := k.pace(ctx, len(t.bytes)); err != nil {
		return err
	}
	if err := k.o.complete(t.bytes, t.trailer); err != nil {
		return err
	}
	return k.o.sync()
}

func (k *copier) pace(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return durable.Op("copy", k.c.path, -1, err)
	}
	if k.opt.Pace == nil {
		return nil
	}
	return durable.Op("copy", k.c.path, -1, k.opt.Pace(ctx, n))
}

// read reads the next part of the payload and checks it.
func (k *copier) read(ctx context.Context, b []byte, at int64) error {
	if err := k.pace(ctx, len(b)); err != nil {
		return err
	}
	if err := durable.ReadAt(k.c.f, k.c.path, b, at); err != nil {
		return err
	}
	end := at + int64(len(b))
	for at < end {
		n, err := k.check(b[len(b)-int(end-at):], at)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// check checks the bytes at an offset, up to the next change between stored bytes and zeros,
// and returns how many.
func (k *copier) check(b []byte, at int64) (int64, error) {
	n := int64(len(b))
	if len(k.own) == 0 || at < k.own[0].fileOff {
		if len(k.own) > 0 {
			n = min(n, k.own[0].fileOff-at)
		}
		if !codec.IsZero(b[:n]) {
			return 0, durable.Damaged(k.c.path, at, "bytes outside of all extents are not zero")
		}
		return n, nil
	}
	e := k.own[0]
	n = min(n, e.fileOff+e.storedLen-at)
	k.sum = durable.AddSum(k.sum, b[:n])
	if at+n == e.fileOff+e.storedLen {
		if k.sum != e.storedCRC {
			return 0, durable.Damaged(k.c.path, e.fileOff, "checksum of an extent of %d bytes does not match", e.storedLen)
		}
		k.sum, k.own = 0, k.own[1:]
	}
	return n, nil
}
