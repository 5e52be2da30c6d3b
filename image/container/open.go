package container

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// container is an open container file with sound header, index and trailer. The payload is
// checked as it is read.
type container struct {
	f       vfs.File
	path    string
	size    int64
	header  Header
	trailer trailer
	index   *index
	rebuilt error // why index or trailer were made again, or nil
	stays   bool  // open, until all that are kept are closed
}

// openContainer opens path, around the page cache where that works: restored bytes are needed
// once.
func openContainer(fsys vfs.FS, path string) (*container, error) {
	if f, err := fsys.OpenDirect(path); err == nil {
		c, err := readContainer(f, path)
		if err == nil {
			return c, nil
		}
		f.Close()
		if !vfs.NotDirect(err) {
			return nil, err
		}
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, durable.ReadError(path, -1, err)
	}
	c, err := readContainer(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

func (c *container) Close() error {
	if c.stays {
		return nil
	}
	return c.f.Close()
}

func readContainer(f vfs.File, path string) (*container, error) {
	size, err := f.Size()
	if err != nil {
		return nil, durable.ReadError(path, -1, err)
	}
	if size < 3*BlockSize || size%BlockSize != 0 {
		return nil, durable.Damaged(path, size, "file is %d bytes long, an image is at least 3 whole blocks of %d", size, BlockSize)
	}
	c := &container{f: f, path: path, size: size}
	head, tail := aligned(BlockSize), aligned(BlockSize)
	if err := durable.ReadAt(f, path, head, 0); err != nil {
		return nil, err
	}
	if c.header, err = decodeHeader(head); err != nil {
		return nil, inBlock(path, 0, err)
	}
	if err := durable.ReadAt(f, path, tail, size-BlockSize); err != nil {
		return nil, err
	}
	if c.trailer, err = decodeTrailer(tail, size); err != nil {
		return nil, inBlock(path, size-BlockSize, err)
	}
	t := c.trailer
	b := aligned(int(zones.PageRound(t.indexLen)))
	if err := durable.ReadAt(f, path, b, t.indexOffset); err != nil {
		return nil, err
	}
	if !allZero(b[t.indexLen:]) {
		return nil, durable.Damaged(path, t.indexOffset+t.indexLen, "index is padded with other than zeros")
	}
	b = b[:t.indexLen]
	if durable.Sum(b) != t.indexCRC || digestOf(b) != t.digest {
		return nil, durable.Damaged(path, t.indexOffset, "index checksum does not match")
	}
	x, at, err := decodeIndex(b, t, c.header.Kind == KindJob)
	if err != nil {
		return nil, inBlock(path, t.indexOffset+at, err)
	}
	if x.header != digestOf(head) {
		return nil, durable.Damaged(path, 0, "header is not the one that the index was written for")
	}
	c.index = x
	return c, nil
}

// open opens a container file and checks that it is the one that a manifest means.
func (p Place) open(f File) (*container, error) {
	c, err := openContainer(p.FS, p.pathOf(f.Path))
	return p.identified(c, err, f)
}

// openAny opens a container file as open does, and one with a damaged index or trailer if these can
// be made again.
func (p Place) openAny(f File) (*container, error) {
	c, err := p.kept.once(f.Path, func() (*container, error) {
		c, err := openContainer(p.FS, p.pathOf(f.Path))
		if err != nil {
			c, err = rebuild(p.FS, p.pathOf(f.Path), f.IndexBlake3, f.Bytes, err)
		}
		return c, err
	})
	return p.identified(c, err, f)
}

func (p Place) pathOf(path string) string { return filepath.Join(p.Dir, filepath.FromSlash(path)) }

func (p Place) identified(c *container, err error, f File) (*container, error) {
	if err != nil {
		return nil, err
	}
	if err := p.identify(c, f); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (p Place) identify(c *container, f File) error {
	digest := hexDigest(c.trailer.digest)
	switch {
	case c.header.Job != p.Job:
		return &OtherJobError{c.path, c.header.Job, p.Job}
	case c.header.Number != f.Number():
		return durable.Damaged(c.path, 0, "image is of checkpoint %d, not %d", c.header.Number, f.Number())
	case c.header.Kind != f.Kind:
		return durable.Damaged(c.path, 0, "image is of kind %s, not %s", c.header.Kind, f.Kind)
	case c.size != f.Bytes:
		return durable.Damaged(c.path, min(c.size, f.Bytes), "file is %d bytes long, the manifest says %d", c.size, f.Bytes)
	case digest != f.IndexBlake3:
		return durable.Damaged(c.path, c.trailer.indexOffset, "index is not the one in the manifest (digest %.8s…, want %.8s…)", digest, f.IndexBlake3)
	}
	return nil
}

// openRef opens a file that the extents of c refer to, as openAny does.
func (p Place) openRef(c *container, ref fileRec) (*container, error) {
	x, err := p.kept.once(ref.path, func() (*container, error) {
		x, err := openContainer(p.FS, p.pathOf(ref.path))
		if err != nil {
			x, err = rebuild(p.FS, p.pathOf(ref.path), hexDigest(ref.digest), 0, err)
		}
		return x, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s refers to another file: %w", c.path, err)
	}
	if x.header.Job != p.Job {
		err = &OtherJobError{x.path, x.header.Job, p.Job}
	} else if x.trailer.digest != ref.digest {
		err = durable.Damaged(x.path, x.trailer.indexOffset, "index is not the one that %s refers to", c.path)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// checkCopy reports a copy of the index that differs from it.
func (c *container) checkCopy() error {
	t := c.trailer
	b := aligned(int(zones.PageRound(t.indexLen)))
	at := t.indexOffset + int64(len(b))
	switch {
	case c.rebuilt != nil || t.copies != inPages:
		return nil // in the trailer, its checksum covers it
	case durable.ReadAt(c.f, c.path, b, at) != nil, digestOf(b[:t.indexLen]) != t.digest, !allZero(b[t.indexLen:]):
		return durable.Damaged(c.path, at, "copy of the index does not match")
	}
	return nil
}

// A rebuilder makes the trailer of a damaged container again, also one that was cut off, and takes
// the copy of a damaged index; without a copy, it mends one wrong byte. The digest of the index,
// which manifests and other containers know, proves the outcome: nothing is guessed.
type rebuilder struct {
	f      vfs.File
	path   string
	size   int64
	header [32]byte // digest of the header
	digest [32]byte // of the sound index
}

// rebuild opens a container whose index or trailer is damaged, as cause says, or returns cause.
// The length is that of the sound file, 0 if only the file can tell.
func rebuild(fsys vfs.FS, path, digest string, length int64, cause error) (*container, error) {
	want, err := hex.DecodeString(digest)
	if len(want) != 32 || err != nil || !errors.As(cause, new(*durable.DamageError)) {
		return nil, cause
	}
	f, err := fsys.Open(path)
	if err != nil {
		return nil, cause
	}
	size, err := f.Size()
	lengths := []int64{length}
	if length == 0 { // the trailer may be damaged, or cut off
		lengths = []int64{zones.PageRound(size), zones.PageRound(size) + BlockSize}
	}
	for _, n := range lengths {
		r := &rebuilder{f: &resized{f, n}, path: path, size: n, digest: [32]byte(want)}
		if err != nil || n < 3*BlockSize || n%BlockSize != 0 || n-size > maxIndex {
			continue
		}
		if c := r.container(); c != nil {
			c.rebuilt = cause
			return c, nil
		}
	}
	f.Close()
	return nil, cause
}

// A resized file was cut, and reads as zeros there, or has more than belongs to it.
type resized struct {
	vfs.File
	size int64
}

func (f *resized) Size() (int64, error) { return f.size, nil }

func (f *resized) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if errors.Is(err, io.EOF) && off+int64(len(b)) <= f.size {
		clear(b[n:])
		return len(b), nil
	}
	return n, err
}

// container returns nil if too much is lost.
func (r *rebuilder) container() *container {
	head, tail := aligned(BlockSize), aligned(BlockSize)
	if durable.ReadAt(r.f, r.path, head, 0) != nil || durable.ReadAt(r.f, r.path, tail, r.size-BlockSize) != nil {
		return nil
	}
	h, err := decodeHeader(head)
	if err != nil {
		return nil
	}
	r.header = digestOf(head)
	found := func(b []byte, t trailer) *container {
		x, _, err := decodeIndex(b, t, h.Kind == KindJob)
		if err != nil || x.header != r.header {
			return nil
		}
		return &container{f: r.f, path: r.path, size: r.size, header: h, trailer: t, index: x}
	}
	if t, err := decodeTrailer(tail, r.size); err == nil {
		if b := r.read(t.indexOffset); b != nil {
			if b = r.mend(b, t); b != nil {
				return found(b, t)
			}
		}
		return nil
	}
	for at := r.findIndex(r.size - BlockSize); at > 0; at = r.findIndex(at) {
		// This may be the copy, which lies behind the first index.
		b, t := r.withoutTrailer(r.read(at), trailer{fileLen: r.size, indexOffset: at, digest: r.digest})
		for range 2 {
			if b == nil {
				break
			}
			if c := found(b, counted(b, t, h.Kind == KindJob)); c != nil {
				return c
			}
			t.indexOffset -= zones.PageRound(t.indexLen)
		}
	}
	return nil
}

// read reads what lies between an offset and the trailer, or returns nil.
func (r *rebuilder) read(at int64) []byte {
	n := r.size - BlockSize - at
	if n > 2*maxIndex {
		return nil
	}
	b := aligned(int(n))
	if durable.ReadAt(r.f, r.path, b, at) != nil {
		return nil
	}
	return b
}

// findIndex finds the last page before an offset that begins as the index does, with the digest of
// the header, or returns 0.
func (r *rebuilder) findIndex(before int64) int64 {
	b := aligned(BlockSize)
	for at := before - BlockSize; at >= BlockSize && r.size-at <= 2*maxIndex; at -= BlockSize {
		if durable.ReadAt(r.f, r.path, b, at) == nil && [32]byte(b[:32]) == r.header {
			return at
		}
	}
	return 0
}

// withoutTrailer finds out how long an index is, which zeros follow, and perhaps a copy of it.
func (r *rebuilder) withoutTrailer(b []byte, t trailer) ([]byte, trailer) {
	for _, b := range [][]byte{b, b[:len(b)/2]} {
		end := len(bytes.TrimRight(b, "\x00"))
		for n := round8(end); n <= min(len(b), end+extentSize); n += 8 {
			if digestOf(b[:n]) == r.digest {
				t.indexLen, t.indexCRC = int64(n), durable.Sum(b[:n])
				return b[:n], t
			}
		}
	}
	return nil, t
}

// counted counts the records of a sound index: regions say how many extents they have, and files
// stand between both.
func counted(b []byte, t trailer, holes bool) trailer {
	d := decoder{b: b, off: 32}
	for {
		left := func(d decoder) bool { return d.err == nil && int64(len(b)-d.off) > t.extents*extentSize }
		t.files = 0
		for files := d; ; t.files++ {
			if int64(len(b)-files.off) == t.extents*extentSize {
				if _, _, err := decodeIndex(b, t, holes); err == nil {
					return t
				}
			}
			if !left(files) {
				break
			}
			files.file()
		}
		if !left(d) {
			return t
		}
		t.extents += d.region().extents
		t.regions++
	}
}

// mend returns the sound index, or nil, out of what lies before the trailer.
func (r *rebuilder) mend(b []byte, t trailer) []byte {
	if t.digest != r.digest {
		return nil
	}
	second := []byte(t.copied)
	if t.copies == inPages {
		second = b[len(b)/2:][:t.indexLen]
	}
	if digestOf(second) == r.digest {
		return second
	}
	b = b[:t.indexLen]
	copy(b, r.header[:])
	if digestOf(b) == r.digest || flipBack(b, t.indexCRC) && digestOf(b) == r.digest {
		return b
	}
	return nil
}

// flipBack finds the one byte whose change explains a wrong checksum, and changes it back.
func flipBack(b []byte, want uint32) bool {
	table := crc32.MakeTable(crc32.Castagnoli)
	var first [256]byte // the value whose entry begins with a byte
	for v, c := range table {
		first[c>>24] = byte(v)
	}
	diff := durable.Sum(b) ^ want
	for i := len(b) - 1; i >= 0; i-- {
		v := first[diff>>24]
		if table[v] == diff {
			b[i] ^= v
			return true
		}
		diff = (diff^table[v])<<8 | uint32(v) // as it was before the byte behind i
	}
	return false
}
