package objectfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"

	"ckpt/internal/vfs"
)

// file is a file that is being written: in memory while it is short, then in parts.
type file struct {
	vfs.OnlyBytes
	fs        *FS
	name, key string // where it will be
	temp      string // key of its temporary name; "" if it has none
	stop      func() // ends the writing of lines; may be nil

	mu       sync.Mutex
	small    []byte // all bytes; nil once it is uploaded in parts
	pooled   bool   // small is a buffer for a part
	have     spans  // of small, what was written: others may still write the rest
	size     int64
	tag      string // of the version that is there; "" if none is
	up       *upload
	dirty    bool
	complete bool // all parts are one object
	closed   bool
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	key, err := f.key(name)
	if err == nil {
		err = f.parent(key)
	}
	if err == nil && f.isHeld(key) != nil {
		err = fs.ErrExist
	}
	if err == nil {
		var is fs.FileInfo
		if is, err = f.Stat(name); err == nil && is != nil {
			err = fs.ErrExist
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, failed("create", name, err)
	}
	w := &file{fs: f, name: name, key: key, dirty: true}
	if to, temp := strings.CutSuffix(key, tempSuffix); temp {
		w.key, w.temp = to, key
	}
	f.hold(key, w)
	return w.start(), nil
}

// OpenWrite implements vfs.FS.
func (f *FS) OpenWrite(name string) (vfs.File, error) {
	r := &reading{fs: f, name: name}
	var err error
	if r.key, err = f.key(name); err == nil {
		err = r.open()
	}
	if err == nil && r.size > vfs.MostReplaced {
		err = fmt.Errorf("%w: an object of %d bytes is not changed in place", errors.ErrUnsupported, r.size)
	}
	w := &file{fs: f, name: name, key: r.key, tag: r.tag, size: r.size, small: make([]byte, r.size), have: spans{{0, r.size}}}
	if err == nil && r.size > 0 {
		_, err = r.ReadAt(w.small, 0)
	}
	if err != nil {
		return nil, failed("open", name, err)
	}
	return w.start(), nil
}

func (w *file) start() *file {
	if w.fs.each != nil && strings.HasSuffix(w.key, vfs.LinesSuffix) && w.temp == "" {
		w.stop = w.fs.each(vfs.WrittenEvery, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.dirty && !w.closed && w.up == nil {
				_ = w.whole() // the next writing, or Close, tells
			}
		})
	}
	return w
}

// Size implements vfs.File.
func (w *file) Size() (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size, nil
}

// limit returns how long the file may be in memory.
func (w *file) limit() int64 {
	if w.tag != "" {
		return max(vfs.MostReplaced, w.fs.partSize)
	}
	return w.fs.partSize
}

// WriteAt implements vfs.File.
func (w *file) WriteAt(b []byte, off int64) (int, error) {
	up, err := w.place(b, off)
	if err == nil && up != nil {
		err = up.write(b, off)
	}
	if err != nil {
		return 0, failed("write", w.name, err)
	}
	return len(b), nil
}

// place writes bytes of a short file, or returns the upload that they belong to.
func (w *file) place(b []byte, off int64) (*upload, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || off < 0 {
		return nil, syscall.EBADF
	}
	if w.complete {
		return nil, fmt.Errorf("%w: an object is not changed once its parts are one", errors.ErrUnsupported)
	}
	end := off + int64(len(b))
	w.size, w.dirty = max(w.size, end), true
	if w.up == nil && end <= w.limit() {
		if grow := end - int64(len(w.small)); grow > 0 {
			w.grow(grow)
		}
		copy(w.small[off:], b)
		w.have.add(span{off, end})
		return nil, nil
	}
	if w.up == nil {
		up, err := w.fs.upload(w.key)
		if err == nil && w.pooled {
			up.parts[0] = &part{b: w.small[:w.fs.partSize], have: w.have}
			w.small, w.pooled = nil, false
		}
		for _, s := range w.have {
			if err == nil && w.small != nil {
				err = up.write(w.small[s.from:s.to], s.from)
			}
		}
		if err != nil {
			if up.id != "" {
				_ = up.abort() // err says more
			}
			return nil, err
		}
		w.up, w.small, w.have = up, nil, nil
	}
	return w.up, nil
}

// grow makes a short file longer. One that is likely to have parts gets a buffer of one: what would
// double again and again leaves two parts of garbage.
func (w *file) grow(by int64) {
	const likely = 1 << 20
	end := int64(len(w.small)) + by
	if end <= min(likely, w.fs.partSize) || end > w.fs.partSize || int64(cap(w.small)) >= end {
		w.small = append(w.small, make([]byte, by)...)
		return
	}
	old := w.small
	w.small, w.pooled = w.fs.pool.take()[:end], true
	clear(w.small[copy(w.small, old):])
}

// forget gives the bytes of a short file up.
func (w *file) forget() {
	if w.pooled {
		w.fs.pool.put(w.small)
	}
	w.small, w.pooled = nil, false
}

// ReadAt implements vfs.File. Parts that were sent cannot be read before they are one object.
func (w *file) ReadAt(b []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := 0, error(nil)
	switch {
	case w.closed || off < 0:
		return 0, failed("read", w.name, syscall.EBADF)
	case off >= w.size:
		return 0, io.EOF
	case w.complete:
		_, n, err = w.fs.c.get(background(), w.key, b, off, w.tag)
	case w.up != nil:
		err = errors.ErrUnsupported
	default:
		n = copy(b, w.small[off:])
	}
	if err == nil && n < len(b) {
		return n, io.EOF
	}
	return n, failed("read", w.name, err)
}

// Sync implements vfs.File. A file under a temporary name is not there yet: Rename sees to it.
func (w *file) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return failed("sync", w.name, syscall.EBADF)
	}
	return failed("sync", w.name, w.flush())
}

// flush makes the file be there.
func (w *file) flush() error {
	if !w.dirty || w.temp != "" {
		return nil
	}
	if w.up == nil {
		return w.whole()
	}
	return w.join()
}

// whole writes a short file as a whole.
func (w *file) whole() error {
	o, err := w.fs.c.put(background(), w.key, w.small, w.when())
	if err == nil {
		w.tag, w.dirty = o.Tag, false
		w.fs.appeared(w)
	}
	return w.refused(err)
}

func (w *file) when() Condition { return Condition{New: w.tag == "", Tag: w.tag} }

func (w *file) refused(err error) error {
	if !errors.Is(err, ErrPrecondition) {
		return err
	}
	if w.tag == "" {
		return fmt.Errorf("%w: another process has written it", fs.ErrExist)
	}
	return fmt.Errorf("%w: another process has written it meanwhile", syscall.EBUSY)
}

// join makes one object of the parts.
func (w *file) join() error {
	o, err := w.up.finish(w.size, w.when())
	if err == nil {
		w.tag, w.dirty, w.complete = o.Tag, false, true
		w.fs.appeared(w)
	}
	return w.refused(err)
}

// appear makes a file that had a temporary name be there under another.
func (w *file) appear(key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up == nil {
		err := w.fs.replace(key, w.small)
		if err == nil && w.closed {
			w.forget()
		}
		return err
	}
	if key != w.key || path.Base(key) == Once {
		return fmt.Errorf("%w: the parts were sent for %s", errors.ErrUnsupported, w.key)
	}
	o, err := w.fs.c.head(background(), key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w.tag = o.Tag
	return w.join()
}

// abort drops bytes that are not there yet.
func (w *file) abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = false
	w.forget()
	if w.up == nil || w.complete {
		return nil
	}
	return w.up.abort()
}

// Truncate implements vfs.File, for a short file.
func (w *file) Truncate(size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up != nil || size > w.size {
		return failed("truncate", w.name, errors.ErrUnsupported)
	}
	w.small, w.size, w.dirty = w.small[:size], size, true
	var have spans
	for _, s := range w.have {
		if s.from < size {
			have = append(have, span{s.from, min(s.to, size)})
		}
	}
	w.have = have
	return nil
}

// Close implements vfs.File. A file in parts that was not synced is dropped: its writer failed.
func (w *file) Close() error {
	if w.stop != nil {
		w.stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return failed("close", w.name, fs.ErrClosed)
	}
	if w.closed = true; w.temp != "" {
		return nil
	}
	defer w.forget()
	if !w.dirty {
		return nil
	}
	defer w.fs.appeared(w) // or it never will be
	if w.up == nil {
		return failed("close", w.name, w.whole())
	}
	return failed("close", w.name, w.up.abort())
}

// upload is a file that is uploaded in parts, each once all its bytes are there.
type upload struct {
	fs            *FS
	key, id, mark string

	beginning sync.Mutex   // of parts
	filling   sync.RWMutex // read: bytes are written into parts

	mu    sync.Mutex
	parts map[int]*part // that lack bytes
	sent  map[int]Part  // zero while they are under way
	err   error         // the first
	going sync.WaitGroup
}

type part struct {
	b    []byte
	have spans
}

// spans are sorted, and apart from each other.
type spans []span

type span struct{ from, to int64 }

func (f *FS) upload(key string) (*upload, error) {
	u := &upload{fs: f, key: key, mark: newMark(), parts: map[int]*part{}, sent: map[int]Part{}}
	var err error
	u.id, err = f.c.begin(background(), key, u.mark)
	return u, err
}

// write takes bytes, and sends the parts that they complete. It waits while enough is under way.
func (u *upload) write(b []byte, off int64) error {
	for len(b) > 0 {
		n := min(int64(len(b)), u.fs.partSize-off%u.fs.partSize)
		is, err := u.fill(b[:n], off, nil)
		if err == nil && !is {
			err = u.begin(b[:n], off)
		}
		if err != nil {
			return err
		}
		b, off = b[n:], off+n
	}
	return nil
}

// begin writes bytes into a part that has no memory yet. One writer at a time takes some: the others
// find it there, or wait for their own. Writers come to parts that have theirs meanwhile.
func (u *upload) begin(b []byte, off int64) error {
	u.beginning.Lock()
	defer u.beginning.Unlock()
	if is, err := u.fill(b, off, nil); is || err != nil {
		return err
	}
	mem := u.fs.pool.take()
	_, err := u.fill(b, off, &mem)
	if mem != nil {
		u.fs.pool.put(mem)
	}
	return err
}

// fill writes bytes into a part that is not sent yet, and sends it if they are the last. It reports
// false if the part needs memory. It sets mem to nil once that is the part's.
func (u *upload) fill(b []byte, off int64, mem *[]byte) (bool, error) {
	u.filling.RLock()
	defer u.filling.RUnlock()
	i, at := int(off/u.fs.partSize), off%u.fs.partSize
	p, err := u.part(i, mem)
	if p == nil || err != nil {
		return false, err
	}
	copy(p.b[at:], b)
	if u.filled(i, p, span{at, at + int64(len(b))}) {
		u.send(i, p.b)
	}
	return true, nil
}

// part returns part i, which is not sent yet; nil if there is no memory for it.
func (u *upload) part(i int, mem *[]byte) (*part, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return nil, u.err
	}
	if _, is := u.sent[i]; is {
		return nil, fmt.Errorf("%w: part %d of the object was sent already", errors.ErrUnsupported, i+1)
	}
	if i >= maxParts {
		return nil, fmt.Errorf("%w: an object has at most %d parts of %d bytes; ask for longer ones, up to %d bytes, with &part= in the URL of the store",
			syscall.EFBIG, maxParts, u.fs.partSize, int64(maxPart))
	}
	if u.parts[i] == nil && mem != nil {
		u.parts[i], *mem = &part{b: *mem}, nil
	}
	return u.parts[i], nil
}

// filled notes bytes of a part, and reports whether they were the last, once.
func (u *upload) filled(i int, p *part, s span) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	p.have.add(s)
	if len(p.have) != 1 || p.have[0] != (span{0, int64(len(p.b))}) || u.parts[i] != p {
		return false
	}
	delete(u.parts, i)
	u.sent[i] = Part{}
	return true
}

func (list *spans) add(s span) {
	var all []span
	for _, h := range *list {
		if h.to < s.from || s.to < h.from {
			all = append(all, h)
			continue
		}
		s = span{min(s.from, h.from), max(s.to, h.to)}
	}
	at := 0
	for at < len(all) && all[at].from < s.from {
		at++
	}
	*list = append(append(append(spans{}, all[:at]...), s), all[at:]...)
}

// send uploads a part in the background.
func (u *upload) send(i int, b []byte) {
	u.fs.pool.send()
	u.going.Go(func() {
		u.fs.slots <- struct{}{}
		done, err := u.fs.c.part(background(), u.key, u.id, i+1, b)
		<-u.fs.slots
		u.fs.pool.sent(b)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.err = cmp.Or(u.err, err)
		u.sent[i] = done
	})
}

// zero clears the unwritten bytes of a part.
func (p *part) zero() {
	at := int64(0)
	for _, s := range p.have {
		clear(p.b[at:s.from])
		at = s.to
	}
	clear(p.b[at:])
}

// finish sends what is left, of which what nobody wrote is zero, and makes one object of all.
func (u *upload) finish(size int64, when Condition) (Object, error) {
	n := int((size + u.fs.partSize - 1) / u.fs.partSize)
	for i := range n {
		u.mu.Lock()
		_, is := u.sent[i]
		p := u.parts[i]
		delete(u.parts, i)
		u.mu.Unlock()
		if is {
			continue
		}
		if p == nil {
			p = &part{b: u.fs.pool.take()}
		}
		p.zero()
		u.send(i, p.b[:min(u.fs.partSize, size-int64(i)*u.fs.partSize)])
	}
	u.going.Wait()
	if u.err != nil {
		return Object{}, u.err
	}
	parts := make([]Part, n)
	for i := range n {
		parts[i] = u.sent[i]
	}
	o, err := u.fs.c.complete(background(), u.key, u.id, u.mark, parts, when)
	if err != nil {
		return o, err
	}
	there, err := u.fs.c.head(background(), u.key)
	if err == nil && (there.Mark != u.mark || there.Size != size) {
		err = fmt.Errorf("%w: the object has %d bytes, its parts had %d", ErrTransient, there.Size, size)
	}
	return there, err
}

// abort removes the parts from the storage.
func (u *upload) abort() error {
	u.mu.Lock()
	u.err = cmp.Or(u.err, fs.ErrClosed)
	u.mu.Unlock()
	u.filling.Lock() // what is being written would come into the next use of the memory
	for i, p := range u.parts {
		u.fs.pool.put(p.b)
		delete(u.parts, i)
	}
	u.filling.Unlock()
	u.going.Wait()
	return u.fs.c.abort(background(), u.key, u.id)
}
