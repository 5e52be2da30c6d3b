package ui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// IsTerminal reports whether a stream is one.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
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
}

const (
	barDelay = 2 * time.Second
	barPause = 100 * time.Millisecond
	barWidth = 24
)

// NewBar returns nil where a bar would disturb.
func (g *Globals) NewBar(what string, total int64, bytes bool) *Bar {
	if g.Quiet || g.JSON || !IsTerminal(g.Err) || total < 1 {
		return nil
	}
	return &Bar{w: g.Err, what: what, total: total, bytes: bytes, start: time.Now()}
}

// Set shows that n of the total are done.
func (b *Bar) Set(n int64) {
	if b == nil || time.Since(b.start) < barDelay || time.Since(b.last) < barPause {
		return
	}
	b.shown, b.last = true, time.Now()
	io.WriteString(b.w, "\r\x1b[K"+Text(b.line(min(n, b.total), b.last.Sub(b.start))))
}

// line is the bar after some time.
func (b *Bar) line(n int64, took time.Duration) string {
	share := float64(n) / float64(b.total)
	done, of := fmt.Sprint(n), fmt.Sprint(b.total)
	if b.bytes {
		done, of = MiB(n), MiB(b.total)+" MiB"
	}
	left := "?"
	if n > 0 {
		left = Span(time.Duration(float64(took) * (1 - share) / share).Round(time.Second))
	}
	return fmt.Sprintf("%s %3.0f %% |%-*s| %s/%s, %s left", b.what, 100*share, barWidth, strings.Repeat("=", int(barWidth*share)), done, of, left)
}

// Clear takes the bar off the screen, for a line of output or for good.
func (b *Bar) Clear() {
	if b != nil && b.shown {
		b.shown = false
		io.WriteString(b.w, "\r\x1b[K")
	}
}
