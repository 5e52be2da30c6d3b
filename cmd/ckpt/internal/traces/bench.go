package traces

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/iotrace/replay/bench"
)

type benchTraceOptions struct {
	bench.Options
	size string
	app  string
}

func NewBenchCommand(g *ui.Globals) *cobra.Command {
	var o benchTraceOptions
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Measure what recording and reading traces costs",
		Long: `Record events and read them back from each format, in one goroutine. Then write
a checkpoint of four ranks in requests of 1 MiB, with and without recording, in
turns, and compare. Also measure the time inside the recorder, as a share of the
time of the same checkpoint. With --app, do so with the checkpoints of a job.
The command removes its files at the end.`,
		Example: "  ckpt bench trace\n  ckpt bench trace --dir /scratch --size 1GiB --rounds 9 --json\n  ckpt bench trace --app bt.A.4 --rounds 7",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchTrace(cmd.Context(), g, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", os.TempDir(), "directory for the checkpoint")
	f.StringVar(&o.size, "size", "256MiB", "bytes of the checkpoint")
	f.IntVar(&o.Events, "events", 1_000_000, "number of events to record and read")
	f.IntVar(&o.Rounds, "rounds", 5, "number of rounds")
	f.StringVar(&o.app, "app", "", "also run this job, with and without --trace, in turns")
	return cmd
}

func runBenchTrace(ctx context.Context, g *ui.Globals, o *benchTraceOptions) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	var err error
	if o.Size, err = ui.ParseSize("--size", o.size); err != nil {
		return err
	}
	if o.Events < 1000 || o.Events > 50_000_000 || o.Rounds < 1 || o.Size < 1<<20 {
		return ui.BadUsage(fmt.Sprintf("%d events, %s, %d rounds: out of range", o.Events, o.size, o.Rounds), "--events takes 1000 to 50000000, --size 1MiB and more, --rounds 1 and more")
	}
	if _, err := os.Stat(o.Dir); err != nil {
		return ui.SourceError(fmt.Errorf("--dir: %w", err))
	}
	result := benchTrace{}
	steps := o.Steps()
	var job job.Spec
	if o.app != "" {
		if job, err = traceJob(o.app); err != nil {
			return err
		}
		steps += 2 * o.Rounds
	}
	b := g.NewBar("bench", int64(steps), false)
	defer b.Clear()
	o.Progress = func(done int) { b.Set(int64(done)) }
	if result.Result, err = bench.Run(ctx, o.Options); err != nil {
		return replayError(err)
	}
	if o.app != "" {
		result.Job = &benchTraceJob{App: o.app, Iterations: job.Iterations, Every: job.Schedule.Every}
		if err := result.Job.run(ctx, g, o, job, bench.Median(result.Spent)/float64(result.Operations), func(done int) { b.Set(int64(o.Steps() + done)) }); err != nil {
			return err
		}
	}
	b.Clear()
	return printBenchTrace(g, &result, o)
}

// benchTrace is what ckpt bench trace prints as JSON.
type benchTrace struct {
	*bench.Result
	Job *benchTraceJob `json:"job_cost,omitempty"`
}

func printBenchTrace(g *ui.Globals, r *benchTrace, o *benchTraceOptions) error {
	if g.JSON {
		return g.PrintJSON(r)
	}
	var rows [][]string
	for _, s := range append([]bench.Speed{r.Recording}, r.Reading...) {
		what := "read " + s.What
		if len(rows) == 0 {
			what = "record"
		}
		rows = append(rows, []string{what, fmt.Sprintf("%.2f", s.Rate/1e6), fmt.Sprintf("%.2f", s.CPURate/1e6), fmt.Sprintf("%.1f", s.PerEvent)})
	}
	g.Printf("%d events\n\n", r.Events)
	g.Table([]string{"million events", "|per second", "|per second of a core", "|bytes per event"}, rows)
	spread := (slices.Max(r.Plain) - slices.Min(r.Plain)) / bench.Median(r.Plain)
	g.Printf("\na checkpoint of %s MiB, %d operations, medians of %d rounds\n"+
		"inside the recorder       %.4f %% of the time\n"+
		"with recording / without  %.3f; rounds without differ by %.0f %%\n", ui.MiB(r.Size), r.Operations, o.Rounds, 100*r.Share, r.Ratio, 100*spread)
	if r.Job == nil {
		return nil
	}
	return r.Job.print(g)
}
