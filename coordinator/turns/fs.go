package turns

import (
	"context"
	"io"
	"sync/atomic"

	"ckpt/internal/vfs"
)

// Threshold is the length from which a read or write waits for the turn. Shorter ones are a small
// part of a burst, and others often wait for them.
const Threshold = 64 << 10

// FS returns a file system whose reads and writes of Threshold bytes or more wait for the turn,
// as does the Sync of a file after such a write. All count as progress. It has the abilities of
// fsys. After End, and if t is nil, nothing waits.
func (t *Turn) FS(fsys vfs.FS) vfs.FS {
	if t == nil {
		return fsys
	}
	b := base{fsys, t}
	creator, creates := fsys.(vfs.DirectCreator)
	opener, opens := fsys.(vfs.DirectOpener)
	writer, writes := fsys.(vfs.DirectWriter)
	return fileSystems[set(creates, opens, writes)](withFS{b, directCreator{t, creator}, directOpener{t, opener}, directWriter{t, writer}})
}

// set returns a number with a bit for each ability.
func set(has ...bool) (n int) {
	for i, h := range has {
		if h {
			n |= 1 << i
		}
	}
	return n
}

// base is a file system without the abilities that not all have.
type base struct {
	vfs.FS
	t *Turn
}

func (b base) Create(name string) (vfs.File, error)    { return b.t.file(b.FS.Create(name)) }
func (b base) Open(name string) (vfs.File, error)      { return b.t.file(b.FS.Open(name)) }
func (b base) OpenWrite(name string) (vfs.File, error) { return b.t.file(b.FS.OpenWrite(name)) }

type directCreator struct {
	t  *Turn
	fs vfs.DirectCreator
}

func (d directCreator) CreateDirect(name string) (vfs.File, error) {
	return d.t.file(d.fs.CreateDirect(name))
}

type directOpener struct {
	t  *Turn
	fs vfs.DirectOpener
}

func (d directOpener) OpenDirect(name string) (vfs.File, error) {
	return d.t.file(d.fs.OpenDirect(name))
}

type directWriter struct {
	t  *Turn
	fs vfs.DirectWriter
}

func (d directWriter) OpenWriteDirect(name string) (vfs.File, error) {
	return d.t.file(d.fs.OpenWriteDirect(name))
}

// file returns a file whose operations wait, with the abilities of in.
func (t *Turn) file(in vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	f := &file{File: in, t: t}
	f.flusher, _ = in.(vfs.Flusher)
	f.vectored, _ = in.(vfs.Vectored)
	preallocator, allocates := in.(vfs.Preallocator)
	forgetter, forgets := in.(vfs.Forgetter)
	r, reopens := in.(vfs.Reopener)
	m, maps := in.(vfs.Mapper)
	return files[set(allocates, forgets, reopens, maps)](withFile{f, preallocator, forgetter, reopener{t, r}, mapper{t, m}}), nil
}

// file is a file without the abilities that not all have. Each can be flushed, which is a hint,
// and can move several buffers: without the ability of in, one after the other.
type file struct {
	vfs.File
	t        *Turn
	flusher  vfs.Flusher
	vectored vfs.Vectored
	dirty    atomic.Bool // a long write came after the last Sync
}

func (f *file) Flush(off, n int64) error {
	if f.flusher == nil {
		return nil
	}
	return f.flusher.Flush(off, n)
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
	read := func(into [][]byte, off int64) (int64, error) { return f.vectored.ReadV(into, off) }
	if f.vectored == nil {
		read = func(into [][]byte, off int64) (int64, error) {
			n, err := each(into, off, f.File.ReadAt)
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
	}
	return f.t.vector(into, off, read)
}

func (f *file) WriteV(from [][]byte, off int64) (int64, error) {
	if length(from) >= Threshold {
		f.dirty.Store(true)
	}
	write := func(from [][]byte, off int64) (int64, error) { return f.vectored.WriteV(from, off) }
	if f.vectored == nil {
		write = func(from [][]byte, off int64) (int64, error) { return each(from, off, f.File.WriteAt) }
	}
	return f.t.vector(from, off, write)
}

// vector moves buffers with as few operations as pieces allow: each has whole buffers.
func (t *Turn) vector(of [][]byte, off int64, do func([][]byte, int64) (int64, error)) (moved int64, err error) {
	for {
		some, n := of, length(of)
		if n > Piece+Threshold && t.shared() {
			some, n = firstOf(of, Piece)
		}
		k, err := t.move(n, func() (int64, error) { return do(some, off+moved) })
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

// each moves buffers one after the other, until one moves in part.
func each(of [][]byte, off int64, move func([]byte, int64) (int, error)) (moved int64, err error) {
	for _, b := range of {
		n, err := move(b, off+moved)
		moved += int64(n)
		if err != nil || n < len(b) {
			return moved, err
		}
	}
	return moved, nil
}

func length(of [][]byte) (n int64) {
	for _, b := range of {
		n += int64(len(b))
	}
	return n
}

type reopener struct {
	t  *Turn
	in vfs.Reopener
}

func (r reopener) ReopenDirect() (vfs.File, error) { return r.t.file(r.in.ReopenDirect()) }

type mapper struct {
	t  *Turn
	in vfs.Mapper
}

func (m mapper) Map(size int64) (vfs.Mapping, error) {
	in, err := m.in.Map(size)
	if err != nil {
		return nil, err
	}
	return mapping{in, m.t}, nil
}

// mapping is a file in memory, whose bytes move to the disk when it is synced.
type mapping struct {
	vfs.Mapping
	t *Turn
}

func (m mapping) Sync(off, n int64) error {
	_, err := m.t.move(n, func() (int64, error) {
		if err := m.Mapping.Sync(off, n); err != nil {
			return 0, err
		}
		return n, nil
	})
	return err
}
