package turns

import (
	"context"
	"sync/atomic"

	"ckpt/internal/vfs"
)

// Threshold is the length from which a read or write waits for the turn. Shorter ones are a small
// part of a burst, and others often wait for them.
const Threshold = 64 << 10

// FS returns a file system whose reads and writes of Threshold bytes or more wait for the turn,
// as does the Sync of a file after such a write. All count as progress. After End, and if t is
// nil, nothing waits.
func (t *Turn) FS(fsys vfs.FS) vfs.FS {
	if t == nil {
		return fsys
	}
	return vfs.Watch(fsys, func(name string, w vfs.Way) (vfs.File, error) {
		return t.file(w.Open(fsys, name))
	})
}

// file returns a file whose operations wait.
func (t *Turn) file(in vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: in, t: t}, nil
}

type file struct {
	vfs.File
	t     *Turn
	dirty atomic.Bool // a long write came after the last Sync
}

// move does an operation on n bytes in the turn.
func (t *Turn) move(n int64, do func() (int64, error)) (int64, error) {
	if n < Threshold {
		moved, err := do()
		t.Progress(moved)
		return moved, err
	}
	_ = t.Enter(context.Background()) // without a context there is no error
	var moved int64
	defer func() { t.Leave(moved) }()
	moved, err := do()
	return moved, err
}

// Piece is what a long operation is cut into where there is a controller: a turn that is wanted
// back ends after the pieces under way.
const Piece = 1 << 20

// pieces does an operation on n bytes piece by piece, until one moves in part.
func (t *Turn) pieces(n int, do func(from, to int) (int, error)) (moved int, err error) {
	for {
		to := n
		if n-moved > Piece+Threshold && t.shared() {
			to = moved + Piece
		}
		k, err := t.move(int64(to-moved), func() (int64, error) {
			k, err := do(moved, to)
			return int64(k), err
		})
		short := moved+int(k) < to
		if moved += int(k); err != nil || short || moved == n {
			return moved, err
		}
	}
}

// shared reports whether there is a controller, so that others may want the turn.
func (t *Turn) shared() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.link != nil && !t.ended
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	return f.t.pieces(len(b), func(from, to int) (int, error) { return f.File.ReadAt(b[from:to], off+int64(from)) })
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	if len(b) >= Threshold {
		f.dirty.Store(true)
	}
	return f.t.pieces(len(b), func(from, to int) (int, error) { return f.File.WriteAt(b[from:to], off+int64(from)) })
}

func (f *file) Sync() error {
	if !f.dirty.Swap(false) {
		return f.File.Sync()
	}
	_, err := f.t.move(Threshold, func() (int64, error) { return 0, f.File.Sync() })
	return err
}

func (f *file) ReadV(into [][]byte, off int64) (int64, error) {
	return f.vector(into, off, vfs.ReadV)
}

func (f *file) WriteV(from [][]byte, off int64) (int64, error) {
	if length(from) >= Threshold {
		f.dirty.Store(true)
	}
	return f.vector(from, off, vfs.WriteV)
}

// A mover is vfs.ReadV or vfs.WriteV.
type mover func(f vfs.File, of [][]byte, off int64) (int64, error)

// vector moves buffers with as few operations as pieces allow: each has whole buffers.
func (f *file) vector(of [][]byte, off int64, do mover) (moved int64, err error) {
	for {
		some, n := of, length(of)
		if n > Piece+Threshold && f.t.shared() {
			some, n = firstOf(of, Piece)
		}
		k, err := f.t.move(n, func() (int64, error) { return do(f.File, some, off+moved) })
		moved += k
		if of = of[len(some):]; err != nil || k < n || len(of) == 0 {
			return moved, err
		}
	}
}

// firstOf returns the first buffers, of so many bytes, but at least one.
func firstOf(of [][]byte, most int64) ([][]byte, int64) {
	n := int64(0)
	for i, b := range of {
		if i > 0 && n+int64(len(b)) > most {
			return of[:i], n
		}
		n += int64(len(b))
	}
	return of, n
}

func length(of [][]byte) (n int64) {
	for _, b := range of {
		n += int64(len(b))
	}
	return n
}

func (f *file) ReopenDirect() (vfs.File, error) { return f.t.file(f.File.ReopenDirect()) }
