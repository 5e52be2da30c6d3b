package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"
)

// IsTerminal reports whether a stream is one.
func IsTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Progress returns a function that adds finished bytes to a progress bar, and one
// that ends the bar.
func (g *Globals) Progress(what string, total int64) (add func(int64), done func()) {
	b := g.NewBar(what, total, true)
	sum := int64(0)
	return func(n int64) {
		sum += n
		b.Set(sum)
	}, b.Clear
}

// A Bar shows progress on a terminal, after two seconds. A nil bar shows nothing.
type Bar struct {
	w            io.Writer
	what         string
	total        int64
	bytes, shown bool
	start, last  time.Time
	note         string // what goes on besides
	first        *mark  // where the rate is measured from; nil before the first Set
}

// A mark is how much was done at a time.
type mark struct {
	n  int64
	at time.Time
}

const (
	barDelay = 2 * time.Second
	barPause = 100 * time.Millisecond
	barWidth = 12
)

// NewBar returns nil where a bar would disturb.
func (g *Globals) NewBar(what string, total int64, bytes bool) *Bar {
	if g.Quiet || g.JSON || !IsTerminal(g.Err) || total < 1 {
		return nil
	}
	return &Bar{w: g.Err, what: what, total: total, bytes: bytes, start: time.Now()}
}

// Note says what goes on besides, "" for nothing.
func (b *Bar) Note(text string) {
	if b != nil {
		b.note = text
	}
}

// Set shows that n of the total are done. The rate counts from the first Set, or from one
// to less.
func (b *Bar) Set(n int64) {
	if b == nil {
		return
	}
	now := time.Now()
	switch {
	case b.first == nil && b.bytes:
		b.first = &mark{0, b.start}
	case b.first == nil || n < b.first.n:
		b.first = &mark{n, now}
	}
	if now.Sub(b.start) < barDelay || now.Sub(b.last) < barPause {
		return
	}
	b.shown, b.last = true, now
	io.WriteString(b.w, "\r\x1b[K"+cut(b.w, Text(b.line(min(n, b.total), now))))
}

// cut shortens a line that is wider than its terminal, on which it would wrap.
func cut(w io.Writer, line string) string {
	f := fileOf(w)
	if f == nil {
		return line
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if runes := []rune(line); err == nil && width > 0 && len(runes) >= width {
		return string(runes[:width-1])
	}
	return line
}

// line is the bar at a time.
func (b *Bar) line(n int64, now time.Time) string {
	share := float64(n) / float64(b.total)
	done, of := fmt.Sprint(n), fmt.Sprint(b.total)
	if b.bytes {
		done, of = MiB(n), MiB(b.total)+" MiB"
	}
	left := "?"
	if b.first != nil && n > b.first.n {
		each := float64(now.Sub(b.first.at)) / float64(n-b.first.n)
		left = Span(time.Duration(each * float64(b.total-n)).Round(time.Second))
	}
	line := fmt.Sprintf("%s %3.0f %% |%-*s| %s/%s, %s elapsed, %s left", b.what, 100*share, barWidth, strings.Repeat("=", int(barWidth*share)),
		done, of, Span(now.Sub(b.start).Round(time.Second)), left)
	if b.note != "" {
		line += ", " + b.note
	}
	return line
}

// Clear takes the bar off the screen, for a line of output or for good.
func (b *Bar) Clear() {
	if b != nil && b.shown {
		b.shown = false
		io.WriteString(b.w, "\r\x1b[K")
	}
}
