package nodes

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// ParityInfo describes a parity file that is durable.
type ParityInfo struct {
	Set   int `json:"set"`
	Index int `json:"index"` // position of its node in the set
	// Bytes is the length of the file, Digest the one of its header and checksums,
	// hexadecimal.
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

// A Contributor takes what one member has for one holder of its set, in this process
// or another. Add may be called by several goroutines, in any order; it does not keep
// p, a part of one unit. It may report the error of another Add, of any member.
type Contributor interface {
	Add(off int64, p []byte) error
	// End says that the member's file is complete and size bytes long: what was not
	// added is zero. It returns when the parity of all members is durable.
	End(size int64) (ParityInfo, error)
	// Abort says that the member's file will not become complete. The parity file is
	// removed, and the other members' calls end with an error.
	Abort()
}

// Contribution is a Sink that gives the bytes of a member's file to the holders of
// its set.
type Contribution struct {
	layout  layout
	member  int
	holders []Contributor // by position

	mu    sync.Mutex
	files []ParityInfo
}

// Coded returns the Sink of a member of a set, given by its position. The holders are
// given by theirs: all of Holders.
func Coded(set Set, member int, holders map[int]Contributor) (*Contribution, error) {
	return coded(set, member, holders, UnitBytes)
}

func coded(set Set, member int, holders map[int]Contributor, unit int64) (*Contribution, error) {
	l, err := newLayout(set, unit)
	if err != nil {
		return nil, err
	}
	c := &Contribution{layout: l, member: member, holders: make([]Contributor, l.n)}
	for _, i := range set.Holders() {
		if c.holders[i] = holders[i]; c.holders[i] == nil {
			return nil, fmt.Errorf("set %d: member %d lacks holder %d of its parity (there are %v)", set.ID, member, i, slices.Sorted(maps.Keys(holders)))
		}
	}
	return c, nil
}

// WriteAt implements Sink.
func (c *Contribution) WriteAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := off + int64(done)
		unit := at / c.layout.unit
		n := min(len(p)-done, int(c.layout.unit-at%c.layout.unit))
		row := c.layout.rowOf(c.member, unit)
		for j := range c.layout.m {
			if err := c.holders[c.layout.holder(row, j)].Add(at, p[done:done+n]); err != nil {
				return done, err
			}
		}
		done += n
	}
	return done, nil
}

// Finish implements Sink.
func (c *Contribution) Finish(size int64) error {
	var g errgroup.Group
	for _, h := range c.holders {
		g.Go(func() error {
			info, err := h.End(size)
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.files = append(c.files, info)
			return nil
		})
	}
	return g.Wait()
}

// Abort implements Sink.
func (c *Contribution) Abort() {
	for _, h := range c.holders {
		h.Abort()
	}
}

// Files returns the parity files that protect the member's file, once it is finished.
func (c *Contribution) Files() []ParityInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := slices.Clone(c.files)
	slices.SortFunc(files, func(a, b ParityInfo) int { return a.Index - b.Index })
	return files
}
