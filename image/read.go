package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"ckpt/image/vfs"
	"ckpt/zones"
)

// container is an open container file whose header, index and trailer have been
// read and are sound. The payload is checked as it is read.
type container struct {
	f       vfs.File
	path    string
	size    int64
	header  Header
	trailer trailer
	index   *index
}

// openContainer opens path, around the page cache where that works: what is
// restored is needed in the regions, not in the cache as well.
func openContainer(fsys vfs.FS, path string) (*container, error) {
	if do, ok := fsys.(vfs.DirectOpener); ok {
		if f, err := do.OpenDirect(path); err == nil {
			c, err := readContainer(f, path)
			if err == nil {
				return c, nil
			}
			f.Close()
			if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
				return nil, err
			}
		}
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, readError(path, -1, err)
	}
	c, err := readContainer(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

func (c *container) Close() error { return c.f.Close() }

func readContainer(f vfs.File, path string) (*container, error) {
	size, err := f.Size()
	if err != nil {
		return nil, readError(path, -1, err)
	}
	if size < 3*blockSize || size%blockSize != 0 {
		return nil, damaged(path, size, "file is %d bytes long, an image is at least 3 whole blocks of %d", size, blockSize)
	}
	c := &container{f: f, path: path, size: size}
	head, tail := aligned(blockSize), aligned(blockSize)
	if err := readAt(f, path, head, 0); err != nil {
		return nil, err
	}
	if c.header, err = decodeHeader(head); err != nil {
		return nil, inBlock(path, 0, err)
	}
	if err := readAt(f, path, tail, size-blockSize); err != nil {
		return nil, err
	}
	if c.trailer, err = decodeTrailer(tail, size); err != nil {
		return nil, inBlock(path, size-blockSize, err)
	}
	t := c.trailer
	b := aligned(int(zones.PageRound(t.indexLen)))
	if err := readAt(f, path, b, t.indexOffset); err != nil {
		return nil, err
	}
	if !allZero(b[t.indexLen:]) {
		return nil, damaged(path, t.indexOffset+t.indexLen, "index is padded with other than zeros")
	}
	b = b[:t.indexLen]
	if crc32.Checksum(b, castagnoli) != t.indexCRC || digestOf(b) != t.digest {
		return nil, damaged(path, t.indexOffset, "index checksum does not match")
	}
	x, at, err := decodeIndex(b, t)
	if err != nil {
		return nil, inBlock(path, t.indexOffset+at, err)
	}
	if x.header != digestOf(head) {
		return nil, damaged(path, 0, "header is not the one that the index was written for")
	}
	c.index = x
	return c, nil
}

// reader reads the payload of containers.
type reader struct {
	depth int
	// dest returns where the raw bytes of an extent belong; nil to check them
	// only.
	dest func(extentRec) []byte
	// bad is told of damage; reading goes on if it returns nil.
	bad      func(error) error
	progress func(int64)
	mu       sync.Mutex // of progress and bad
}

// read reads extents of the file, which are in the order of the file, and
// checks them.
func (r *reader) read(ctx context.Context, f vfs.File, path string, extents []extentRec) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	chunks := chunksOf(extents)
	for range min(r.depth, len(chunks)) {
		g.Go(func() error {
			var stage []byte
			for {
				i := int(next.Add(1)) - 1
				if i >= len(chunks) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return opError("read", path, -1, err)
				}
				if err := r.chunk(f, path, extents, chunks[i], &stage); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

func (r *reader) chunk(f vfs.File, path string, extents []extentRec, c chunk, stage *[]byte) error {
	if c.last == c.first+1 {
		return r.large(f, path, extents[c.first], stage)
	}
	b := staged(stage, c.n)
	if err := readAt(f, path, b, c.off); err != nil {
		return r.damage(err)
	}
	for _, e := range extents[c.first:c.last] {
		raw := b[e.fileOff-c.off:][:e.storedLen]
		if err := r.check(path, e, crc32.Checksum(raw, castagnoli)); err != nil {
			return err
		}
		if d := r.dest; d != nil {
			copy(d(e), raw)
		}
	}
	r.done(c.n)
	return nil
}

// large reads an extent in pieces of at most a staging buffer, into place if it
// has one.
func (r *reader) large(f vfs.File, path string, e extentRec, stage *[]byte) error {
	var dest []byte
	if r.dest != nil {
		dest = r.dest(e)
	}
	var sum uint32
	for at := int64(0); at < e.storedLen; at += stageBytes {
		n := min(stageBytes, e.storedLen-at)
		var b []byte
		if dest != nil && isAligned(dest) {
			b = dest[at : at+n]
		} else {
			b = staged(stage, n)
		}
		if err := readAt(f, path, b, e.fileOff+at); err != nil {
			return r.damage(err)
		}
		sum = crc32.Update(sum, castagnoli, b)
		if dest != nil && !isAligned(dest) {
			copy(dest[at:], b)
		}
		r.done(n)
	}
	return r.check(path, e, sum)
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
	return r.damage(damaged(path, e.fileOff, "checksum of the %d bytes from here is %08x, want %08x", e.storedLen, sum, e.storedCRC))
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

// readAt fills b. A file that ends early has been cut since its length was
// taken.
func readAt(f vfs.File, path string, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return readError(path, off, err)
}

// readError calls a file that is gone, cut or unreadable damaged; other errors
// say nothing about what is on the disk.
func readError(path string, off int64, err error) error {
	reason := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "file is missing"
	case errors.Is(err, syscall.EIO):
		reason = "cannot be read: input/output error"
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "file ends early"
	default:
		return opError("read", path, off, err)
	}
	return &DamageError{File: path, Offset: max(off, 0), Reason: reason, err: err}
}

// zeroBlock is what padding is compared with, which is less than a block.
var zeroBlock [blockSize]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }

// errDiffer says how the regions differ.
func errDiffer(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrRegionsDiffer, fmt.Sprintf(format, args...))
}
