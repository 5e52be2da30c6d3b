package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"ckpt/zones"
)

func (g *globals) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(g.out, format, args...)
	return err
}

// log returns the log that -v shows on standard error.
func (g *globals) log() *slog.Logger {
	if !g.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(g.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// count formats a number and a noun.
func count(n int, thing string) string { return plural(n, thing, thing+"s") }

// plural is count for nouns whose plural does not end in s.
func plural(n int, thing, things string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %s", n, things)
}

// warn prints a line on standard error. It makes names in it printable, since they
// may come from anywhere.
func (g *globals) warn(format string, args ...any) {
	fmt.Fprintf(g.err, "ckpt: %s\n", zones.Printable(fmt.Sprintf(format, args...)))
}

// table prints rows under a header. It is the only place that knows the
// library behind it. Columns whose name starts with "|" align to the right.
func (g *globals) table(header []string, rows [][]string) error {
	align := make([]tw.Align, len(header))
	names := make([]string, len(header))
	for i, name := range header {
		align[i], names[i] = tw.AlignLeft, name
		if name != "" && name[0] == '|' {
			align[i], names[i] = tw.AlignRight, name[1:]
		}
	}
	t := tablewriter.NewTable(g.out,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithAlignment(align),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: "  ", Overwrite: true}),
	)
	t.Header(names)
	for _, row := range rows {
		for i := range row {
			row[i] = zones.Printable(row[i]) // names come from files
		}
	}
	if err := t.Bulk(rows); err != nil {
		return err
	}
	return t.Render()
}

// mib formats bytes as MiB, the unit of the tables.
func mib(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 2, 64) }

// seconds formats a time in the unit that reads best.
func seconds(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case s < 0.01:
		return strconv.FormatFloat(s*1e3, 'f', 2, 64) + " ms"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(s, 'f', 2, 64) + " s"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress returns a function that adds finished bytes to a progress bar, and one
// that ends the bar.
func (g *globals) progress(what string, total int64) (add func(int64), done func()) {
	b := g.newBar(what, total, true)
	sum := int64(0)
	return func(n int64) {
		sum += n
		b.set(sum)
	}, b.clear
}

// A bar shows progress on a terminal, after two seconds. A nil bar shows nothing.
type bar struct {
	start time.Time
	total int64
	make  func() *progressbar.ProgressBar
	bar   *progressbar.ProgressBar
}

// newBar returns nil where a bar would disturb.
func (g *globals) newBar(what string, total int64, bytes bool) *bar {
	if g.quiet || g.json || !isTerminal(g.err) || total < 1 {
		return nil
	}
	return &bar{start: time.Now(), total: total, make: func() *progressbar.ProgressBar {
		return progressbar.NewOptions64(total, progressbar.OptionSetWriter(g.err), progressbar.OptionShowBytes(bytes),
			progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(24), progressbar.OptionShowCount(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetPredictTime(true))
	}}
}

func (b *bar) set(n int64) {
	if b == nil || time.Since(b.start) < 2*time.Second {
		return
	}
	if b.bar == nil {
		b.bar = b.make()
	}
	_ = b.bar.Set64(min(n, b.total-1)) // the library ends its line when full
}

// clear takes the bar off the screen, for a line of output or for good.
func (b *bar) clear() {
	if b != nil && b.bar != nil {
		_ = b.bar.Clear()
	}
}
