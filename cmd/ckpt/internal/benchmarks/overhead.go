package benchmarks

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
)

type benchOverheadOptions struct {
	ui.Placement
	np, iterations, pairs int
	overhead, dir         string
	async                 bool
}

func newBenchOverheadCommand(g *ui.Globals) *cobra.Command {
	var o benchOverheadOptions
	cmd := &cobra.Command{
		Use:   "overhead APP",
		Short: "Measure the overhead that --overhead really costs",
		Long: `Run the same job without checkpoints and with --overhead, in turns, and compare the
times. Each pair of runs gives an overhead: the time with checkpoints divided by the
time without, less 1. The order within the pairs alternates, so that a machine that
gets slower or faster favours neither. The runs are in a store of their own; the
command removes it.

A run needs time for ten checkpoints or more: give --iterations. Other work on the
machine makes single pairs differ widely; the median of many is robust.`,
		Example: `  ckpt bench overhead bt.A.16 --nodes 2 --iterations 600
  ckpt bench overhead bt.W.4 --overhead 20% --pairs 3 --async`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "iterations", "pairs", "nodes"); err != nil {
				return err
			}
			return runBenchOverhead(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	f.IntVar(&o.iterations, "iterations", 0, "number of iterations (default: that of the class)")
	f.StringVar(&o.overhead, "overhead", "10%", "share of the computing time that checkpoints may cost, like 10% or 0.1")
	f.BoolVar(&o.async, "async", false, "compute while a checkpoint is written from a copy of the memory")
	f.IntVar(&o.pairs, "pairs", 5, "pairs of runs, without checkpoints and with them")
	f.StringVar(&o.dir, "dir", os.TempDir(), "directory for the store")
	return cmd
}

// benchOverhead is the comparison as JSON.
type benchOverhead struct {
	App        string         `json:"app"`
	NP         int            `json:"np"`
	Mapping    job.Mapping    `json:"mapping"`
	Iterations int            `json:"iterations"`
	Overhead   float64        `json:"overhead"`      // accepted
	Used       float64        `json:"overhead_used"` // median of the pairs
	Least      float64        `json:"least_overhead"`
	Most       float64        `json:"most_overhead"`
	Pairs      []overheadPair `json:"pairs"`
}

// An overheadPair is a run without checkpoints and one with them.
type overheadPair struct {
	Alone       float64 `json:"alone_s"`
	Total       float64 `json:"total_s"`
	Checkpoints int     `json:"checkpoints"`
	Still       float64 `json:"still_s"`
	Used        float64 `json:"overhead_used"` // total_s / alone_s − 1
}

func runBenchOverhead(ctx context.Context, g *ui.Globals, o *benchOverheadOptions, name string) error {
	alone, err := o.spec(name)
	if err != nil {
		return err
	}
	protected := alone
	if protected.Schedule.Overhead, err = ui.ParseShare("--overhead", o.overhead); err != nil {
		return err
	}
	if protected.Schedule.Overhead <= 0 {
		return ui.BadUsage(fmt.Sprintf("--overhead %s: want a percentage above 0, like 10%%", o.overhead), "")
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	b := benchOverhead{App: alone.App, NP: alone.NP, Mapping: alone.Mapping, Iterations: alone.Iterations, Overhead: protected.Schedule.Overhead}
	progress := g.NewBar("run", int64(2*o.pairs), false)
	defer progress.Clear()
	for n := range o.pairs {
		var rows [2]benchRow
		for turn := range 2 {
			which := (turn + n) % 2
			if rows[which], _, err = runOnce(ctx, g, o.dir, []job.Spec{alone, protected}[which], nil); err != nil {
				return err
			}
			progress.Set(int64(2*n + turn + 1))
		}
		b.Pairs = append(b.Pairs, overheadPair{Alone: rows[0].Total, Total: rows[1].Total, Checkpoints: rows[1].Checkpoints,
			Still: rows[1].Still, Used: rows[1].Total/rows[0].Total - 1})
	}
	b.summarise()
	progress.Clear()
	return g.Show(b, func() error { return printOverhead(g, &b) })
}

// spec describes the job without checkpoints.
func (o *benchOverheadOptions) spec(name string) (job.Spec, error) {
	inst, err := dataset.ParseApp(name, o.np)
	if err != nil {
		return job.Spec{}, err
	}
	s := job.NewSpec(inst)
	s.Async = o.async
	if s.Mapping, err = o.Resolve(inst.NP); err != nil {
		return s, err
	}
	if o.iterations != 0 {
		s.Iterations = o.iterations
	}
	return s, nil
}

// summarise sets the median and the range of the pairs.
func (b *benchOverhead) summarise() {
	var used []float64
	for _, p := range b.Pairs {
		used = append(used, p.Used)
	}
	slices.Sort(used)
	b.Least, b.Most = used[0], used[len(used)-1]
	b.Used = (used[(len(used)-1)/2] + used[len(used)/2]) / 2
}

func printOverhead(g *ui.Globals, b *benchOverhead) error {
	err := g.Printf("%s on nodes %s, %s, %s accepted\n\n", b.App, b.Mapping, ui.Count(b.Iterations, "iteration"), ui.Percent(b.Overhead))
	if err != nil {
		return err
	}
	var rows [][]string
	for _, p := range b.Pairs {
		rows = append(rows, []string{ui.Seconds(p.Alone), ui.Seconds(p.Total), fmt.Sprint(p.Checkpoints), ui.Seconds(p.Still), ui.Percent(p.Used)})
	}
	if err := g.Table([]string{"|without", "|with checkpoints", "|checkpoints", "|stood still", "|overhead"}, rows); err != nil {
		return err
	}
	return g.Printf("\noverhead %s in the median of %s, %s to %s in single pairs\n", ui.Percent(b.Used), ui.Count(len(b.Pairs), "pair"),
		ui.Percent(b.Least), ui.Percent(b.Most))
}
