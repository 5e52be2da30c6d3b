package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"ckpt/image/codec"
	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// reader reads the payload of containers.
type reader struct {
	depth int
	// dest returns where the raw bytes of an extent belong; nil to check them only.
	dest func(extentRec) []byte
	// bad gets the damage; reading continues if it returns nil.
	bad      func(error) error
	progress func(int64)
	loaded   func(mem []byte) error // as in LoadOptions
	filling  *semaphore.Weighted    // bytes that have been written to; nil without loaded
	device   func() fileview.Device // the storage, for holes between extents; nil: as assumed
	mu       sync.Mutex             // of progress and bad
	// spare keeps the memory of extentReaders from one read to the next; may be nil.
	spare *sync.Pool
}

// worker returns an extentReader for a file, with the memory of an earlier one if there is any.
func (r *reader) worker(f vfs.File, path string) *extentReader {
	in := new(extentReader)
	if r.spare != nil {
		if old, ok := r.spare.Get().(*extentReader); ok {
			in = old
		}
	}
	in.reader, in.f, in.path = r, f, path
	return in
}

// A span is extents [first, last) of a list in file order: n bytes from off, padding included,
// holes between them not.
type span struct {
	first, last int
	off, n      int64
	end         int64 // in the file
	holes       bool
}

// spansOf groups extents: large ones stand alone, small ones are read together, up to a staging
// buffer.
func spansOf(extents []extentRec) []span {
	var spans []span
	for i, e := range extents {
		n := zones.PageRound(e.storedLen)
		end := e.fileOff + n
		if k := len(spans) - 1; k >= 0 {
			s := &spans[k]
			hole := e.fileOff - s.end
			if n < stageBelow && extents[s.first].storedLen < stageBelow && hole >= 0 && hole < stageBelow && s.n+n <= stageBytes {
				s.last, s.n, s.end, s.holes = i+1, s.n+n, end, s.holes || hole > 0
				continue
			}
		}
		spans = append(spans, span{first: i, last: i + 1, off: e.fileOff, n: n, end: end})
	}
	return spans
}

// read reads extents of the file, in its order, and checks them.
func (r *reader) read(ctx context.Context, f vfs.File, path string, extents []extentRec) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	spans := spansOf(extents)
	for range min(r.depth, len(spans)) {
		g.Go(func() error {
			in := r.worker(f, path)
			if r.spare != nil {
				defer r.spare.Put(in)
			}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(spans) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return durable.Op("read", path, -1, err)
				}
				s := spans[i]
				if err := in.span(ctx, extents[s.first:s.last], s); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// An extentReader reads extents of one file in one goroutine.
type extentReader struct {
	*reader
	f       vfs.File
	path    string
	stage   []byte // stored bytes
	raw     []byte // decoded ones, to be checked only
	decoder codec.Decoder
}

func (in *extentReader) span(ctx context.Context, extents []extentRec, s span) error {
	if len(extents) == 1 && extents[0].codec == codecRaw {
		_, mem := in.adjoining(extents)
		return in.fill(ctx, in.path, mem, func() error { return in.large(extents[0]) })
	}
	b := staged(&in.stage, s.n)
	if err := in.fetch(extents, s, b); err != nil {
		return in.damage(err)
	}
	for len(extents) > 0 {
		n, mem := in.adjoining(extents)
		err := in.fill(ctx, in.path, mem, func() error {
			for _, e := range extents[:n] {
				if err := in.extent(e, b); err != nil {
					return err
				}
				b = b[zones.PageRound(e.storedLen):]
			}
			return nil
		})
		if err != nil {
			return err
		}
		extents = extents[n:]
	}
	in.done(s.n)
	return nil
}

// extent checks and decodes an extent, whose stored bytes and padding b begins with.
func (in *extentReader) extent(e extentRec, b []byte) error {
	stored, padding := b[:e.storedLen], b[e.storedLen:zones.PageRound(e.storedLen)]
	if sum := durable.Sum(stored); sum != e.storedCRC {
		return in.check(in.path, e, sum)
	}
	if !allZero(padding) {
		return in.damage(durable.Damaged(in.path, e.fileOff+e.storedLen, "an extent is padded with other than zeros"))
	}
	var dest []byte
	if in.dest != nil {
		dest = in.dest(e)
	}
	if e.codec == codecRaw {
		copy(dest, stored)
		return nil
	}
	if dest == nil {
		dest = staged(&in.raw, e.rawLen)
	}
	err := in.decoder.Decode(dest, stored, codec.ID(e.codec), codec.Filter(e.filter))
	if err == nil && durable.Sum(dest) != e.rawCRC {
		err = errBlock("it decodes to other bytes than were written")
	}
	if err != nil {
		return in.damage(durable.Damaged(in.path, e.fileOff, "the %d bytes from here, packed by %v: %v", e.storedLen, codec.ID(e.codec), err))
	}
	return nil
}

// large reads a raw extent in pieces of at most a staging buffer, into place where it has one.
func (in *extentReader) large(e extentRec) error {
	var dest []byte
	if in.dest != nil {
		dest = in.dest(e)
	}
	var sum uint32
	for at := int64(0); at < e.storedLen; at += stageBytes {
		n := min(stageBytes, e.storedLen-at)
		var b []byte
		if dest != nil && isAligned(dest) {
			b = dest[at : at+n]
		} else {
			b = staged(&in.stage, n)
		}
		if err := durable.ReadAt(in.f, in.path, b, e.fileOff+at); err != nil {
			return in.damage(err)
		}
		sum = durable.AddSum(sum, b)
		if dest != nil && !isAligned(dest) {
			copy(dest[at:], b)
		}
		in.done(n)
	}
	return in.check(in.path, e, sum)
}

func staged(stage *[]byte, n int64) []byte {
	if int64(len(*stage)) < n {
		*stage = aligned(int(n))
	}
	return (*stage)[:n]
}

func (r *reader) check(path string, e extentRec, sum uint32) error {
	if sum == e.storedCRC {
		return nil
	}
	return r.damage(durable.Damaged(path, e.fileOff, "checksum of the %d bytes from here is %08x, want %08x", e.storedLen, sum, e.storedCRC))
}

func (r *reader) damage(err error) error {
	if r.bad == nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad(err)
}

func (r *reader) done(n int64) {
	if r.progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.progress(n)
	}
}

// zeroBlock is what padding is compared with, which is less than a block.
var zeroBlock [BlockSize]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }

// errDiffer says how the regions differ.
func errDiffer(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrRegionsDiffer, fmt.Sprintf(format, args...))
}

// UsualDevice stands for a storage that was not measured: holes of up to some 200 KiB are read
// along.
var UsualDevice = fileview.Device{Bandwidth: 2 << 30, Latency: 100 * time.Microsecond, Block: BlockSize}

// sieve returns f as if the extents of a span lay side by side: a partial restore takes some
// zones of some ranks, an incremental checkpoint refers to some extents of an earlier one.
func (s span) sieve(f vfs.File, extents []extentRec, device fileview.Device) (*fileview.File, error) {
	var tuples []fileview.Tuple
	for i, e := range extents {
		t := fileview.Tuple{Size: zones.PageRound(e.storedLen)}
		if i+1 < len(extents) {
			t.Hole = extents[i+1].fileOff - e.fileOff - t.Size
		}
		tuples = append(tuples, t)
	}
	v, err := fileview.NewView(s.off, tuples, 1)
	if err != nil {
		return nil, err
	}
	return fileview.NewFile(f, v, fileview.Options{Device: device, Buffer: stageBytes})
}

// fetch reads the stored bytes of a span, one extent behind the other.
func (in *extentReader) fetch(extents []extentRec, s span, b []byte) error {
	if !s.holes {
		return durable.ReadAt(in.f, in.path, b, s.off)
	}
	device := UsualDevice
	if in.device != nil {
		device = in.device()
	}
	view, err := s.sieve(in.f, extents, device)
	if err != nil {
		return durable.Op("read", in.path, s.off, err)
	}
	n, err := view.ReadAt(b, 0)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if e, ok := errors.AsType[*fileview.Error](err); ok {
		return durable.ReadError(in.path, e.Offset, e.Err)
	}
	return durable.ReadError(in.path, s.off, err)
}

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
