package serve

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A bell learns from the kernel of changes that programs of this host make in directories
// (inotify(7)). Changes by other hosts are found by looks at all jobs.
type bell struct {
	file *os.File // nil: no bell

	mu     sync.Mutex
	names  map[int32]string // of watched directories
	known  map[string]bool
	rung   map[string]bool // directories that have changed
	missed bool            // events were lost
	wake   chan struct{}
}

// changes are what a new state of a job does to its directory.
const changes = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_MODIFY | unix.IN_ONLYDIR

func newBell() *bell {
	b := &bell{names: map[int32]string{}, known: map[string]bool{}, rung: map[string]bool{}, wake: make(chan struct{}, 1)}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
		b.file = os.NewFile(uintptr(fd), "inotify")
	}
	return b
}

// watch has the bell hear changes of a directory. Where the kernel has no watch left, looks have
// to do.
func (b *bell) watch(dir string) {
	if b.file == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[dir] {
		return
	}
	raw, err := b.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if wd, err := unix.InotifyAddWatch(int(fd), dir, changes); err == nil {
			b.names[int32(wd)], b.known[dir] = dir, true
		}
	})
}

// listen notes which directories change, until the bell is closed.
func (b *bell) listen() {
	buf := make([]byte, 64<<10)
	for b.file != nil {
		n, err := b.file.Read(buf)
		if err != nil {
			return
		}
		b.hear(buf[:n])
		select {
		case b.wake <- struct{}{}:
		default: // it is to look already
		}
	}
}

// hear reads events of the kernel.
func (b *bell) hear(events []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask, length := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
		if uint64(length) > uint64(len(events)-unix.SizeofInotifyEvent) {
			return
		}
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
		events = events[unix.SizeofInotifyEvent+length:]
		dir, ok := b.names[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			b.missed = true
		case ok && mask&unix.IN_IGNORED != 0:
			delete(b.names, wd)
			delete(b.known, dir)
		case ok && filepath.Base(dir) == "jobs": // of a store: its entry is a job
			b.rung[filepath.Join(dir, name)] = true
		case ok:
			b.rung[dir] = true
		}
	}
}

// changed returns the directories that have changed since the last call, and whether others may have.
func (b *bell) changed() (dirs map[string]bool, missed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dirs, missed = b.rung, b.missed
	b.rung, b.missed = map[string]bool{}, false
	return dirs, missed
}

func (b *bell) close() {
	if b.file != nil {
		b.file.Close()
	}
}
