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
	"ckpt/image/codec"
)

func newBenchCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchWriteCommand(g), newBenchCodecCommand(g), newBenchTraceCommand(g), newBenchModesCommand(g), newBenchSieveCommand(g))
	return cmd
}

type benchWriteOptions struct {
	dir, size, codec string
	rounds           int
	field            bool
}

func newBenchWriteCommand(g *globals) *cobra.Command {
	var o benchWriteOptions
	cmd := &cobra.Command{
		Use:   "write",
		Short: "Measure how fast a directory takes checkpoints",
		Long: `Write a checkpoint on the real path, the same bytes plainly with O_DIRECT, and the
same bytes through the page cache with fsync, in turns, and compare the
bandwidths. The command removes its files at the end. With --codec it also measures
compressed checkpoints. The memory is noise, which no codec compresses; with --field
it is a smooth field of float64.`,
		Example: "  ckpt bench write --dir /scratch --size 1GiB\n  ckpt bench write --dir /scratch --codec auto --field",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchWrite(cmd.Context(), g, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", os.TempDir(), "directory on the file system to measure")
	f.StringVar(&o.size, "size", "512MiB", "bytes per round")
	f.IntVar(&o.rounds, "rounds", 5, "number of rounds")
	f.StringVar(&o.codec, "codec", "none", "measure this codec as well: auto, gzip, zstd or s2")
	f.BoolVar(&o.field, "field", false, "write a smooth field instead of noise")
	return cmd
}

func newBenchCodecCommand(g *globals) *cobra.Command {
	var limit string
	cmd := &cobra.Command{
		Use:   "codec FILE",
		Short: "Compare the codecs on your image",
		Long: `Compress and unpack the contents of an image with every codec, extent by extent as
checkpoints are, in one goroutine, and compare. FILE is an image of ckpt (its own
extents only) or of DMTCP, or any file, which is read as bytes.

"pays below" is the bandwidth of the storage below which compressing takes less
time than it saves: encode rate × (ratio − 1) / ratio.`,
		Example: "  ckpt bench codec ckpt-store/jobs/night/0003/rank-0.img\n  ckpt bench codec ckpt_bt.B.4_*.dmtcp --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runBenchCodec(cmd.Context(), g, args[0], limit) },
	}
	cmd.Flags().StringVar(&limit, "limit", "1GiB", "read at most this many bytes into memory")
	return cmd
}

func runBenchCodec(ctx context.Context, g *globals, file, limitText string) error {
	limit, err := parseSize(limitText)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	x, err := bench.ReadExtents(ctx, file, limit)
	if err != nil {
		return sourceError(err)
	}
	add, done := g.progress("codecs", 4*x.Bytes)
	results, err := x.Codecs(ctx, add)
	done()
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(struct {
			File   string              `json:"file"`
			Bytes  int64               `json:"bytes"`
			Zeros  int64               `json:"zero_bytes"`
			Codecs []bench.CodecResult `json:"codecs"`
		}{file, x.Bytes, x.Zeros, results})
	}
	if err := g.printf("%s MiB, and %s MiB of zeros, which are never stored\n\n", mib(x.Bytes), mib(x.Zeros)); err != nil {
		return err
	}
	var rows [][]string
	for _, r := range results {
		pays := "-"
		if r.PaysBelow > 0 {
			pays = fmt.Sprintf("%.0f", r.PaysBelow/(1<<20))
		}
		rows = append(rows, []string{r.Codec, mib(r.Stored), fmt.Sprintf("%.2f", r.Ratio), percent1(r.Filtered), percent1(r.Raw),
			fmt.Sprintf("%.0f", r.Encode/(1<<20)), fmt.Sprintf("%.0f", r.Decode/(1<<20)), pays})
	}
	return g.table([]string{"codec", "|stored MiB", "|ratio", "|shuffled", "|raw", "|encode MiB/s", "|decode MiB/s", "|pays below MiB/s"}, rows)
}

func runBenchWrite(ctx context.Context, g *globals, o *benchWriteOptions) error {
	size, err := parseSize(o.size)
	if err != nil {
		return err
	}
	if o.rounds < 1 {
		return &coordinator.UsageError{Text: fmt.Sprintf("--rounds %d: want at least 1", o.rounds)}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	setting, err := codec.ParseSetting(o.codec)
	if err != nil {
		return &coordinator.UsageError{Text: err.Error(), Fix: "--codec takes none, auto, gzip, zstd or s2"}
	}
	opt := bench.Options{Size: size, Rounds: o.rounds, Field: o.field, Codec: setting}
	add, done := g.progress("write", opt.Total())
	opt.Progress = add
	r, err := bench.Write(ctx, o.dir, opt)
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
	err = g.printf("%s MiB, median of %d rounds, durable\n"+
		"checkpoint        %s\nplain, O_DIRECT   %s\nplain, buffered   %s\n"+
		"checkpoint / best plain  %.2f\npeak extra memory        %s MiB\n",
		mib(r.Size), o.rounds, rate(r.CheckpointMedian), rate(r.DirectMedian), rate(r.BufferedMedian), r.Ratio, mib(r.PeakExtraMemory))
	if err != nil || r.CodedMedian == 0 {
		return err
	}
	if err := g.printf("checkpoint, %-4s  %s, %.2f of the plain one; %s MiB stored\n", setting, rate(r.CodedMedian), r.CodedRatio, mib(r.CodedStored)); err != nil {
		return err
	}
	if r.Cores > 1 {
		if err := g.printf("  on one core     %.2f times as fast on %d\n", r.Scaling, r.Cores); err != nil {
			return err
		}
	}
	if r.Gzip == 0 {
		return nil
	}
	return g.printf("gzip -1           %s into a pipe, %.1f %% of the bytes; the checkpoint on one core is %.1f times as fast with %.1f %%\n",
		rate(r.Gzip), 100*r.GzipShare, r.GzipRatio, 100*float64(r.CodedStored)/float64(r.Size))
}

// parseSize reads a size like 512MiB, 512M or 1048576.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "iBKMGT")
	factor, known := map[string]int64{"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20,
		"G": 1 << 30, "GiB": 1 << 30, "T": 1 << 40, "TiB": 1 << 40}[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(n > 0) || n*float64(factor) > 1<<60 {
		return 0, &coordinator.UsageError{Text: fmt.Sprintf("invalid size %q", s), Fix: "sizes look like 512MiB or 2G"}
	}
	return int64(n * float64(factor)), nil
}
