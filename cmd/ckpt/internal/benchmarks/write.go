package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/benchmarks/sieve"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// block is the length of one plain write.
const block = 4 << 20

// A WriteResult is what MeasureWrite measured. Bandwidths are in bytes per second, one for
// each round.
type WriteResult struct {
	Size       int64     `json:"round_bytes"` // bytes of one round and way
	Checkpoint []float64 `json:"checkpoint_bytes_per_s"`
	Direct     []float64 `json:"direct_bytes_per_s"` // empty where O_DIRECT does not work
	Buffered   []float64 `json:"buffered_bytes_per_s"`
	// Medians of the above.
	CheckpointMedian float64 `json:"checkpoint_median_bytes_per_s"`
	DirectMedian     float64 `json:"direct_median_bytes_per_s"`
	BufferedMedian   float64 `json:"buffered_median_bytes_per_s"`
	// Ratio is the median of the checkpoint to the better of the other two.
	Ratio float64 `json:"checkpoint_ratio"`
}

// WriteOptions say what MeasureWrite measures.
type WriteOptions struct {
	Size   int64 // bytes per round and way
	Rounds int
	// Progress, if not nil, is told the bytes written since the last call.
	Progress func(int64)
}

// Total returns the bytes that Progress is told in all.
func (o WriteOptions) Total() int64 { return 3 * o.Size * int64(o.Rounds) }

// MeasureWrite measures in a new directory inside dir.
func MeasureWrite(ctx context.Context, dir string, o WriteOptions) (res WriteResult, err error) {
	size := zones.PageRound(o.Size)
	if size <= 0 || o.Rounds <= 0 {
		return res, fmt.Errorf("cannot measure %d bytes in %d rounds", size, o.Rounds)
	}
	if err := checkMemory(size); err != nil {
		return res, err
	}
	res.Size = size
	work, err := os.MkdirTemp(dir, "ckpt-bench-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	store, err := image.CreateStore(vfs.OS{}, filepath.Join(work, "store"))
	if err != nil {
		return res, err
	}
	job, err := store.CreateJob("bench", nil)
	if err != nil {
		return res, err
	}
	defer job.Unlock()
	b := &writeBench{ctx: ctx, mem: noise(size), job: job, progress: o.Progress,
		file: filepath.Join(work, "plain")}
	if b.progress == nil {
		b.progress = func(int64) {}
	}
	for round := range o.Rounds {
		rate, err := b.checkpoint(round + 1)
		if err != nil {
			return res, err
		}
		res.Checkpoint = append(res.Checkpoint, rate)
		rate, err = b.plain(unix.O_DIRECT)
		switch {
		case err == nil:
			res.Direct = append(res.Direct, rate)
		case !errors.Is(err, unix.EINVAL):
			return res, err
		}
		if rate, err = b.plain(0); err != nil {
			return res, err
		}
		res.Buffered = append(res.Buffered, rate)
	}
	res.CheckpointMedian = medianOf(res.Checkpoint)
	res.DirectMedian = medianOf(res.Direct)
	res.BufferedMedian = medianOf(res.Buffered)
	res.Ratio = res.CheckpointMedian / max(res.DirectMedian, res.BufferedMedian)
	return res, nil
}

// checkMemory fails where so many bytes of memory are not to be had.
func checkMemory(n int64) error {
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	return unix.Munmap(mem)
}

type writeBench struct {
	ctx      context.Context
	mem      []byte
	job      *image.Job
	file     string
	progress func(int64)
}

// checkpoint writes one checkpoint and removes it again outside the time.
func (b *writeBench) checkpoint(number int) (float64, error) {
	start := time.Now()
	tx, err := b.job.Begin(number)
	if err != nil {
		return 0, err
	}
	defer tx.Abort()
	size := int64(len(b.mem))
	regions := []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: size, Mem: b.mem}}
	h := container.Header{Job: b.job.Name(), Number: number, Kind: container.KindRank}
	path := tx.RankPath(0)
	opt := container.WriteOptions{Progress: b.progress}
	info, err := container.Write(b.ctx, vfs.OS{}, path, h, regions, opt)
	if err != nil {
		return 0, err
	}
	rel := container.JobPath(path)
	m := &image.Manifest{
		App: "bench", NP: 1, Mapping: []int{1}, Created: start.UTC(), Bytes: info.Zones,
		Files: []container.File{{Path: rel, Kind: container.KindRank, Ranks: []int{0}, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}},
		Ranks: []image.Rank{{Zones: info.Zones, File: rel}},
	}
	if err := tx.Commit(b.ctx, m); err != nil {
		return 0, err
	}
	rate := float64(size) / time.Since(start).Seconds()
	_, _, err = b.job.Prune(0)
	return rate, err
}

// plain writes the same bytes to a plain file.
func (b *writeBench) plain(flags int) (rate float64, err error) {
	start := time.Now()
	f, err := os.OpenFile(b.file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|flags, 0o600)
	defer os.Remove(b.file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for off := 0; off < len(b.mem); off += block {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		n, err := f.Write(b.mem[off:min(off+block, len(b.mem))])
		if err != nil {
			return 0, err
		}
		b.progress(int64(n))
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return float64(len(b.mem)) / time.Since(start).Seconds(), nil
}

type benchWriteOptions struct {
	dir, size string
	rounds    int
	sieve     bool
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.sieve {
				g.Warn("bench write --sieve is now called ckpt bench sieve")
				return sieve.Run(cmd.Context(), g, o.ofSieve(cmd.Flags()))
			}
			return runBenchWrite(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", os.TempDir(), "directory on the file system to measure")
	f.StringVar(&o.size, "size", "512MiB", "bytes per round")
	f.IntVar(&o.rounds, "rounds", 5, "number of rounds")
	f.BoolVar(&o.sieve, "sieve", false, "is now ckpt bench sieve")
	f.Lookup("sieve").Hidden = true
	return cmd
}

// ofSieve are the options of --sieve, the earlier name of bench sieve, which has other defaults.
func (o benchWriteOptions) ofSieve(f *pflag.FlagSet) sieve.Options {
	s := sieve.Options{Dir: ".", Size: "128MiB", Rounds: 3}
	if f.Changed("dir") {
		s.Dir = o.dir
	}
	if f.Changed("size") {
		s.Size = o.size
	}
	if f.Changed("rounds") {
		s.Rounds = o.rounds
	}
	return s
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
	opt := WriteOptions{Size: size, Rounds: o.rounds}
	add, done := g.Progress("write", opt.Total())
	opt.Progress = add
	r, err := MeasureWrite(ctx, o.dir, opt)
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
			ui.MiB(r.Size), o.rounds, rate(r.CheckpointMedian), rate(r.DirectMedian),
			rate(r.BufferedMedian), r.Ratio)
	})
}
