package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
	"ckpt/iotrace/replay/bench"
)

type benchTraceOptions struct {
	bench.Options
	size string
}

func newBenchTraceCommand(g *globals) *cobra.Command {
	var o benchTraceOptions
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Measure what recording and reading traces costs",
		Long: `Record events and read them back from each format, in one goroutine; then write a
checkpoint of four ranks in requests of 1 MiB, with and without recording, in turns,
and compare. What it wrote is removed.`,
		Example: "  ckpt bench trace\n  ckpt bench trace --dir /scratch --size 1GiB --rounds 9 --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchTrace(cmd.Context(), g, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", os.TempDir(), "directory for the checkpoint")
	f.StringVar(&o.size, "size", "256MiB", "bytes of the checkpoint")
	f.IntVar(&o.Events, "events", 1_000_000, "events that are recorded and read")
	f.IntVar(&o.Rounds, "rounds", 5, "number of rounds")
	return cmd
}

func runBenchTrace(ctx context.Context, g *globals, o *benchTraceOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.Size, err = parseSize(o.size); err != nil {
		return err
	}
	if o.Events < 1000 || o.Events > 50_000_000 || o.Rounds < 1 || o.Size < 1<<20 {
		return &coordinator.UsageError{Text: fmt.Sprintf("%d events, %s, %d rounds: that is not measured", o.Events, o.size, o.Rounds),
			Fix: "--events takes 1000 to 50000000, --size 1MiB and more, --rounds 1 and more"}
	}
	if _, err := os.Stat(o.Dir); err != nil {
		return sourceError(fmt.Errorf("--dir: %w", err))
	}
	b := g.newBar("bench", int64(o.Steps()), false)
	o.Progress = func(done int) { b.set(int64(done)) }
	r, err := bench.Run(ctx, o.Options)
	b.clear()
	if err != nil {
		return replayError(err)
	}
	if g.json {
		return g.printJSON(r)
	}
	var rows [][]string
	for _, s := range append([]bench.Speed{r.Recording}, r.Reading...) {
		what := "read " + s.What
		if len(rows) == 0 {
			what = "record"
		}
		rows = append(rows, []string{what, fmt.Sprintf("%.2f", s.Rate/1e6), fmt.Sprintf("%.1f", s.PerEvent)})
	}
	if err := g.printf("%d events\n\n", r.Events); err != nil {
		return err
	}
	if err := g.table([]string{"", "|million events/s", "|bytes per event"}, rows); err != nil {
		return err
	}
	return g.printf("\na checkpoint of %s MiB, %d operations, best of %d rounds\n"+
		"with recording / without  %.3f\n"+
		"recording alone           %.4f %% of the time\n", mib(r.Size), r.Operations, o.Rounds, r.Ratio, 100*r.Share)
}
