package filecache

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
)

// A model knows what a file may hold after a failure.
type model struct {
	mu      sync.Mutex
	clock   int
	initial []byte
	writes  []*written
	synced  []syncing
}

// A written is a write. One whose end is 0 is under way, or failed.
type written struct {
	off        int64
	data       []byte
	begin, end int
}

// A syncing is a sync, with what the file had then.
type syncing struct {
	content []byte
	done    bool
}

func (m *model) begin(off int64, data []byte) *written {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	w := &written{off: off, data: data, begin: m.clock}
	m.writes = append(m.writes, w)
	return w
}

func (m *model) end(w *written) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	w.end = m.clock
}

// content returns what the file has when nothing is under way and no two writes to the
// same bytes were at the same time.
func (m *model) content() []byte {
	b := slices.Clone(m.initial)
	for _, w := range m.writes {
		copy(b[w.off:], w.data)
	}
	return b
}

func (m *model) beginSync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = append(m.synced, syncing{content: m.content()})
}

func (m *model) endSync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced[len(m.synced)-1].done = true
}

// snapshot returns a copy that does not change. The mutex is held.
func (m *model) snapshot() *model {
	s := &model{clock: m.clock, initial: m.initial, synced: slices.Clone(m.synced)}
	for _, w := range m.writes {
		c := *w
		s.writes = append(s.writes, &c)
	}
	return s
}

// candidates returns the writes that may be the last one of a byte; nil stands for the
// initial byte.
func (m *model) candidates(at int64) []*written {
	var over []*written
	for _, w := range m.writes {
		if w.off <= at && at < w.off+int64(len(w.data)) {
			over = append(over, w)
		}
	}
	list := []*written{nil}
	if slices.ContainsFunc(over, func(w *written) bool { return w.end > 0 }) {
		list = nil
	}
	for _, w := range over {
		// A write that began after the end of this one, and was acknowledged, is over it.
		if w.end == 0 || !slices.ContainsFunc(over, func(o *written) bool { return o.end > 0 && o.begin > w.end }) {
			list = append(list, w)
		}
	}
	return list
}

// edges returns the offsets between which all bytes have the same candidates.
func (m *model) edges() []int64 {
	list := []int64{0, int64(len(m.initial))}
	for _, w := range m.writes {
		list = append(list, w.off, w.off+int64(len(w.data)))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (m *model) value(w *written, at int64) byte {
	if w == nil {
		return m.initial[at]
	}
	return w.data[at-w.off]
}

// legal checks that got has all acknowledged writes, and all or nothing of each of the
// others unless they may be torn.
func (m *model) legal(got []byte, torn bool) error {
	if len(got) != len(m.initial) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(m.initial))
	}
	has := make(map[*written]int64) // a byte that shows that a write is there
	not := make(map[*written]int64)
	edges := m.edges()
	for i, from := range edges[:len(edges)-1] {
		list := m.candidates(from)
		for at := from; at < edges[i+1]; at++ {
			if !slices.ContainsFunc(list, func(w *written) bool { return m.value(w, at) == got[at] }) {
				return fmt.Errorf("byte %d is %d, which is not of the last write (%d candidates)", at, got[at], len(list))
			}
			if len(list) != 2 || m.value(list[0], at) == m.value(list[1], at) {
				continue
			}
			for k, w := range list {
				if w == nil || w.end > 0 {
					continue
				}
				if m.value(w, at) == got[at] {
					has[w] = at
				} else if o := list[1-k]; o == nil || o.end > 0 && o.end < w.begin {
					not[w] = at // and not since another one at the same time was over it
				}
			}
		}
	}
	for w, at := range has {
		if other, both := not[w]; both && !torn {
			return fmt.Errorf("a write of %d bytes at %d is torn: byte %d is new, byte %d is not", len(w.data), w.off, at, other)
		}
	}
	return nil
}

// version checks that got is what the last sync stored, or the one that was under way.
func (m *model) version(got []byte) error {
	for _, s := range slices.Backward(m.synced) {
		if bytes.Equal(got, s.content) {
			return nil
		}
		if s.done {
			return fmt.Errorf("it is not the last version: %w", same(got, s.content))
		}
	}
	return same(got, m.initial)
}
