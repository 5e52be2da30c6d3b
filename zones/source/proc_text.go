package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"ckpt/zones"
)

// maxLine bounds a line of ReadText: a path and less than 100 bytes.
const maxLine = 64 << 10

// ReadText parses the text of /proc/PID/smaps or of /proc/PID/maps. The latter has no
// page counts, so that Resident, Dirty and Occupied are -1. The text must be of one
// process: for several, the error names the line where the second begins. Errors in
// the text are *zones.FormatError values with the line.
//
// A text that is cut off is an error: its sizes would be too small.
//
// The program is guessed from the areas: the heap follows the executable.
func ReadText(name string, r io.Reader) (*zones.Process, error) {
	text := parser{saved: true}
	areas, err := text.parse(name, r)
	if err != nil {
		return nil, err
	}
	if len(areas) == 0 {
		return nil, &zones.FormatError{File: name, Line: 1,
			Reason: "no area of memory in it; threads of the kernel and processes that have ended have none"}
	}
	p := &zones.Process{Source: name, Format: zones.FormatSmaps, Rank: -1, Areas: areas}
	if p.Exe = executable(areas); p.Exe != "" {
		p.Name = path.Base(p.Exe)
	}
	DMTCP.Apply(p)
	return p, nil
}

func (p *parser) parse(name string, r io.Reader) ([]zones.Area, error) {
	in := bufio.NewReaderSize(r, maxLine)
	fail := func(reason string) error {
		return &zones.FormatError{File: name, Line: p.line, Reason: reason}
	}
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 || err == nil {
			p.line++
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fail("the compressed text is cut off here")
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fail(fmt.Sprintf("longer than %d bytes: %s", maxLine, quote(line)))
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")) // some mailer may have saved it
		if len(line) > 0 {
			if reason := p.add(line); reason != "" {
				if err == io.EOF && p.saved && p.line > 1 {
					reason += ", or the text is cut off in it"
				}
				return nil, fail(reason + ": " + quote(line))
			}
		}
		if err == io.EOF {
			p.finish()
			if reason := p.cutOff(); reason != "" {
				return nil, fail(reason)
			}
			return p.areas, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// quote returns the printable beginning of a line.
func quote(line []byte) string {
	const most = 80
	if len(line) > most {
		return fmt.Sprintf("%q...", line[:most])
	}
	return fmt.Sprintf("%q", line)
}

// A parser collects the lines of one process.
type parser struct {
	areas []zones.Area
	pages counts // of the last area
	names map[string]string
	line  int64
	space uint64 // bytes of all areas
	saved bool   // somebody saved the text, perhaps not all of it

	lines, fewest int // of the last area, and of the area before it that has fewest
}

// cutOff says why the text cannot be all of a process, or "". The kernel lists the same
// lines for each area, and the stack last or before its own areas, of which [vsyscall] has
// the highest address.
func (p *parser) cutOff() string {
	n := len(p.areas)
	if !p.saved || n == 0 {
		return ""
	}
	last := &p.areas[n-1]
	const kernelHalf = 1 << 63 // of the addresses
	switch {
	case strings.HasPrefix(last.Name, "[") && !strings.HasSuffix(last.Name, "]"), last.Start >= kernelHalf && last.Name == "":
		return "the text is cut off in the name of an area"
	case n > 1 && p.lines < p.fewest:
		return fmt.Sprintf("the text is cut off: its last area has %d lines, each area before it at least %d", p.lines, p.fewest)
	case last.Name != "[vsyscall]" && !slices.ContainsFunc(p.areas, func(a zones.Area) bool { return a.Name == "[stack]" }):
		return "the text is cut off: the stack of the process, which comes last, is not in it"
	}
	return ""
}

// add handles the next line and returns the reason if it is invalid. A line of smaps
// that describes the area above it begins with a word and a colon; the line of an area
// begins with addresses.
func (p *parser) add(line []byte) string {
	word, rest, _ := bytes.Cut(line, []byte(" "))
	if n := len(word) - 1; n >= 0 && word[n] == ':' {
		if len(p.areas) == 0 {
			return "belongs to an area, but none comes before it"
		}
		p.lines++
		if !p.pages.set(word[:n], rest) {
			return "not a size like 4 kB"
		}
		return ""
	}
	return p.begin(line)
}

// begin takes a line like
//
//	7f01c000-7f021000 rw-p 00000000 00:00 0    [heap]
func (p *parser) begin(line []byte) string {
	s := scanner{line}
	var a zones.Area
	var major, minor uint64
	var perm []byte
	ok := s.number(16, '-', &a.Start) && s.number(16, ' ', &a.End) && s.word(&perm) &&
		s.number(16, ' ', &a.Offset) && s.number(16, ':', &major) && s.number(16, ' ', &minor) &&
		s.number(10, ' ', &a.Inode)
	if !ok || len(perm) != 4 || a.End <= a.Start || major >= 1<<32 || minor >= 1<<32 {
		return "not a line of smaps or maps"
	}
	prot, err := zones.ParseProt(string(perm))
	if err != nil || perm[3] != 's' && perm[3] != 'p' {
		return "not a line of smaps or maps"
	}
	a.Prot, a.Shared = prot, perm[3] == 's'
	a.Device = major<<32 | minor
	a.Name = p.intern(bytes.TrimLeft(s.rest, " "))

	p.finish()
	switch n := len(p.areas); {
	case a.Name == "[rollup]":
		return "smaps_rollup holds the sums only; save /proc/PID/smaps instead"
	case n == maxAreas:
		return fmt.Sprintf("more than %d areas", maxAreas)
	case n > 0 && a.Start < p.areas[n-1].End:
		return "addresses start again from below; if here begins another process, split the text before this line"
	case a.End-a.Start > maxSpace-p.space:
		return "areas larger than any address space"
	}
	p.space += a.End - a.Start
	p.areas = append(p.areas, a)
	if n := len(p.areas); n == 2 || p.lines < p.fewest {
		p.fewest = p.lines
	}
	p.pages, p.lines = noCounts, 0
	return ""
}

// finish completes the last area.
func (p *parser) finish() {
	if n := len(p.areas); n > 0 {
		p.pages.fill(&p.areas[n-1])
	}
}

// intern returns the name as a string, shared between equal names: a library has five
// areas, and a text may have a million lines.
func (p *parser) intern(name []byte) string {
	if len(name) == 0 {
		return ""
	}
	if s, ok := p.names[string(name)]; ok {
		return s
	}
	if p.names == nil {
		p.names = make(map[string]string)
	}
	s := string(name)
	p.names[s] = s
	return s
}

// executable guesses the program: the file before the heap, otherwise the first
// executable mapping. If a dynamic linker was run as a command, it comes before the
// heap, and the program is elsewhere.
func executable(areas []zones.Area) string {
	file := ""
	for i := range areas {
		a := &areas[i]
		if a.Name == "[heap]" && file != "" {
			return file
		}
		if program(a) {
			file = a.File()
		}
	}
	for i := range areas {
		if a := &areas[i]; a.Prot&zones.Exec != 0 && program(a) {
			return a.File()
		}
	}
	return ""
}

func program(a *zones.Area) bool {
	if a.Shared || !strings.HasPrefix(a.Name, "/") {
		return false
	}
	base := path.Base(a.File())
	return !strings.HasPrefix(base, "ld-") && !strings.HasPrefix(base, "ld.so") && !strings.HasPrefix(base, "ld64.so")
}

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
