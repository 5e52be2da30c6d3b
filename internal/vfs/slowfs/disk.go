package slowfs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
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
