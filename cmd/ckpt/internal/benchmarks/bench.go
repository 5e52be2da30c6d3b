// Package benchmarks has the commands that measure this machine.
package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/bench"
	"ckpt/image/codec"
	"ckpt/internal/vfs"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newBenchCommand(g)} }

func newBenchCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchWriteCommand(g), newBenchCodecCommand(g), newBenchModesCommand(g), newBenchSieveCommand(g), newBenchStorageCommand(g), newBenchTierCommand(g), newBenchInterferenceCommand(g))
	return cmd
}

type benchWriteOptions struct {
	dir, size string
	rounds    int
}

func newBenchWriteCommand(g *ui.Globals) *cobra.Command {
	var o benchWriteOptions
	cmd := &cobra.Command{
		Use:   "write",
		Short: "Measure how fast a directory takes checkpoints",
		Long: `Write a checkpoint on the real path, the same bytes plainly with O_DIRECT, and the
same bytes through the page cache with fsync, in turns, and compare the
bandwidths. The command removes its files at the end. The memory is noise: ckpt bench
codec measures what compression does to your data.`,
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

func newBenchCodecCommand(g *ui.Globals) *cobra.Command {
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

func runBenchCodec(ctx context.Context, g *ui.Globals, file, limitText string) error {
	limit, err := ui.ParseSize("--limit", limitText)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	x, err := bench.ReadExtents(ctx, file, limit)
	if err != nil {
		return ui.SourceError(err)
	}
	add, done := g.Progress("codecs", int64(len(codec.Settings()))*x.Bytes)
	results, err := x.Codecs(ctx, add)
	done()
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(struct {
			File   string              `json:"file"`
			Bytes  int64               `json:"bytes"`
			Zeros  int64               `json:"zero_bytes"`
			Codecs []bench.CodecResult `json:"codecs"`
		}{file, x.Bytes, x.Zeros, results})
	}
	g.Printf("%s MiB, and %s MiB of zeros, which are never stored\n\n", ui.MiB(x.Bytes), ui.MiB(x.Zeros))
	var rows [][]string
	for _, r := range results {
		pays := "-"
		if r.PaysBelow > 0 {
			pays = fmt.Sprintf("%.0f", r.PaysBelow/(1<<20))
		}
		rows = append(rows, []string{r.Codec, ui.MiB(r.Stored), fmt.Sprintf("%.2f", r.Ratio), ui.Percent1(r.Filtered), ui.Percent1(r.Raw),
			fmt.Sprintf("%.0f", r.Encode/(1<<20)), fmt.Sprintf("%.0f", r.Decode/(1<<20)), pays})
	}
	return g.Table([]string{"codec", "|stored MiB", "|ratio", "|shuffled", "|raw", "|encode MiB/s", "|decode MiB/s", "|pays below MiB/s"}, rows)
}

func runBenchWrite(ctx context.Context, g *ui.Globals, o *benchWriteOptions) error {
	size, err := ui.ParseSize("--size", o.size)
	if err != nil {
		return err
	}
	if o.rounds < 1 {
		return ui.BadUsage(fmt.Sprintf("--rounds %d: want at least 1", o.rounds), "")
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	opt := bench.Options{Size: size, Rounds: o.rounds}
	add, done := g.Progress("write", opt.Total())
	opt.Progress = add
	r, err := bench.Write(ctx, o.dir, opt)
	done()
	if err != nil {
		return err
	}
	rate := func(b float64) string {
		if b == 0 {
			return "not supported"
		}
		return fmt.Sprintf("%.0f MiB/s", b/(1<<20))
	}
	return g.Show(r, func() error {
		return g.Printf("%s MiB, median of %d rounds, durable\n"+
			"checkpoint        %s\nplain, O_DIRECT   %s\nplain, buffered   %s\n"+
			"checkpoint / best plain  %.2f\n",
			ui.MiB(r.Size), o.rounds, rate(r.CheckpointMedian), rate(r.DirectMedian), rate(r.BufferedMedian), r.Ratio)
	})
}

func newBenchSieveCommand(g *ui.Globals) *cobra.Command {
	var dir, size string
	var rounds int
	cmd := &cobra.Command{
		Use:   "sieve",
		Short: "Measure when reading over holes pays",
		Long: `Read blocks with holes between them from a file in a directory, with a call per
block (naive) and under every rule of data sieving, which read blocks and holes
together. Print how many times as fast as naive each rule is, for sizes of blocks
and holes, and the break-even: the hole that takes as long to read as a call costs.

If the directory is a checkpoint store, the break-even is kept in it, and restarts
and ckpt extract use it from then on.`,
		Example: "  ckpt bench sieve --dir ckpt-store\n  ckpt bench sieve --dir /scratch --size 1GiB --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBenchSieve(cmd.Context(), g, dir, size, rounds) },
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "directory on the file system to measure, or a checkpoint store")
	f.StringVar(&size, "size", "128MiB", "bytes of the file that is read")
	f.IntVar(&rounds, "rounds", 3, "number of rounds")
	return cmd
}

// storageCost is image.Storage in the units of --json.
type storageCost struct {
	Bandwidth float64   `json:"bytes_per_s"`
	Call      float64   `json:"call_s"` // cost of a call however short it is
	Measured  time.Time `json:"measured_at"`
}

func runBenchSieve(ctx context.Context, g *ui.Globals, dir, sizeText string, rounds int) error {
	size, err := ui.ParseSize("--size", sizeText)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	store, err := image.OpenStore(vfs.OS{}, dir)
	if err != nil && !errors.Is(err, image.ErrNoStore) {
		return err
	}
	o := bench.SieveOptions{Size: size, Rounds: rounds}
	add, done := g.Progress("sieve", o.Total())
	o.Progress = add
	r, err := bench.Sieve(ctx, dir, o)
	done()
	if err == nil && store != nil {
		err = store.SetStorage(r.Storage)
	}
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Dir string `json:"dir"`
			bench.SieveResult
			Cost storageCost `json:"storage_cost"`
			Kept bool        `json:"kept_in_store"`
		}{dir, r, storageCost{r.Storage.Bandwidth, r.Storage.Call.Seconds(), r.Storage.Measured}, store != nil})
	}
	return printSieve(g, r, store)
}

func printSieve(g *ui.Globals, r bench.SieveResult, store *image.Store) error {
	cache := "around the page cache"
	if !r.Direct {
		cache = "through the page cache: the file system takes no direct I/O"
	}
	err := g.Printf("a call costs %.1f µs, %.0f MiB/s, %s\nbreak-even   %d KiB: smaller holes are faster read than skipped\n\n",
		float64(r.Storage.Call)/float64(time.Microsecond), r.Storage.Bandwidth/(1<<20), cache, r.BreakEven>>10)
	if err != nil {
		return err
	}
	header := []string{"|block KiB", "|hole KiB"}
	for _, rule := range r.Patterns[0].Rules {
		header = append(header, "|"+rule.Rule.String())
	}
	var rows [][]string
	for _, p := range r.Patterns {
		row := []string{fmt.Sprint(p.Data >> 10), fmt.Sprint(p.Hole >> 10)}
		for _, rule := range p.Rules {
			row = append(row, fmt.Sprintf("%.2f", rule.Speedup))
		}
		rows = append(rows, row)
	}
	g.Table(header, rows)
	if store != nil {
		return g.Printf("\nkept in %s: restarts and ckpt extract use it\n", store.Dir())
	}
	return nil
}
