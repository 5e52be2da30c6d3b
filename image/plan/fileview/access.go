package fileview

import (
	"errors"
	"io"
)

// readWindow reads the wanted bytes of the window into p and returns how many of
// them it got. An io.EOF says that some were missing.
func (f *File) readWindow(w *window, p []byte) (int, error) {
	if w.plain() {
		n, err := f.read(p, w.off)
		f.count(Stats{Useful: int64(n)})
		return n, err
	}
	f.bufMu.Lock()
	defer f.bufMu.Unlock()
	buf := f.sieve(w.len)
	got, err := f.read(buf, w.off)
	done := 0
	for pos, n := range w.pieces() {
		if pos >= int64(got) {
			break
		}
		done += copy(p[done:done+int(n)], buf[pos:got])
	}
	f.count(Stats{Useful: int64(done)})
	if err == io.EOF && len(p) > 0 && done == len(p) {
		// Only bytes that nobody wants are missing. Where there is nothing but
		// hole the end of the file is news: no block comes after it.
		err = nil
	}
	return done, err
}

// writeWindow writes p to the blocks of the window. It returns how many bytes of
// p have been written, and the operation that failed.
func (f *File) writeWindow(w *window, p []byte) (n int, op string, err error) {
	buf := p
	if !w.plain() {
		// The buffer before the lock, by everybody: who has the lock does not
		// wait for anything that another one could have.
		f.bufMu.Lock()
		defer f.bufMu.Unlock()
		buf = f.sieve(w.len)
	}
	f.count(Stats{Locks: 1})
	unlock, err := f.locker.LockRange(w.off, w.len)
	if err != nil {
		return 0, "lock", err
	}
	defer unlock()
	if !w.plain() {
		if err := f.overlay(w, buf, p); err != nil {
			return 0, "read before write", err
		}
	}
	f.count(Stats{Writes: 1})
	written, err := f.file.WriteAt(buf, w.off)
	for pos, m := range w.pieces() {
		n += int(min(m, max(0, int64(written)-pos)))
	}
	f.count(Stats{Written: int64(written), Useful: int64(n)})
	if err == nil && written < len(buf) {
		err = io.ErrShortWrite
	}
	return n, "write", err
}

// overlay fills buf with the bytes of the file and copies the blocks of p over
// them. Bytes beyond the end of the file are zero, as they will be when it has grown.
func (f *File) overlay(w *window, buf, p []byte) error {
	f.count(Stats{Rewrites: 1})
	n, err := f.read(buf, w.off)
	if err != nil && err != io.EOF {
		return err
	}
	clear(buf[n:])
	for pos, m := range w.pieces() {
		copy(buf[pos:pos+m], p[:m])
		p = p[m:]
	}
	return nil
}

var errShortRead = errors.New("short read without an error")

// read is one call. Its error is never nil if buf was not filled, and io.EOF only
// if the file said so itself: a hole that is taken to be beyond the end of the
// file is overwritten.
func (f *File) read(buf []byte, off int64) (int, error) {
	f.count(Stats{Reads: 1})
	n, err := f.file.ReadAt(buf, off)
	f.count(Stats{Read: int64(n)})
	switch {
	case n == len(buf) && err == io.EOF:
		err = nil
	case n < len(buf) && err == nil:
		err = errShortRead
	}
	return n, err
}

// sieve returns n bytes of the buffer, which it enlarges if need be. The caller
// holds bufMu.
func (f *File) sieve(n int64) []byte {
	if n > int64(cap(f.buf)) {
		f.buf = make([]byte, max(n, min(2*int64(cap(f.buf)), f.buffer)))
	}
	return f.buf[:n]
}
