package memfs

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash says what a loss of power leaves of what was not synced.
type Crash struct {
	Mode Mode
	Seed uint64 // of Mode Random
}

// Mode is a kind of crash.
type Mode uint8

// The kinds of crashes.
const (
	// Random decides for each change of a directory and each page of a file
	// by itself; a page may be torn, and a file have any length between.
	Random Mode = iota
	// Lost keeps nothing that was not synced.
	Lost
	// Kept keeps everything.
	Kept
)

// CrashClone returns the file system as it may be after a loss of power now.
// It has no locks. The same crash of the same file system gives the
// same clone.
func (m *FS) CrashClone(c Crash) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &crasher{mode: c.Mode, rng: rand.New(rand.NewPCG(c.Seed, 0)), files: make(map[*node]*node)}
	clone := New()
	clone.root = r.dir(m.root)
	return clone
}

type crasher struct {
	mode  Mode
	rng   *rand.Rand
	files map[*node]*node // a file may be under its old and its new name
}

// keep decides the fate of one change.
func (r *crasher) keep() bool {
	switch r.mode {
	case Lost:
		return false
	case Kept:
		return true
	}
	return r.rng.IntN(2) == 0
}

func (r *crasher) dir(d *node) *node {
	entries := maps.Clone(d.durable)
	for _, c := range d.pending {
		if r.keep() {
			c.apply(entries)
		}
	}
	clone := newDir()
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		n := entries[name]
		switch {
		case n.isDir():
			clone.entries[name] = r.dir(n)
		case r.files[n] != nil:
			clone.entries[name] = r.files[n]
		default:
			f := r.file(n)
			r.files[n] = f
			clone.entries[name] = f
		}
	}
	clone.durable = maps.Clone(clone.entries)
	return clone
}

func (r *crasher) file(n *node) *node {
	data := n.synced
	switch {
	case n.shared: // nothing to lose
		n.checksum()
		return &node{data: data, synced: data, shared: true, sum: n.sum}
	case r.mode == Kept:
		data = n.onDisk()
	case r.mode == Random:
		data = r.torn(n.synced, n.data)
	}
	return &node{data: data, synced: data, shared: true}
}

// Digest returns a value that tells file systems apart by what is in them.
func (m *FS) Digest() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.root.digest(nil))
}

func (n *node) digest(b []byte) []byte {
	if !n.isDir() {
		return fmt.Appendf(b, "%d %x", len(n.data), n.checksum())
	}
	b = append(b, '{')
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		b = n.entries[name].digest(fmt.Appendf(b, "%q ", name))
	}
	return append(b, '}')
}

// checksum of the data. It is kept for synced data, which clones share.
func (n *node) checksum() uint32 {
	if !n.shared {
		return crc32.Checksum(n.data, castagnoli)
	}
	if n.sum == nil {
		sum := crc32.Checksum(n.data, castagnoli)
		n.sum = &sum
	}
	return *n.sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// torn mixes the old and the new bytes of a file.
func (r *crasher) torn(old, now []byte) []byte {
	size := len(old) + r.rng.IntN(max(len(now)-len(old), 0)+1)
	switch r.rng.IntN(4) {
	case 0:
		size = len(old)
	case 1:
		size = len(now)
	}
	b := make([]byte, size) // unwritten parts read as zeros
	copy(b, old)
	for at := 0; at < size; at += PageSize {
		end := min(at+PageSize, size)
		switch r.rng.IntN(4) {
		case 0: // the old page
		case 1: // torn in the middle
			end = at + r.rng.IntN(end-at+1)
			fallthrough
		default:
			if at < len(now) {
				copy(b[at:end], now[at:min(end, len(now))])
			}
		}
	}
	return b
}
