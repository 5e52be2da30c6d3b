package traces

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace/analyze"
	"ckpt/zones"
)

func newDiffCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var an analysis
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two traces",
		Long: `Compare operation counts, bytes, bursts and patterns of two traces. Percentages
are of the second one, as León compares tools (Tables 2.5 and 2.6).

` + traceInputHelp,
		Example: "  ckpt trace diff bt.S.4-1@1 bt.S.4-1@2\n  ckpt trace diff cluster.trace cloud.trace --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := an.options()
			if err != nil {
				return err
			}
			all, err := in.traces(g, args)
			if err != nil {
				return err
			}
			c := analyze.Compare(characterise(g, all[0], opt), characterise(g, all[1], opt))
			if g.JSON {
				return g.PrintJSON(c)
			}
			return showComparison(g, c)
		},
	}
	cmd.Flags().BoolVar(&in.lenient, "lenient", false, "read the intact part of a damaged or cut trace")
	an.addFlags(cmd.Flags())
	g.AddStoreFlag(cmd)
	return cmd
}

func showComparison(g *ui.Globals, c *analyze.Comparison) error {
	rowsOf := func(list []analyze.Difference) (rows [][]string) {
		for _, d := range list {
			a, b := d.TextA, d.TextB
			if a == "" && b == "" {
				a, b = strconv.FormatFloat(d.A, 'g', 8, 64), strconv.FormatFloat(d.B, 'g', 8, 64)
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
		name := f.A
		if f.B != f.A {
			name += " and " + f.B
		}
		g.Printf("\n%s\n", zones.Printable(name))
		g.Table(header, rowsOf(differ))
	}
	for _, only := range []struct {
		which string
		names []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		for _, name := range only.names {
			g.Printf("only in %s: %s\n", only.which, zones.Printable(name))
		}
	}
	if c.SamePattern {
		return g.Printf("\nthe patterns are the same\n")
	}
	return g.Printf("\nthe patterns differ\n")
}
