package traces

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/zones"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newDiffCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var an analysis
	var files fileList
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two traces",
		Long: `Compare operation counts, bytes, times, bursts and patterns of two traces.
Percentages are of the second one, as León compares tools (Tables 2.5 and 2.6):
at +100 %, the first has twice as much.

` + scopeHelp + `

` + traceInputHelp,
		Example: "  ckpt trace diff bt.S.4-1@1 bt.S.4-1@2\n  ckpt trace diff cluster.trace cloud.trace --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := an.options()
			if err != nil {
				return err
			}
			if err := files.read(in.All && !cmd.Flags().Changed("files")); err != nil {
				return err
			}
			if err := in.check(); err != nil {
				return err
			}
			all, err := in.traces(g, args)
			if err != nil {
				return err
			}
			var asides [2]iotrace.Aside
			for i := range asides {
				if all[i], asides[i], err = in.apply(all[i]); err != nil {
					return err
				}
				in.tell(g, args[i], all[i], asides[i])
			}
			a, b := characterise(g, all[0], opt), characterise(g, all[1], opt)
			c := analyze.Compare(a, b)
			if g.JSON {
				return g.PrintJSON(diffResult{c, asides[0], asides[1], warnings(all[0]), warnings(all[1])})
			}
			return showComparison(g, c, files.list, len(a.Pattern.Groups)+len(b.Pattern.Groups) > 0)
		},
	}
	cmd.Flags().BoolVar(&in.lenient, "lenient", false, "read the intact part of a damaged or cut trace")
	in.scoping.addFlags(cmd.Flags(), false)
	files.addFlag(cmd.Flags(), "compare so many files that differ, or all (--all does so, too)")
	an.addFlags(cmd.Flags())
	g.AddStoreFlag(cmd)
	return cmd
}

// diffResult is a comparison as --json prints it.
type diffResult struct {
	*analyze.Comparison
	AsideA    iotrace.Aside     `json:"aside_a"`
	AsideB    iotrace.Aside     `json:"aside_b"`
	WarningsA []iotrace.Warning `json:"warnings_a"`
	WarningsB []iotrace.Warning `json:"warnings_b"`
}

// quantity formats a count or bytes in full, and other numbers in eight digits.
func quantity(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e18 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 8, 64)
}

// showComparison prints the differences of the job, and of at most so many files.
// patterns is set if there are any.
func showComparison(g *ui.Globals, c *analyze.Comparison, most int, patterns bool) error {
	rowsOf := func(list []analyze.Difference) (rows [][]string) {
		for _, d := range list {
			a, b := d.TextA, d.TextB
			if a == "" && b == "" {
				a, b = quantity(d.A), quantity(d.B)
			}
			percent := ""
			if d.Relative != nil && !d.Same {
				percent = fmt.Sprintf("%+.2f %%", 100**d.Relative)
			}
			rows = append(rows, []string{d.Quantity, a, b, percent})
		}
		return rows
	}
	header := []string{"quantity", "|A", "|B", "|A against B"}
	g.Table(header, rowsOf(c.Job))
	g.Printf("percentages are of B: at +100 %%, A is twice as much\n")
	shown, more := 0, 0
	for _, f := range c.Files {
		var differ []analyze.Difference
		for _, d := range f.Differences {
			if !d.Same {
				differ = append(differ, d)
			}
		}
		if len(differ) == 0 {
			continue
		}
		if shown == most {
			more++
			continue
		}
		shown++
		name := f.A
		if f.B != f.A {
			name += " and " + f.B
		}
		g.Printf("\n%s\n", zones.Printable(name))
		g.Table(header, rowsOf(differ))
	}
	if more > 0 {
		g.Printf("\nand %s more that differ; --files all shows them\n", ui.Count(more, "file"))
	}
	for _, only := range []struct {
		which string
		names []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		for i, name := range only.names {
			if i == most {
				g.Printf("only in %s: %s more\n", only.which, ui.Count(len(only.names)-i, "file"))
				break
			}
			g.Printf("only in %s: %s\n", only.which, zones.Printable(name))
		}
	}
	if !patterns { // of counters, or without reads and writes
		return nil
	}
	if c.SamePattern {
		return g.Printf("\nthe patterns are the same\n")
	}
	return g.Printf("\nthe patterns differ\n")
}

// shownFiles is the number of files of which --file shows everything. Of more it
// lists the names.
const shownFiles = 5

// matches returns the indexes of the files that --file means: the one of this name, or
// those whose names contain it.
func (in *traceInput) matches(files []analyze.File, name string) (found []int, err error) {
	var names []string
	for i := range files {
		if files[i].Name == name {
			return []int{i}, nil
		}
		if strings.Contains(files[i].Name, name) {
			found = append(found, i)
		}
		names = append(names, files[i].Name)
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, in.noFile(name, names)
}

// showFiles prints some of the files of a report: a few whole, the names of many.
func showFiles(g *ui.Globals, files []analyze.File, found []int) error {
	if g.JSON && len(found) == 1 {
		return g.PrintJSON(&files[found[0]])
	}
	var some []*analyze.File
	for _, i := range found {
		some = append(some, &files[i])
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Files []*analyze.File `json:"file_list"`
		}{some})
	}
	if len(some) > shownFiles {
		for _, f := range some {
			g.Printf("%s\n", zones.Printable(f.Name))
		}
		return g.Printf("%d files match; name fewer to see their bursts and sizes\n", len(some))
	}
	for i, f := range some {
		if i > 0 {
			g.Printf("\n")
		}
		if err := showFile(g, f); err != nil {
			return err
		}
	}
	return nil
}

// showFile prints the bursts and the sizes of one file.
func showFile(g *ui.Globals, f *analyze.File) error {
	g.Printf("%s: %s, %s\n\n", zones.Printable(f.Name), f.Access, patternText(f.Spatial, f.Detail))
	var rows [][]string
	for _, b := range f.Bursts {
		rows = append(rows, []string{b.Op, strconv.FormatInt(b.Count, 10), ui.MiB(b.Bytes), duration(b.Start), duration(b.End)})
	}
	g.Table([]string{"burst", "|operations", "|MiB", "|from", "|to"}, rows)
	if n := f.BurstsTotal - len(f.Bursts); n > 0 {
		g.Printf("and %s more\n", ui.Count(n, "burst"))
	}
	rows = nil
	for _, s := range f.Histogram {
		if s.Count > 0 {
			rows = append(rows, []string{s.Bin, strconv.FormatInt(s.Writes, 10), strconv.FormatInt(s.Reads, 10)})
		}
	}
	g.Printf("\n")
	return g.Table([]string{"request bytes", "|writes", "|reads"}, rows)
}

// noFile is the error of a --file that no file has in its name. names are those that
// there are.
func (in *traceInput) noFile(name string, names []string) error {
	bases := make([]string, len(names))
	for i := range names {
		bases[i] = path.Base(names[i])
	}
	hint := "ckpt trace analyze shows their names"
	if near := ui.Nearest(path.Base(name), bases); near != "" {
		hint = "did you mean --file " + zones.Printable(near) + "? " + hint
	}
	if in.aside.Files > 0 {
		hint += "; --all takes in those of the system"
	}
	return ui.WithHint(ui.AsNotFound(fmt.Errorf("--file %s: no file of the trace has this in its name", name)), hint)
}

// traceFiles is the number of files shown without --files.
const traceFiles = 20

// A fileList is the flag that says how many files a command shows.
type fileList struct {
	files string
	list  int // math.MaxInt: all
}

func (l *fileList) addFlag(f *pflag.FlagSet, usage string) {
	f.StringVar(&l.files, "files", strconv.Itoa(traceFiles), usage)
}

// read reads --files. all is set if another flag asks for all files.
func (l *fileList) read(all bool) error {
	if l.files == "all" || all {
		l.list = math.MaxInt
		return nil
	}
	var err error
	if l.list, err = strconv.Atoi(l.files); err != nil || l.list < 0 {
		return ui.BadUsage(fmt.Sprintf("--files %s: want a number from 0, or all", l.files), "")
	}
	return nil
}
