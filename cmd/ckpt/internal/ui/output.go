package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"ckpt/internal/wording"
	"ckpt/zones"
)

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
