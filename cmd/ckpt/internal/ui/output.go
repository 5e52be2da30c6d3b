package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/term"

	"ckpt/internal/wording"
	"ckpt/zones"
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
	note         string        // what goes on besides
	first        *mark         // where the rate is measured from; nil before the first Set
	tell         func(n int64) // takes the place of the terminal
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
	if g.Advance != nil {
		return &Bar{tell: func(n int64) { g.Advance(what, n, total) }}
	}
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
	if b.tell != nil {
		b.tell(n)
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

// maxLine bounds a line about an error, in characters: it may quote a long file.
const maxLine = 1000

// OneLine joins the lines of an error of several lines. It makes names in it
// printable, since they may come from anywhere, and leaves the middle of a long one out.
func OneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return shortened(zones.Printable(strings.Join(lines, "; ")))
}

// shortened keeps the beginning and the end of a long text, which say where and why.
func shortened(text string) string {
	if len(text) <= maxLine {
		return text
	}
	runes := []rune(text)
	if len(runes) <= maxLine {
		return text
	}
	left := len(runes) - maxLine
	return fmt.Sprintf("%s [%d characters] %s", string(runes[:maxLine*3/4]), left, string(runes[maxLine*3/4+left:]))
}

func (g *Globals) Printf(format string, args ...any) error {
	text := Text(fmt.Sprintf(format, args...))
	if width := g.Columns(); width > 0 {
		text = Folded(text, width)
	}
	_, err := io.WriteString(g.Out, text)
	return err
}

// Libraries name settings and commands in their texts, as ckpt does.
func init() {
	wording.Use(func(setting string) string { return "--" + setting }, func(command string) string { return "ckpt " + command })
}

// Log returns the log that -v shows on standard error.
func (g *Globals) Log() *slog.Logger {
	if !g.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(presentErr{g}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// presentErr is the standard error that a command has at the moment.
type presentErr struct{ g *Globals }

func (p presentErr) Write(b []byte) (int, error) { return p.g.Err.Write(b) }

// Count formats a number and a noun.
func Count(n int, thing string) string { return Plural(n, thing, thing+"s") }

// Plural is count for nouns whose plural does not end in s.
func Plural(n int, thing, things string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %s", n, things)
}

// Warn prints a line on standard error. It makes names in it printable, since they
// may come from anywhere.
func (g *Globals) Warn(format string, args ...any) {
	fmt.Fprintf(g.Err, "ckpt: %s\n", Text(shortened(zones.Printable(fmt.Sprintf(format, args...)))))
}

// PrintJSON prints one document, indented for people.
func (g *Globals) PrintJSON(v any) error {
	if g.Result != nil {
		g.Result(v)
		return nil
	}
	enc := json.NewEncoder(g.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Show prints v as JSON, or as text by a function.
func (g *Globals) Show(v any, text func() error) error {
	if g.JSON {
		return g.PrintJSON(v)
	}
	return text()
}

// CommandOutput is the standard output of a command: the real one, so that the
// command sees a terminal if there is one.
func (g *Globals) CommandOutput() io.Writer {
	if g.JSON {
		return g.Err
	}
	if n, ok := g.Out.(*Noticing); ok {
		return n.W
	}
	return g.Out
}
