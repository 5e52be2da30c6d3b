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
)

func (g *globals) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(g.out, format, args...)
	return err
}

// log returns what -v shows on standard error.
func (g *globals) log() *slog.Logger {
	if !g.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(g.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// warn prints a line on standard error.
func (g *globals) warn(format string, args ...any) {
	fmt.Fprintf(g.err, "ckpt: "+format+"\n", args...)
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

// progress returns a function that is told of bytes done and one to call at the
// end. It draws on a terminal only, and only what takes over two seconds.
func (g *globals) progress(what string, total int64) (add func(int64), done func()) {
	if g.quiet || g.json || !isTerminal(g.err) {
		return func(int64) {}, func() {}
	}
	start := time.Now()
	var bar *progressbar.ProgressBar
	sum := int64(0)
	return func(n int64) {
			sum += n
			if bar == nil && time.Since(start) > 2*time.Second {
				bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(g.err), progressbar.OptionShowBytes(true),
					progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
					progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionUseIECUnits(true))
			}
			if bar != nil {
				_ = bar.Set64(min(sum, total))
			}
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}
