package memfs

import (
	"bytes"
	"slices"
)

// FailSync does to a file what a Sync does that fails on Linux. All dirty pages
// count as clean, although the disk has none of them, or some, or parts (Rebello et
// al., Can Applications Recover from fsync Failures?, USENIX ATC 2020). A later Sync
// succeeds without them; a page that is written again is dirty again. The caller
// returns an error of its choice, or none: then the disk has lied.
func (f *file) FailSync() {
	f.fs.mu.Lock()
	n := f.node
	n.fail()
	if f.fs.Reread && len(n.lost) > 0 {
		n.data, n.lost = n.onDisk(), nil
	}
	f.fs.mu.Unlock()
	f.fs.after("failsync", f.name)
}

// FailSyncDir does to a directory what a SyncDir does that fails: a later one
// succeeds without the changes so far, unless there are new ones.
func (m *FS) FailSyncDir(name string) {
	m.mu.Lock()
	if n, err := m.find("syncdir", name); err == nil && n.isDir() {
		n.stale = len(n.pending) > 0
	}
	m.mu.Unlock()
	m.after("failsyncdir", name)
}

// page returns a page of a file that may be shorter.
func page(b []byte, number int) []byte {
	from := min(number*PageSize, len(b))
	return b[from:min(from+PageSize, len(b))]
}

// fail has all dirty pages count as clean.
func (n *node) fail() {
	if n.shared {
		return // there are none
	}
	for p := range (len(n.data) + PageSize - 1) / PageSize {
		if bytes.Equal(page(n.data, p), page(n.synced, p)) {
			continue
		}
		if n.lost == nil {
			n.lost = make(map[int]bool)
		}
		n.lost[p] = true
	}
}

// dirty says that a range has been written.
func (n *node) dirty(off, length int) {
	for p := off / PageSize; p*PageSize < off+length; p++ {
		delete(n.lost, p)
	}
}

// sync writes the dirty pages to the disk.
func (n *node) sync() {
	if len(n.lost) > 0 {
		n.synced, n.shared, n.sum = n.onDisk(), false, nil
		return
	}
	n.synced, n.shared, n.sum = n.data, true, nil
}

// onDisk returns what the disk holds when all dirty pages have been written.
func (n *node) onDisk() []byte {
	b := slices.Clone(n.data)
	for p := range n.lost {
		now := page(b, p)
		clear(now[copy(now, page(n.synced, p)):])
	}
	return b
}
