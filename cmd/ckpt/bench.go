package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
	"ckpt/image/bench"
)

func newBenchCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchWriteCommand(g))
	return cmd
}

type benchWriteOptions struct {
	dir, size string
	rounds    int
}

func newBenchWriteCommand(g *globals) *cobra.Command {
	var o benchWriteOptions
	cmd := &cobra.Command{
		Use:   "write",
		Short: "Measure how fast a directory takes checkpoints",
		Long: `Write a checkpoint on the real path, the same bytes plainly with O_DIRECT, and the
same bytes through the page cache with fsync, in turns, and compare the
bandwidths. What it wrote is removed.`,
		Example: "  ckpt bench write --dir /scratch --size 1GiB",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchWrite(cmd.Context(), g, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", os.TempDir(), "directory on the file system to measure")
	f.StringVar(&o.size, "size", "512MiB", "bytes per round")
	f.IntVar(&o.rounds, "rounds", 5, "number of rounds")
	return cmd
}

func runBenchWrite(ctx context.Context, g *globals, o *benchWriteOptions) error {
	size, err := parseSize(o.size)
	if err != nil {
		return err
	}
	if o.rounds < 1 {
		return &coordinator.UsageError{Text: fmt.Sprintf("--rounds %d: at least one is needed", o.rounds)}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	add, done := g.progress("write", 3*size*int64(o.rounds))
	r, err := bench.Write(ctx, o.dir, size, o.rounds, add)
	done()
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(r)
	}
	rate := func(b float64) string {
		if b == 0 {
			return "not supported"
		}
		return fmt.Sprintf("%.0f MiB/s", b/(1<<20))
	}
	return g.printf("%s MiB, median of %d rounds, durable\n"+
		"checkpoint        %s\nplain, O_DIRECT   %s\nplain, buffered   %s\n"+
		"checkpoint / best plain  %.2f\npeak extra memory        %s MiB\n",
		mib(r.Size), o.rounds, rate(r.CheckpointMedian), rate(r.DirectMedian), rate(r.BufferedMedian), r.Ratio, mib(r.PeakExtraMemory))
}

// parseSize reads a size like 512MiB, 512M or 1048576.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "iBKMGT")
	factor, known := map[string]int64{"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20,
		"G": 1 << 30, "GiB": 1 << 30, "T": 1 << 40, "TiB": 1 << 40}[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(n > 0) || n*float64(factor) > 1<<60 {
		return 0, &coordinator.UsageError{Text: fmt.Sprintf("size %q is not one", s), Fix: "sizes look like 512MiB or 2G"}
	}
	return int64(n * float64(factor)), nil
}
