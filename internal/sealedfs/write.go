package sealedfs

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

func tooLong(size int64) error {
	return fmt.Errorf("%w: a sealed file of %d bytes is not changed", errors.ErrUnsupported, size)
}

// A file is one that is being written. While it is new, each block is sealed and written once all
// of it has come, and what is missing when the file is synced or closed. Changed later, it is in
// memory, and written anew.
type file struct {
	vfs.OnlyBytes
	fs   *FS
	name string
	stop func() // ends the writing of lines; may be nil

	mu     sync.Mutex
	size   int64
	dirty  bool
	closed bool
	whole  []byte // of a file that is changed; nil while it is new

	// Of a new file.
	under  vfs.File
	aead   cipher.AEAD
	header []byte // nil once it is written
	parts  map[int64]*part
	sealed map[int64]bool // blocks that are written
	done   bool           // it has its end
	busy   sync.WaitGroup // blocks that are being written
	failed error          // of a write: the file will not be complete
}

// A part is a block of which not all bytes have come.
type part struct {
	plain [BlockSize]byte
	have  int
}

// writing returns a new file.
func (f *FS) writing(under vfs.File, name string) *file {
	header, id := makeHeader()
	return &file{fs: f, name: name, under: under, header: header, aead: aeadOf(f.key, id, f.bound(name)), dirty: true,
		parts: map[int64]*part{}, sealed: map[int64]bool{}}
}

// lines returns a new file of lines. It is there from now on, and changed.
func (f *FS) lines(under vfs.File, name string) (*file, error) {
	if err := f.writing(under, name).Close(); err != nil {
		return nil, err
	}
	return f.changing(name, []byte{}), nil
}

// changing returns a file that has contents. Its lines are written every now and then.
func (f *FS) changing(name string, b []byte) *file {
	w := &file{fs: f, name: name, whole: b, size: int64(len(b))}
	if f.each == nil || filepath.Ext(name) != vfs.LinesSuffix {
		return w
	}
	w.stop = w.fs.each(vfs.WrittenEvery, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed {
			_ = w.flush(false) // the next writing, or Close, tells
		}
	})
	return w
}

// Size implements vfs.File.
func (w *file) Size() (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size, nil
}

// WriteAt implements vfs.File.
func (w *file) WriteAt(b []byte, off int64) (int, error) {
	full, err := w.take(b, off)
	if err == nil && len(full) > 0 {
		err = w.seal(full)
		w.busy.Done()
	}
	if err != nil {
		return 0, failed("write", w.name, err)
	}
	return len(b), nil
}

// A full block is to be sealed and written. Blocks follow each other.
type full struct {
	number int64
	plain  []byte
}

// take keeps what completes no block, and returns the blocks that are complete.
func (w *file) take(b []byte, off int64) (list []full, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || off < 0 {
		return nil, syscall.EBADF
	}
	if w.done {
		if err := w.change(); err != nil {
			return nil, err
		}
	}
	if len(b) == 0 {
		return nil, nil
	}
	w.dirty, w.size = true, max(w.size, off+int64(len(b)))
	if w.whole != nil {
		if w.size > vfs.MostReplaced {
			return nil, tooLong(w.size)
		}
		w.whole = append(w.whole, make([]byte, max(0, w.size-int64(len(w.whole))))...)
		copy(w.whole[off:], b)
		return nil, nil
	}
	for len(b) > 0 {
		number, at := off/BlockSize, off%BlockSize
		n := min(BlockSize-at, int64(len(b)))
		switch p := w.parts[number]; {
		case w.sealed[number]:
			w.failed = fmt.Errorf("%w: bytes of a sealed block are written again before the file is complete", errors.ErrUnsupported)
			return nil, w.failed
		case n == BlockSize:
			delete(w.parts, number)
			list = append(list, full{number, b[:n]})
		default:
			if p == nil {
				p = &part{}
				w.parts[number] = p
			}
			copy(p.plain[at:], b[:n])
			if p.have += int(n); p.have >= BlockSize {
				delete(w.parts, number)
				list = append(list, full{number, p.plain[:]})
			}
		}
		b, off = b[n:], off+n
	}
	for _, f := range list {
		w.sealed[f.number] = true
	}
	if len(list) > 0 {
		w.busy.Add(1)
	}
	return list, nil
}

// change has a complete file be changed from now on. The caller holds w.mu.
func (w *file) change() error {
	b, err := w.fs.read(w.name)
	if err != nil {
		return err
	}
	if err := w.under.Close(); err != nil {
		return err
	}
	w.whole, w.done, w.under = b, false, nil
	return nil
}

// sealedAtOnce is how many blocks are written with one call. While they are, the next ones are
// sealed.
const sealedAtOnce = 8

// seal seals blocks that follow each other, and writes them.
func (w *file) seal(list []full) (err error) {
	var writing sync.WaitGroup
	var werr error
	for len(list) > 0 && err == nil {
		n := min(sealedAtOnce, len(list))
		buf := buffers.Get().(*[]byte)
		b := (*buf)[:0]
		for _, f := range list[:n] {
			b = sealBlock(b, w.aead, f.plain, f.number, data)
		}
		at := offsetOf(list[0].number)
		list = list[n:]
		writing.Wait()
		if err = werr; err != nil {
			buffers.Put(buf)
			break
		}
		write := func() {
			werr = durable.WriteAt(w.under, w.name, b, at)
			buffers.Put(buf)
		}
		if len(list) == 0 {
			write()
			err = werr
			break
		}
		writing.Go(write)
	}
	writing.Wait()
	if err != nil {
		w.mu.Lock()
		w.failed = err // its blocks count as written
		w.mu.Unlock()
	}
	return err
}

// ReadAt implements vfs.File.
func (w *file) ReadAt(b []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || off < 0:
		return 0, failed("read", w.name, syscall.EBADF)
	case off >= w.size:
		return 0, io.EOF
	case w.whole != nil:
	case !w.done:
		return 0, failed("read", w.name, fmt.Errorf("%w: a sealed file is read once it is complete", errors.ErrUnsupported))
	default:
		r, err := w.fs.Open(w.name)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		return r.ReadAt(b, off)
	}
	n := copy(b, w.whole[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Sync implements vfs.File.
func (w *file) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return failed("sync", w.name, syscall.EBADF)
	}
	return w.flush(true)
}

// Flush implements vfs.File: the disk starts with the sealed bytes.
func (w *file) Flush(off, n int64) error {
	w.mu.Lock()
	under, from := w.under, offsetOf(off/BlockSize)
	w.mu.Unlock()
	if under == nil {
		return errors.ErrUnsupported
	}
	return under.Flush(from, offsetOf(blocksOf(off+n))-from)
}

// Forget implements vfs.File.
func (w *file) Forget() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under == nil {
		return errors.ErrUnsupported
	}
	return w.under.Forget()
}

// flush makes all that was written be there, and durable if that is asked for. The caller holds
// w.mu.
func (w *file) flush(durably bool) error {
	if w.whole != nil {
		if !w.dirty {
			return nil
		}
		err := w.fs.replace(w.name, w.whole, durably)
		w.dirty = err != nil
		return err
	}
	if w.dirty {
		if err := w.finish(); err != nil {
			return err
		}
		w.dirty, w.done = false, true
	}
	if durably {
		return w.under.Sync()
	}
	return nil
}

// finish writes the blocks that are not complete, the end and the header. The caller holds w.mu.
func (w *file) finish() error {
	// A writer that took blocks may still be writing them.
	w.mu.Unlock()
	w.busy.Wait()
	w.mu.Lock()
	if w.failed != nil {
		return w.failed
	}
	all := blocksOf(w.size)
	for n := range all {
		if w.sealed[n] {
			continue
		}
		p := w.parts[n]
		if p == nil {
			p = &part{} // a hole
		}
		b := sealBlock(nil, w.aead, p.plain[:min(BlockSize, w.size-n*BlockSize)], n, data)
		if err := durable.WriteAt(w.under, w.name, b, offsetOf(n)); err != nil {
			return err
		}
		delete(w.parts, n)
		w.sealed[n] = true
	}
	b := sealBlock(nil, w.aead, binary.BigEndian.AppendUint64(nil, uint64(w.size)), all, end)
	if err := durable.WriteAt(w.under, w.name, b, sealedSize(w.size)-endSize); err != nil {
		return err
	}
	return durable.WriteAt(w.under, w.name, w.header, 0)
}

// Close implements vfs.File.
func (w *file) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return failed("close", w.name, fs.ErrClosed)
	}
	if w.stop != nil {
		w.stop()
	}
	err := w.flush(false)
	w.closed = true
	if w.under != nil {
		err = errors.Join(err, w.under.Close())
	}
	return err
}

// replace puts a file with other contents in the place of one. Durably, the new contents are there
// after a crash; else these or the old ones.
func (f *FS) replace(name string, b []byte, durably bool) error {
	temp := name + durable.TempSuffix
	if err := durable.Remove(f.FS, temp); err != nil {
		return err
	}
	under, err := f.FS.Create(temp)
	if err != nil {
		return err
	}
	w := f.writing(under, name)
	_, err = w.WriteAt(b, 0)
	if err == nil { // before it takes the name, or a crash costs the old contents, too
		err = w.Sync()
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = f.FS.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, durable.Remove(f.FS, temp))
	}
	if durably {
		err = f.FS.SyncDir(filepath.Dir(name))
	}
	return err
}
