package proc

import (
	"bytes"
	"math"
	"strings"

	"ckpt/zones"
)

// A scanner splits a line from the left.
type scanner struct{ rest []byte }

// number reads an unsigned number, and returns the byte behind it, or 0 at the end of
// the line.
func (s *scanner) number(base uint64, end byte, to *uint64) bool {
	var n uint64
	i := 0
	for ; i < len(s.rest); i++ {
		d := digit(s.rest[i])
		if d >= base {
			break
		}
		if n > (math.MaxUint64-d)/base {
			return false
		}
		n = n*base + d
	}
	if i == 0 {
		return false
	}
	if i < len(s.rest) {
		if s.rest[i] != end {
			return false
		}
		s.rest = s.rest[i+1:]
	} else {
		s.rest = nil
	}
	*to = n
	return true
}

func digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10
	}
	return 255
}

// word reads up to the next blank.
func (s *scanner) word(to *[]byte) bool {
	w, rest, ok := bytes.Cut(s.rest, []byte(" "))
	*to, s.rest = w, rest
	return ok
}

// counts has the sizes in smaps for the pages of one area, in bytes, or -1 for missing
// lines. Old kernels lack some of the lines, new ones have others.
type counts struct {
	rss, swap, anonymous      int64
	privateDirty, sharedDirty int64
	privateHuge, sharedHuge   int64
}

var noCounts = counts{-1, -1, -1, -1, -1, -1, -1}

// set stores a value by the name of its line, and ignores irrelevant lines.
func (c *counts) set(name, value []byte) bool {
	switch string(name) {
	case "Rss":
		return kilobytes(value, &c.rss)
	case "Swap":
		return kilobytes(value, &c.swap)
	case "Anonymous":
		return kilobytes(value, &c.anonymous)
	case "Private_Dirty":
		return kilobytes(value, &c.privateDirty)
	case "Shared_Dirty":
		return kilobytes(value, &c.sharedDirty)
	case "Private_Hugetlb":
		return kilobytes(value, &c.privateHuge)
	case "Shared_Hugetlb":
		return kilobytes(value, &c.sharedHuge)
	}
	return true
}

// kilobytes reads a value like "     132 kB".
func kilobytes(value []byte, to *int64) bool {
	s := scanner{bytes.TrimLeft(value, " ")}
	var n uint64
	if !s.number(10, ' ', &n) || string(s.rest) != "kB" || n > maxSpace>>10 {
		return false
	}
	*to = int64(n) << 10
	return true
}

// fill sets the page counts of the area.
//
// smaps lists pages of hugetlbfs separately: Rss, the dirty counts and Anonymous leave
// them out. They have no disk behind them, so each counts as dirty and as having
// contents.
func (c *counts) fill(a *zones.Area) {
	a.Resident, a.Dirty, a.Occupied = -1, -1, -1
	if c.rss < 0 {
		return
	}
	// A page on its way between memory and swap may be counted in both. The area
	// cannot hold more than its length.
	size := a.Bytes()
	sum := func(parts ...int64) int64 {
		var n int64
		for _, p := range parts {
			n = min(n+max(p, 0), size)
		}
		return n
	}
	a.Resident = sum(c.rss, c.swap, c.privateHuge, c.sharedHuge)
	if c.privateDirty >= 0 || c.sharedDirty >= 0 {
		a.Dirty = sum(c.privateDirty, c.sharedDirty, c.swap, c.privateHuge, c.sharedHuge)
	}
	switch {
	case a.Shared:
		a.Occupied = a.Resident
	case c.anonymous >= 0:
		a.Occupied = sum(c.anonymous, c.swap, c.privateHuge, c.sharedHuge)
	case nameless(a.Name) || strings.HasPrefix(a.Name, "["):
		a.Occupied = a.Resident // contents outside of files are its own
	}
}
