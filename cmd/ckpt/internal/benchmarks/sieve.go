package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/bench"
	"ckpt/internal/vfs"
)

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
