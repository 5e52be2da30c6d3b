package container

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"

	"ckpt/image/codec"
	"ckpt/internal/durable"
)

// A Verifier reads every byte of the files of a checkpoint. Several goroutines may use it.
type Verifier struct {
	Place
	// Note gets what is wrong. Verifying ends when it returns an error.
	Note func(error) error
	// Done is told the bytes checked since the last call.
	Done func(int64)
	// Alone refuses files that refer to others.
	Alone bool
	// Memo is shared by the Verifiers of checkpoints that refer to the same files.
	Memo *Memo

	mu   sync.Mutex
	used map[string]*usedFile
}

// Check reads a file, and what it uses of others, and returns the first damage. Progress, if
// not nil, is told the bytes read since its last call.
func (p Place) Check(ctx context.Context, f File, progress func(int64)) error {
	return p.check(ctx, f, progress, false)
}

func (p Place) check(ctx context.Context, f File, progress func(int64), alone bool) error {
	first := func(err error) error { return err }
	v := &Verifier{Place: p, Note: first, Done: progress, Memo: new(Memo), Alone: alone}
	if progress == nil {
		v.Done = func(int64) {}
	}
	if err := v.File(ctx, f); err != nil {
		return err
	}
	return v.References(ctx, []File{f})
}

// usedFile is what the checkpoint uses of a file that it does not list.
type usedFile struct {
	fileRec
	from    *container
	extents map[int64]extentRec // by offset in the file
}

func (v *Verifier) use(c *container, k int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.used == nil {
		v.used = make(map[string]*usedFile)
	}
	ref := c.index.files[k]
	u := v.used[ref.path]
	if u == nil {
		u = &usedFile{fileRec: ref, from: c, extents: make(map[int64]extentRec)}
		v.used[ref.path] = u
	}
	for _, e := range c.index.extents {
		if e.fileRef == uint32(k+1) {
			u.extents[e.fileOff] = e
		}
	}
}

// File verifies a file that the manifest lists.
func (v *Verifier) File(ctx context.Context, f File) error {
	c, err := v.openAny(f)
	if err != nil {
		return v.Note(err)
	}
	defer c.Close()
	if c.rebuilt != nil {
		if err := v.Note(c.rebuilt); err != nil {
			return err
		}
	}
	if v.Alone {
		if err := c.refersToNone(); err != nil {
			return v.Note(err)
		}
	}
	for k, ref := range c.index.files {
		if err := v.refersTo(c, uint32(k+1), ref); err != nil {
			return err
		}
		v.use(c, k)
	}
	checked := v.Memo.file(c)
	if checked.whole {
		return checked.again(v.Note, nil)
	}
	own := c.index.ownOnce()
	if err := v.extents(ctx, c, checked, own); err != nil {
		return err
	}
	r := reader{depth: 1, bad: checked.noting(v.Note), progress: v.Done}
	if err := r.holes(ctx, c); err != nil {
		return err
	}
	if err := c.checkCopy(); err != nil {
		if err := v.Note(err); err != nil {
			return err
		}
	}
	checked.complete()
	return nil
}

// References verifies, once File has seen all files, what they use of files that the manifest
// does not list.
func (v *Verifier) References(ctx context.Context, listed []File) error {
	for _, name := range slices.Sorted(maps.Keys(v.used)) {
		if slices.ContainsFunc(listed, func(f File) bool { return f.Path == name }) {
			continue
		}
		if err := v.ref(ctx, v.used[name]); err != nil {
			return err
		}
	}
	return nil
}

// ref checks what the checkpoint uses of a file; the rest may be damaged or gone.
func (v *Verifier) ref(ctx context.Context, u *usedFile) error {
	list := slices.Collect(maps.Values(u.extents))
	slices.SortFunc(list, byPlace)
	if x := v.Memo.index(u.fileRec); x != nil {
		if checked := v.Memo.file(x); len(checked.unread(list)) == 0 {
			return checked.again(v.Note, list)
		}
	}
	c, err := v.openRef(u.from, u.fileRec)
	if err != nil {
		return v.Note(err)
	}
	defer c.Close()
	return v.extents(ctx, c, v.Memo.file(c), list)
}

// extents checks extents of an open container, whose index is checked.
func (v *Verifier) extents(ctx context.Context, c *container, checked *checkedFile, list []extentRec) error {
	if err := checked.again(v.Note, list); err != nil {
		return err
	}
	if !checked.index {
		checked.index = true
		v.Done(c.size - c.trailer.indexOffset + BlockSize)
	}
	r := reader{depth: 1, bad: checked.noting(v.Note), progress: v.Done}
	fresh := checked.unread(list)
	if err := r.read(ctx, c.f, c.path, fresh); err != nil {
		return err
	}
	checked.remember(fresh)
	return nil
}

// refersTo checks that the extents which c takes from another file, verified by itself, are
// extents of it.
func (v *Verifier) refersTo(c *container, k uint32, ref fileRec) error {
	x := v.Memo.index(ref)
	if x == nil {
		var err error
		if x, err = v.openRef(c, ref); err != nil {
			return v.Note(err)
		}
		x.Close()
		if x.rebuilt != nil {
			if err := v.Note(x.rebuilt); err != nil {
				return err
			}
		}
		v.Memo.keep(ref, x)
	}
	return v.Note(c.checkRefs(k, x))
}

// checkRefs checks that the extents which c takes from its k-th external file x are extents of
// that file, so that they are sound if it is.
func (c *container) checkRefs(k uint32, x *container) error {
	type place struct{ off, stored, raw int64 }
	own := make(map[place]extentRec)
	for _, e := range x.index.own() {
		own[place{e.fileOff, e.storedLen, e.rawLen}] = e
	}
	for _, e := range c.index.extents {
		if e.fileRef != k {
			continue
		}
		want := own[place{e.fileOff, e.storedLen, e.rawLen}]
		want.region, want.offset, want.fileRef = e.region, e.offset, e.fileRef
		if e != want {
			return durable.Damaged(c.path, c.trailer.indexOffset, "extent at offset %d of %s is not one of that file", e.fileOff, x.path)
		}
	}
	return nil
}

// holes checks that what no extent covers is zero.
func (r *reader) holes(ctx context.Context, c *container) error {
	var stage []byte
	for _, hole := range c.index.holes(c.trailer.indexOffset) {
		for off, end := hole.off, hole.off+hole.n; off < end; off += stageBytes {
			if err := ctx.Err(); err != nil {
				return durable.Op("read", c.path, -1, err)
			}
			b := staged(&stage, min(stageBytes, end-off))
			if err := durable.ReadAt(c.f, c.path, b, off); err != nil {
				if err := r.damage(err); err != nil {
					return err
				}
			} else if !codec.IsZero(b) {
				if err := r.damage(durable.Damaged(c.path, off, "a hole of %d bytes holds other than zeros", hole.n)); err != nil {
					return err
				}
			}
			r.done(int64(len(b)))
		}
	}
	return nil
}

// A Memo remembers what has been verified of a job's files, so that checkpoints which share
// files read each byte once. It keeps, up to a bound, the indexes to which many refer.
type Memo struct {
	mu      sync.Mutex
	files   map[memoKey]*checkedFile
	indexes map[memoKey]*container // closed
	extents int                    // of indexes
}

// memoExtents bounds the extents of the indexes that a Memo keeps, about 100 bytes each.
const memoExtents = 1 << 18

// A memoKey names a file with certain contents.
type memoKey struct {
	path  string
	index [32]byte
}

// A checkedFile is what has been verified of a file, by one goroutine at a time.
type checkedFile struct {
	index   bool           // header, index and trailer have been read
	whole   bool           // all of it has been
	extents map[int64]bool // which have been read, by offset, unless all have
	damage  []*durable.DamageError
}

// file returns what has been verified of c.
func (m *Memo) file(c *container) *checkedFile {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = make(map[memoKey]*checkedFile)
	}
	key := memoKey{c.path, c.trailer.digest}
	if m.files[key] == nil {
		m.files[key] = &checkedFile{extents: make(map[int64]bool)}
	}
	return m.files[key]
}

// index returns the container with the index that ref names, closed, or nil.
func (m *Memo) index(ref fileRec) *container {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.indexes[memoKey{ref.path, ref.digest}]
}

// keep remembers the index of a container for index.
func (m *Memo) keep(ref fileRec, c *container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(c.index.extents)
	if m.indexes == nil || m.extents+n > memoExtents {
		m.indexes, m.extents = make(map[memoKey]*container), 0
	}
	m.indexes[memoKey{ref.path, ref.digest}] = c
	m.extents += n
}

// unread returns the extents of list that have not been read.
func (f *checkedFile) unread(list []extentRec) (fresh []extentRec) {
	for _, e := range list {
		if !f.whole && !f.extents[e.fileOff] {
			fresh = append(fresh, e)
		}
	}
	return fresh
}

func (f *checkedFile) remember(list []extentRec) {
	for _, e := range list {
		f.extents[e.fileOff] = true
	}
}

// complete says that all of the file has been read.
func (f *checkedFile) complete() { f.whole, f.extents = true, nil }

// noting returns a function that remembers damage and passes it on.
func (f *checkedFile) noting(note func(error) error) func(error) error {
	return func(err error) error {
		var d *durable.DamageError
		if errors.As(err, &d) {
			f.damage = append(f.damage, d)
		}
		return note(err)
	}
}

// again notes damage found before in any of the extents, in file order, or for the nil list in
// the file.
func (f *checkedFile) again(note func(error) error, list []extentRec) error {
	for _, d := range f.damage {
		// The last extent that begins at or before the damage.
		i := sort.Search(len(list), func(i int) bool { return list[i].fileOff > d.Offset }) - 1
		if list != nil && (i < 0 || d.Offset >= list[i].fileOff+max(list[i].storedLen, 1)) {
			continue
		}
		if err := note(d); err != nil {
			return err
		}
	}
	return nil
}
