package predictions

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/predict/eval"
)

func newPredictEvalCommand(g *ui.Globals) *cobra.Command {
	var o jobOptions
	var rows string
	cmd := &cobra.Command{
		Use:   "eval [JOB]",
		Short: "Compare predictions with measurements: the built-in ones, or those of a job",
		Long: `Without JOB, recompute every prediction that the thesis prints, predict every row
without using it, and print both side by side: measured, thesis, ours, errors. Our data
zone comes from the structure with one calibration point (the fewest processes of each
application, class and MPI library), the rest from the other rows. The command sums
that up; with --rows it prints every row, and every built-in table, with the reason if it
has no number that ckpt predicts.

With JOB, compare the predicted image of a rank with what each checkpoint of that job
measured: the error, and whether the measurement is inside the 95 % interval. With a
model of jobs of ckpt, or --engine ckpt, also what each checkpoint added to the store,
and how long it took. Without --model the prediction is that of ckpt launch --model, if
the job was launched with one; else it comes from the built-in tables, which are images
of DMTCP on another machine. ckpt predict fit --from-job makes a model of small runs.`,
		Example: `  ckpt predict eval
  ckpt predict eval --rows
  ckpt predict eval bt.W.25-1 --model bt.model`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if rows != "" && (len(args) == 0 || args[0] == allRows) { // --rows all, with a space
				args = nil
			}
			if rows != "" && (rows != allRows || len(args) > 0) {
				return ui.BadUsage("--rows "+rows+": want all, of the built-in tables", "leave it out, or write --rows without a JOB")
			}
			if len(args) > 0 {
				return InputErrors(runPredictScore(g, &o, args[0]))
			}
			if o.model != "" || o.engine != "" {
				return ui.BadUsage("--model and --engine are for the checkpoints of a job", "name a job")
			}
			return InputErrors(runPredictEval(g, rows != ""))
		},
	}
	g.AddStoreFlag(cmd)
	addEngineFlag(cmd.Flags(), &o.engine)
	cmd.Flags().StringVar(&o.model, "model", "", "model of ckpt predict fit (default: the built-in tables)")
	cmd.Flags().StringVar(&rows, "rows", "", "print every row and table, not only their sum: all")
	cmd.Flags().Lookup("rows").NoOptDefVal = allRows
	return cmd
}

const allRows = "all"

func runPredictEval(g *ui.Globals, all bool) error {
	ev, err := eval.Evaluate()
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(ev)
	}
	if all {
		var rows [][]string
		for _, r := range ev.Rows {
			rows = append(rows, []string{r.Table, r.Row, r.Quantity, known(r.Measured), known(r.Thesis), known(r.Ours), signed(r.ThesisError), signed(r.OurError)})
		}
		g.Table([]string{"table", "row", "quantity", "|measured", "|thesis", "|ours", "|thesis err", "|our err"}, rows)
		g.Printf("\n")
		printTables(g, ev.Tables)
	}
	if err := printUse(g, ev.Tables, all); err != nil {
		return err
	}
	return printSummary(g, &ev.Summary, all)
}

// printTables prints one line for each table that is compared.
func printTables(g *ui.Globals, tables []eval.TableUse) {
	var rows [][]string
	for _, u := range tables {
		if u.Evaluated {
			rows = append(rows, []string{u.Table, strings.Join(u.Compared, ", "), strconv.Itoa(u.Rows), share(u.Median), share(u.Max), fmt.Sprintf("%d of %d", u.Covered, u.Cases)})
		}
	}
	g.Table([]string{"table", "quantities", "|rows", "|our median", "|our max", "|in 95 %"}, rows)
	g.Printf("\n")
}

// printUse prints how many tables are compared, and why the others are not.
func printUse(g *ui.Globals, tables []eval.TableUse, all bool) error {
	evaluated, text := 0, ""
	for _, u := range tables {
		if u.Evaluated {
			evaluated++
		} else {
			text += fmt.Sprintf("  %s: %s\n", u.Table, u.Reason)
		}
	}
	head := fmt.Sprintf("%d of %d tables have numbers that ckpt predicts; %d do not", evaluated, len(tables), len(tables)-evaluated)
	if !all {
		return g.Printf("%s\n\n", head)
	}
	return g.Printf("%s:\n%s\n", head, text)
}

func printSummary(g *ui.Globals, s *eval.Summary, all bool) error {
	var rows [][]string
	for _, q := range s.Quantities {
		rows = append(rows, []string{q.Quantity, strconv.Itoa(q.Both), share(q.ThesisMedian), share(q.OurMedian), share(q.ThesisMax), share(q.OurMax),
			strconv.Itoa(q.Rows), share(q.OurMedianAll), share(q.OurMaxAll)})
	}
	g.Table([]string{"absolute error", "|rows of both", "|thesis median", "|our median", "|thesis max", "|our max", "|all rows", "|our median", "|our max"}, rows)
	rows = nil
	var contradict []string
	for _, c := range s.Coverage {
		rows = append(rows, []string{c.What, fmt.Sprintf("%d of %d", c.Covered, c.Of), share(c.Share), fmt.Sprintf("%.1f to %.1f %%", 100*c.Low, 100*c.High), share(c.MedianWidth)})
		if !c.Agrees() {
			contradict = append(contradict, c.What)
		}
	}
	g.Printf("\n")
	g.Table([]string{"95 % intervals, leaving out", "|covered", "|share", "|true share", "|median ±"}, rows)
	switch {
	case g.Quiet:
		return nil
	case !all:
		agree := "the counts of all rows agree with 92 to 98 %"
		if len(contradict) > 0 {
			agree = "these counts contradict 92 to 98 %: " + strings.Join(contradict, ", ")
		}
		return g.Printf("\n%s\nevery row, every table and %s of the thesis: ckpt predict eval --rows\n", agree, ui.Count(len(s.Misprints), "misprint"))
	}
	text := "\nmisprints of the thesis, reported and not matched:\n"
	for _, m := range s.Misprints {
		text += "  " + m + "\n"
	}
	return g.Printf("%s", text)
}

func known(v *float64) string {
	if v == nil {
		return "-"
	}
	return decimal(*v)
}

func signed(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%+.2f %%", 100**v)
}

func share(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }
