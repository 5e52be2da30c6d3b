package sealedfs

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A sealedFile reads the blocks of an open file.
type sealedFile struct {
	vfs.File
	name string
	aead cipher.AEAD
	size int64 // of the plain text
}

// openSealed reads header and end of a file.
func (f *FS) openSealed(under vfs.File, name string) (s sealedFile, err error) {
	sealed, err := under.Size()
	if err != nil {
		return s, err
	}
	s = sealedFile{File: under, name: name}
	var ok bool
	if s.size, ok = plainSize(sealed); !ok {
		return s, durable.Damaged(name, s.size, "file ends early: it was not written to its end, or is cut")
	}
	var h [headerSize]byte
	if err := durable.ReadAt(under, name, h[:], 0); err != nil {
		return s, err
	}
	id, err := readHeader(name, h[:])
	if err != nil {
		return s, err
	}
	s.aead = aeadOf(f.key, id, f.bound(name))
	var e [endSize]byte
	if err := durable.ReadAt(under, name, e[:], sealed-endSize); err != nil {
		return s, err
	}
	n, err := openBlock(s.aead, name, e[:], blocksOf(s.size), end)
	if err == nil && int64(binary.BigEndian.Uint64(n)) != s.size {
		err = durable.Damaged(name, 0, "its sealed end is that of a file of another length")
	}
	return s, err
}

// readBlocks bounds the memory of a read.
const readBlocks = 16

var buffers = sync.Pool{New: func() any { b := make([]byte, readBlocks*stride); return &b }}

// each opens the blocks from first to last, and hands their plain text over. It is valid until
// take returns.
func (s *sealedFile) each(first, last int64, take func(number int64, plain []byte)) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for n := first; n <= last; {
		count := min(last-n+1, readBlocks)
		bytes := min(count*BlockSize, s.size-n*BlockSize) + count*added
		part := (*buf)[:bytes]
		if err := durable.ReadAt(s.File, s.name, part, offsetOf(n)); err != nil {
			return err
		}
		for ; len(part) > 0; n++ {
			block := part[:min(stride, len(part))]
			part = part[len(block):]
			plain, err := openBlock(s.aead, s.name, block, n, data)
			if err != nil {
				return err
			}
			take(n, plain)
		}
	}
	return nil
}

// A reading is a file that is open for reading. It keeps the block that was read last: short reads
// follow each other.
type reading struct {
	vfs.OnlyBytes
	sealedFile

	mu     sync.Mutex
	kept   []byte
	number int64 // of the block that is kept
	closed bool
}

// Size implements vfs.File.
func (r *reading) Size() (int64, error) { return r.size, nil }

// ReadAt implements vfs.File.
func (r *reading) ReadAt(b []byte, off int64) (int, error) {
	switch {
	case r.isClosed():
		return 0, failed("read", r.name, fs.ErrClosed)
	case off < 0:
		return 0, failed("read", r.name, syscall.EINVAL)
	case off >= r.size:
		return 0, io.EOF
	}
	want := b[:min(int64(len(b)), r.size-off)]
	first, last := off/BlockSize, (off+int64(len(want))-1)/BlockSize
	if len(want) == 0 || r.fromKept(want, off, first, last) {
		return r.ended(b, want)
	}
	err := r.each(first, last, func(n int64, plain []byte) {
		if n == last && first == last {
			r.keep(n, plain)
		}
		copyBlock(want, off, n, plain)
	})
	if err != nil {
		return 0, err
	}
	return r.ended(b, want)
}

func (r *reading) ended(b, got []byte) (int, error) {
	if len(got) < len(b) {
		return len(got), io.EOF
	}
	return len(got), nil
}

// copyBlock copies what a block has of the bytes from off on.
func copyBlock(to []byte, off, number int64, plain []byte) {
	if at := number*BlockSize - off; at >= 0 {
		copy(to[at:], plain)
	} else {
		copy(to, plain[-at:])
	}
}

func (r *reading) fromKept(want []byte, off, first, last int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil || first != last || r.number != first {
		return false
	}
	copyBlock(want, off, first, r.kept)
	return true
}

func (r *reading) keep(n int64, plain []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.number = append(r.kept[:0], plain...), n
}

func (r *reading) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// WriteAt implements vfs.File.
func (r *reading) WriteAt([]byte, int64) (int, error) {
	return 0, failed("write", r.name, syscall.EBADF)
}

// Sync implements vfs.File.
func (r *reading) Sync() error { return r.File.Sync() }

// Forget implements vfs.File.
func (r *reading) Forget() error { return r.File.Forget() }

// Close implements vfs.File.
func (r *reading) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return failed("close", r.name, fs.ErrClosed)
	}
	r.closed, r.kept = true, nil
	return r.File.Close()
}

func failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// asDamage returns the damage in an error, or makes it one.
func asDamage(name string, err error) *durable.DamageError {
	var d *durable.DamageError
	if !errors.As(err, &d) {
		d = &durable.DamageError{File: name, Reason: err.Error(), Err: err}
	}
	return d
}
