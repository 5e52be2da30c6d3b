// Package bench measures how fast a directory takes checkpoints, next to how
// fast it takes the same bytes written plainly.
//
// One call of Write alternates between a checkpoint on the real path
// (container.Write, then Tx.Commit), a plain sequential O_DIRECT write of 4 MiB
// blocks with fsync, and a buffered write with fsync, so that whatever else the
// disk does meanwhile meets all three alike. It removes all that it wrote.
package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// block is the length of one plain write.
const block = 4 << 20

// A Result is what Write measured. Bandwidths are in bytes per second, one for
// each round.
type Result struct {
	Size       int64     `json:"round_bytes"` // bytes of one round and way
	Checkpoint []float64 `json:"checkpoint_bytes_per_s"`
	Direct     []float64 `json:"direct_bytes_per_s"` // empty where O_DIRECT does not work
	Buffered   []float64 `json:"buffered_bytes_per_s"`
	// Coded is the checkpoint with Options.Codec, in bytes of memory per second.
	Coded []float64 `json:"coded_bytes_per_s,omitempty"`
	// CodedOneCore is the same with GOMAXPROCS=1.
	CodedOneCore []float64 `json:"coded_one_core_bytes_per_s,omitempty"`
	// Medians of the above.
	CheckpointMedian float64 `json:"checkpoint_median_bytes_per_s"`
	DirectMedian     float64 `json:"direct_median_bytes_per_s"`
	BufferedMedian   float64 `json:"buffered_median_bytes_per_s"`
	CodedMedian      float64 `json:"coded_median_bytes_per_s,omitempty"`
	// CodedRatio is CodedMedian by CheckpointMedian, CodedStored the bytes stored of
	// Size.
	CodedRatio  float64 `json:"coded_ratio,omitempty"`
	CodedStored int64   `json:"coded_stored_bytes,omitempty"`
	// Cores is GOMAXPROCS, Scaling CodedMedian by the median on one core.
	Cores   int     `json:"cores"`
	Scaling float64 `json:"scaling,omitempty"`
	// Gzip is how many bytes of memory per second the program gzip -1 takes from
	// a pipe, out of which it makes GzipShare of their number; 0 if it is not
	// installed. GzipRatio is the median of CodedOneCore by that.
	Gzip      float64 `json:"gzip_1_bytes_per_s,omitempty"`
	GzipShare float64 `json:"gzip_1_share,omitempty"`
	GzipRatio float64 `json:"gzip_1_ratio,omitempty"`
	// Ratio is the median of the checkpoint to the better of the other two.
	Ratio float64 `json:"checkpoint_ratio"`
	// PeakExtraMemory is by how much the resident memory of the process grew
	// while a checkpoint was written, in bytes, at most over the rounds; 0 if
	// the kernel does not tell.
	PeakExtraMemory int64 `json:"peak_extra_bytes"`
}

// Options say what Write measures.
type Options struct {
	Size   int64 // bytes per round and way
	Rounds int
	// Field fills the memory with a smooth field of float64, as a solver has it,
	// instead of noise that nothing compresses.
	Field bool
	// Codec, unless none, is measured as well.
	Codec codec.Setting
	// Progress, if not nil, is told the bytes written since the last call.
	Progress func(int64)
}

// Total returns the bytes that Progress is told in all.
func (o Options) Total() int64 { return o.Size * int64(o.Rounds) * int64(o.ways()) }

func (o Options) ways() int {
	if o.Codec == codec.UseNone {
		return 3
	}
	return 5
}

// Write measures in a new directory inside dir.
func Write(ctx context.Context, dir string, o Options) (res Result, err error) {
	size, rounds := zones.PageRound(o.Size), o.Rounds
	if size <= 0 || rounds <= 0 {
		return res, fmt.Errorf("cannot measure %d bytes in %d rounds", size, rounds)
	}
	res.Size, res.Cores = size, runtime.GOMAXPROCS(0)
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return res, fmt.Errorf("allocate %d bytes: %w", size, err)
	}
	defer unix.Munmap(mem)
	if o.Field {
		fillField(mem)
	} else {
		fill(mem)
	}

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

	b := &bench{ctx: ctx, mem: mem, job: job, file: filepath.Join(work, "plain"), progress: o.Progress}
	coder, one := container.NewCodec(o.Codec, 0), container.NewCodec(o.Codec, 0)
	if b.progress == nil {
		b.progress = func(int64) {}
	}
	for round := range rounds {
		rate, extra, _, err := b.checkpoint(3*round+1, nil)
		if err != nil {
			return res, err
		}
		res.Checkpoint = append(res.Checkpoint, rate)
		res.PeakExtraMemory = max(res.PeakExtraMemory, extra)
		if o.Codec != codec.UseNone {
			rate, _, stored, err := b.checkpoint(3*round+2, coder)
			if err != nil {
				return res, err
			}
			res.Coded, res.CodedStored = append(res.Coded, rate), stored
			if rate, err = b.oneCore(3*round+3, one); err != nil {
				return res, err
			}
			res.CodedOneCore = append(res.CodedOneCore, rate)
		}

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
	res.CheckpointMedian = median(res.Checkpoint)
	res.DirectMedian = median(res.Direct)
	res.BufferedMedian = median(res.Buffered)
	res.CodedMedian = median(res.Coded)
	res.CodedRatio = res.CodedMedian / res.CheckpointMedian
	if o.Codec != codec.UseNone {
		alone := median(res.CodedOneCore)
		res.Scaling = res.CodedMedian / alone
		rate, read, stored, err := b.gzip()
		if err != nil {
			return res, err
		}
		if rate > 0 {
			res.Gzip, res.GzipRatio, res.GzipShare = rate, alone/rate, float64(stored)/float64(read)
		}
	}
	res.Ratio = res.CheckpointMedian / max(res.DirectMedian, res.BufferedMedian)
	return res, nil
}

type bench struct {
	ctx      context.Context
	mem      []byte
	job      *image.Job
	file     string
	progress func(int64)
}

// checkpoint writes one checkpoint and removes it again outside the time.
func (b *bench) checkpoint(number int, coder *container.Codec) (rate float64, extra, stored int64, err error) {
	resident := resetPeak()
	start := time.Now()
	tx, err := b.job.Begin(number)
	if err != nil {
		return 0, 0, 0, err
	}
	defer tx.Abort()
	size := int64(len(b.mem))
	regions := []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: size, Mem: b.mem}}
	h := container.Header{Job: b.job.Name(), Number: number, Kind: container.KindRank}
	path := tx.RankPath(0)
	info, err := container.Write(b.ctx, vfs.OS{}, path, h, regions, container.WriteOptions{Progress: b.progress, Codec: coder})
	if err != nil {
		return 0, 0, 0, err
	}
	rel, err := filepath.Rel(b.job.Dir(), path)
	if err != nil {
		return 0, 0, 0, err
	}
	m := &image.Manifest{
		App: "bench", NP: 1, Mapping: []int{1}, Created: start.UTC(), Bytes: info.Zones,
		Files: []container.File{{Path: rel, Kind: container.KindRank, Ranks: []int{0}, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}},
		Ranks: []image.Rank{{Zones: info.Zones, File: rel}},
	}
	if err := tx.Commit(b.ctx, m); err != nil {
		return 0, 0, 0, err
	}
	rate = float64(size) / time.Since(start).Seconds()
	if peak := status("VmHWM:"); peak > 0 && resident > 0 {
		extra = max(peak-resident, 0)
	}
	_, _, err = b.job.Prune(0)
	return rate, extra, info.Bytes, err
}

// oneCore is checkpoint on one core.
func (b *bench) oneCore(number int, coder *container.Codec) (rate float64, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rate, _, _, err = b.checkpoint(number, coder)
	return rate, err
}

// gzipBytes is how much of the memory gzip has to compress: it is slow.
const gzipBytes = 64 << 20

// gzip has the program of this name compress the beginning of the memory, and
// returns what comes out; 0 if it is not installed.
func (b *bench) gzip() (rate float64, read, stored int64, err error) {
	program, err := exec.LookPath("gzip")
	if err != nil {
		return 0, 0, 0, nil
	}
	mem := b.mem[:min(len(b.mem), gzipBytes)]
	var n counter
	cmd := exec.CommandContext(b.ctx, program, "-1")
	cmd.Stdin, cmd.Stdout = bytes.NewReader(mem), &n
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, 0, 0, fmt.Errorf("%s -1: %w", program, err)
	}
	return float64(len(mem)) / time.Since(start).Seconds(), int64(len(mem)), int64(n), nil
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// plain writes the same bytes to a plain file.
func (b *bench) plain(flags int) (rate float64, err error) {
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

// fill makes bytes that no disk can compress, the same in every run.
func fill(mem []byte) {
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(mem)
}

// fillField makes the temperature of a plate that is cold but for some sources:
// smooth, with noise in the last bits as rounding leaves it.
func fillField(mem []byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	const side = 4096
	for i := 0; i+8 <= len(mem); i += 8 {
		x, y := float64(i/8%side)/side, float64(i/8/side)/side
		v := 300 + 40*math.Sin(7*x)*math.Cos(5*y) + 8*math.Exp(-20*(x-y)*(x-y)) + 1e-12*rng.Float64()
		binary.LittleEndian.PutUint64(mem[i:], math.Float64bits(v))
	}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// resetPeak makes the kernel forget the peak of the resident memory and returns
// what is resident now.
func resetPeak() int64 {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0
	}
	return status("VmRSS:")
}

// status reads a field of /proc/self/status, in bytes; 0 if it is not there.
func status(field string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
			kb, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
