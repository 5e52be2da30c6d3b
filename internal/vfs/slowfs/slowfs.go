package slowfs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/internal/vfs"
)

// StateName is the file in the directory by which processes share the disk.
const StateName = ".ckpt-slow-disk"

// The state is one word: when the arm is free, in microseconds of the clock that all
// processes of a machine share, and a hash of the place where it then is. A process changes
// both in one step, so that its death between two steps leaves nothing half done.
const (
	timeBits  = 40 // 12 days, after which they begin again
	placeBits = 24
	timeMask  = 1<<timeBits - 1
	placeMask = 1<<placeBits - 1
)

// noPlace is where no piece begins.
const noPlace = 0

// A disk is the arm that processes share.
type disk struct {
	model Model
	state *atomic.Uint64
	clock clock
	// ended is when the last piece of this process ended, on its clock.
	ended atomic.Int64
}

// A clock is the time that all processes share.
type clock interface {
	now() time.Duration
	sleepUntil(time.Duration)
}

type machineClock struct{}

func (machineClock) now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock is always there
	}
	return time.Duration(ts.Nano())
}

func (c machineClock) sleepUntil(t time.Duration) { time.Sleep(t - c.now()) }

// openDisk maps the state, which it makes if need be.
func openDisk(m Model) (*disk, error) {
	name := filepath.Join(m.Dir, StateName)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o660)
	if err != nil {
		return nil, fmt.Errorf("slow disk: %w", err)
	}
	defer f.Close()
	size := os.Getpagesize()
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	if err == nil && fi.Size() < int64(size) {
		err = f.Truncate(int64(size))
	}
	if err != nil {
		return nil, fmt.Errorf("slow disk: %w", err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("slow disk: map %s: %w", name, err)
	}
	return &disk{model: m, state: (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b))), clock: machineClock{}}, nil
}

// placeOf hashes a place of a file. Two places in 16 million have the same hash, which
// spares a seek.
func placeOf(file uint64, off int64) uint64 {
	h := fnv.New64a()
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(file>>(8*i)), byte(uint64(off)>>(8*i))
	}
	h.Write(b[:])
	return max(h.Sum64()&placeMask, 1)
}

// maxAhead is how far ahead of now the arm may be taken. A state beyond that is from before
// the machine was started.
const maxAhead = 10 * time.Minute

// late is how long after its last piece a process may come and be served as if it had come
// at once: a process wakes up late, and a real disk has its next request by then.
const late = 20 * time.Millisecond

// arrival is when an operation comes that begins now.
func (d *disk) arrival() time.Duration {
	now := d.clock.now()
	if e := time.Duration(d.ended.Load()); e <= now && now-e <= late {
		return e
	}
	return now
}

// reserve takes the arm for a piece that came at a time, after those that took it before,
// and returns when it ends.
func (d *disk) reserve(came time.Duration, file uint64, off, n int64, write bool) (end time.Duration) {
	place := uint64(noPlace)
	if off >= 0 {
		place = placeOf(file, off+n)
	}
	for {
		old := d.state.Load()
		seeks := off < 0 || old&placeMask != placeOf(file, off)
		end = max(came, freeAt(old>>placeBits, d.clock.now())) + d.model.cost(n, write, seeks)
		if d.state.CompareAndSwap(old, micros(end)<<placeBits|place) {
			return end
		}
	}
}

// micros rounds to the nearest: always the same way would add up.
func micros(t time.Duration) uint64 {
	return uint64((t+time.Microsecond/2)/time.Microsecond) & timeMask
}

// freeAt is when the arm is free by the state, which has the last bits of the time only. In
// the past it is long ago or not at all.
func freeAt(state uint64, now time.Duration) time.Duration {
	diff := int64(state-micros(now)) << (64 - timeBits) >> (64 - timeBits)
	if diff > int64(maxAhead/time.Microsecond) {
		return 0
	}
	return now + time.Duration(diff)*time.Microsecond
}

// use waits as long as the disk takes for n bytes that came at a time and were moved beneath
// since: both take their time at once.
func (d *disk) use(came time.Duration, file uint64, off, n int64, write bool) {
	for n > 0 {
		piece := min(n, d.model.Unit)
		came = d.wait(d.reserve(came, file, off, piece, write))
		off, n = off+piece, n-piece
	}
}

// move is an operation without bytes that leaves the arm somewhere else.
func (d *disk) move(came time.Duration) { d.wait(d.reserve(came, 0, -1, 0, true)) }

// wait waits for the end of a piece. The next one of the same operation comes at that time,
// however late the process wakes up.
func (d *disk) wait(end time.Duration) time.Duration {
	d.clock.sleepUntil(end)
	d.ended.Store(int64(end))
	return end
}

// FS is a file system on a slow disk. It goes around the page cache if the file system
// beneath does.
type FS struct {
	vfs.Watched
	disk *disk
}

var _ vfs.FS = (*FS)(nil)

// Open returns a file system whose files beneath m.Dir are as slow as the disk says. The
// directory must exist; it keeps the state of the disk in the file StateName.
func Open(in vfs.FS, m Model) (*FS, error) {
	d, err := openDisk(m)
	if err != nil {
		return nil, err
	}
	return onDisk(in, d), nil
}

func onDisk(in vfs.FS, d *disk) *FS {
	s := &FS{disk: d}
	s.Watched = vfs.Watch(in, s.open)
	return s
}

// on reports whether a file is on the disk.
func (s *FS) on(name string) bool {
	name, err := filepath.Abs(name)
	rest, found := strings.CutPrefix(name, s.disk.model.Dir)
	return err == nil && found && (rest == "" || rest[0] == '/' || s.disk.model.Dir == "/")
}

// idOf is how the disk knows a file: by its name when it was opened.
func idOf(name string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, filepath.Clean(name))
	return h.Sum64()
}

func (s *FS) open(name string, w vfs.Way) (vfs.File, error) {
	f, err := w.Open(s.FS, name)
	if err != nil || !s.on(name) {
		return f, err
	}
	return &file{File: f, disk: s.disk, id: idOf(name), direct: w.Direct}, nil
}

// SyncDir implements vfs.FS. It moves the arm to the place of the directory.
func (s *FS) SyncDir(name string) error {
	came := s.disk.arrival()
	err := s.FS.SyncDir(name)
	if err == nil && s.on(name) {
		s.disk.move(came)
	}
	return err
}

// readAhead is what a read through the page cache fetches at least, as Linux does.
const readAhead = 128 << 10

// A file is on the slow disk.
type file struct {
	vfs.File
	disk   *disk
	id     uint64
	direct bool
	// The range [from, to) was the last to be fetched into the page cache.
	mu       sync.Mutex
	from, to int64
	// dirty says that something was written since the last Sync.
	dirty atomic.Bool
}

// fetch waits for the bytes of a read that came at a time. Small reads beside each other,
// as of an index, come from the page cache after the first.
func (f *file) fetch(came time.Duration, off, n int64) {
	if f.direct || n <= 0 {
		f.disk.use(came, f.id, off, n, false)
		return
	}
	f.mu.Lock()
	from, to := f.from, f.to
	f.mu.Unlock()
	if from <= off && off < to {
		n -= min(n, to-off)
		off = to
	}
	if n == 0 {
		return
	}
	ahead := max(n, readAhead)
	if size, err := f.Size(); err == nil {
		ahead = max(n, min(ahead, size-off))
	}
	f.disk.use(came, f.id, off, ahead, false)
	f.mu.Lock()
	f.from, f.to = off, off+ahead
	f.mu.Unlock()
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	came := f.disk.arrival()
	n, err := f.File.ReadAt(b, off)
	f.fetch(came, off, int64(n))
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	came := f.disk.arrival()
	n, err := f.File.WriteAt(b, off)
	f.dirty.Store(true)
	f.disk.use(came, f.id, off, int64(n), true)
	return n, err
}

// Sync implements vfs.File. After writes it moves the arm to where the file system keeps
// the length of the file.
func (f *file) Sync() error {
	came := f.disk.arrival()
	err := f.File.Sync()
	if f.dirty.Swap(false) {
		f.disk.move(came)
	}
	return err
}

// ReadV implements vfs.File.
func (f *file) ReadV(into [][]byte, off int64) (int64, error) {
	came := f.disk.arrival()
	n, err := f.File.ReadV(into, off)
	f.fetch(came, off, n)
	return n, err
}

// WriteV implements vfs.File.
func (f *file) WriteV(from [][]byte, off int64) (int64, error) {
	came := f.disk.arrival()
	n, err := f.File.WriteV(from, off)
	f.dirty.Store(true)
	f.disk.use(came, f.id, off, n, true)
	return n, err
}

// ReopenDirect implements vfs.File.
func (f *file) ReopenDirect() (vfs.File, error) {
	in, err := f.File.ReopenDirect()
	if err != nil {
		return nil, err
	}
	return &file{File: in, disk: f.disk, id: f.id, direct: true}, nil
}
