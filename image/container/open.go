package container

import (
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"fmt"
	"path/filepath"
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

func (c *container) Close() error { return c.f.Close() }

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
	c, err := openContainer(p.FS, filepath.Join(p.Dir, filepath.FromSlash(f.Path)))
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

// openRef opens a file that the extents of c refer to.
func (p Place) openRef(c *container, ref fileRec) (*container, error) {
	x, err := openContainer(p.FS, filepath.Join(p.Dir, filepath.FromSlash(ref.path)))
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
