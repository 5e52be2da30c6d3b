package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"

	"ckpt/zones"
)

// OneLine joins the lines of an error of several lines. It makes names in it
// printable, since they may come from anywhere.
func OneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return zones.Printable(strings.Join(lines, "; "))
}

func (g *Globals) Printf(format string, args ...any) error {
	text := Text(fmt.Sprintf(format, args...))
	if width := g.Columns(); width > 0 {
		text = Folded(text, width)
	}
	_, err := io.WriteString(g.Out, text)
	return err
}

var named = regexp.MustCompile(`\{\{[a-z]+\}\}|\{[a-z-]+\}|\{(?:launch|checkpoint|restart|stop|prune|show|export|sdk) [^{}]+\}`)

// Worded puts flags and commands for the settings and commands that package coordinator
// names in braces, such as {group-size} and {restart JOB}. {{np}} stands for {np}.
func Worded(text string) string {
	return named.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, "{{") {
			return s[1 : len(s)-1]
		}
		s = s[1 : len(s)-1]
		if strings.Contains(s, " ") {
			return "ckpt " + s
		}
		return "--" + s
	})
}

// Log returns the log that -v shows on standard error.
func (g *Globals) Log() *slog.Logger {
	if !g.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(g.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

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
	fmt.Fprintf(g.Err, "ckpt: %s\n", Text(zones.Printable(fmt.Sprintf(format, args...))))
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
