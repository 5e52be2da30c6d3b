package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/plan/fileview"
	"ckpt/internal/vfs"
)

// sieveOptions say what measureSieve measures.
type sieveOptions struct {
	Size     int64 // of the file that is read
	Rounds   int
	Progress func(int64) // told of bytes asked for since the last call; may be nil
}

// sieveSizes are the sizes of blocks and of holes, in bytes.
var sieveSizes = []int64{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

// joining are the rules that are compared with reading each block alone.
var joining = []fileview.Method{fileview.ROMIO, fileview.Extent, fileview.ScanFile, fileview.PerformanceModel, fileview.Adaptive}

// A sieveResult is what measureSieve measured.
type sieveResult struct {
	Size    int64         `json:"file_bytes"`
	Direct  bool          `json:"direct"` // around the page cache
	Storage image.Storage `json:"-"`
	// BreakEven is the hole, in bytes, that takes as long to read as a call costs.
	BreakEven int64        `json:"break_even_bytes"`
	Patterns  []sieveTimes `json:"patterns"`
}

// sieveTimes compares the rules on blocks of Data bytes with holes of Hole bytes.
type sieveTimes struct {
	Data  int64       `json:"data_bytes"`
	Hole  int64       `json:"hole_bytes"`
	Naive float64     `json:"naive_s"` // median time of a pass, a call per block
	Rules []sieveRule `json:"sieve_rules"`
}

// sieveRule is one rule on one pattern.
type sieveRule struct {
	Rule    fileview.Method `json:"rule"`
	Seconds float64         `json:"pass_s"`
	Speedup float64         `json:"speedup"` // naive time by this one
	Calls   int64           `json:"reads"`
	Bytes   int64           `json:"bytes_read"`
}

// measureSieve measures what it costs to read blocks with holes between them in a directory under
// every rule of data sieving, in turns, so that whatever else the storage does meets all.
func measureSieve(ctx context.Context, dir string, o sieveOptions) (res sieveResult, err error) {
	least := 4 * sieveSizes[len(sieveSizes)-1]
	if o.Size < least || o.Rounds < 1 {
		return res, fmt.Errorf("cannot measure a file of %d bytes in %d rounds: at least %d bytes and 1 round", o.Size, o.Rounds, least)
	}
	if err := checkMemory(o.Size); err != nil {
		return res, err
	}
	work, err := os.MkdirTemp(dir, "ckpt-bench-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	s := &sieveBench{ctx: ctx, size: o.Size, buf: noise(o.Size), progress: o.Progress}
	if err := s.open(filepath.Join(work, "blocks")); err != nil {
		return res, err
	}
	defer s.file.Close()
	res = sieveResult{Size: o.Size, Direct: s.direct}
	if res.Storage, err = s.storage(o.Rounds); err != nil {
		return res, err
	}
	res.BreakEven = res.Storage.BreakEven()
	for _, data := range sieveSizes {
		for _, hole := range sieveSizes {
			t, err := s.pattern(data, hole, o.Rounds, res.Storage)
			if err != nil {
				return res, err
			}
			res.Patterns = append(res.Patterns, t)
		}
	}
	return res, nil
}

type sieveBench struct {
	ctx      context.Context
	size     int64
	buf      []byte
	file     vfs.File
	direct   bool
	progress func(int64)
}

// open makes the file and opens it around the page cache, where that works.
func (s *sieveBench) open(name string) error {
	f, err := vfs.OS{}.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(s.buf, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if f, err = (vfs.OS{}).OpenDirect(name); err == nil {
		if _, err = f.ReadAt(s.buf[:sieveSizes[0]], 0); err == nil {
			s.file, s.direct = f, true
			return nil
		}
		f.Close()
	}
	s.file, err = vfs.OS{}.Open(name)
	return err
}

// pass times the reading of all blocks of a pattern through a view.
func (s *sieveBench) pass(data, hole int64, rule fileview.Rule, storage image.Storage) (time.Duration, fileview.Stats, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, fileview.Stats{}, err
	}
	view, err := fileview.NewView(0, []fileview.Tuple{{Size: data, Hole: hole}}, max(1, s.size/(data+hole)))
	if err != nil {
		return 0, fileview.Stats{}, err
	}
	f, err := fileview.NewFile(s.file, view, fileview.Options{Rule: rule, Device: storage.Device()})
	if err != nil {
		return 0, fileview.Stats{}, err
	}
	start := time.Now()
	_, err = f.ReadAt(s.buf[:view.Size()], 0)
	took := time.Since(start)
	if s.progress != nil {
		s.progress(view.Size())
	}
	return took, f.Stats(), err
}

// storage measures what a call and a byte cost, with calls of the smallest and the largest size
// that leave the same holes. The fastest pass counts; while the fastest two contradict each
// other, there are more.
func (s *sieveBench) storage(rounds int) (image.Storage, error) {
	small, large := sieveSizes[0], sieveSizes[len(sieveSizes)-1]
	a, b := math.Inf(1), math.Inf(1)
	for again := 10; ; again-- {
		for range max(rounds, 5) {
			if err := s.faster(&a, small, large); err != nil {
				return image.Storage{}, err
			}
			if err := s.faster(&b, large, large); err != nil {
				return image.Storage{}, err
			}
		}
		if storage, err := storageOf(small, large, a, b); err == nil || again == 0 {
			return storage, err
		}
	}
}

// faster takes the seconds of a call from another pass, if that took less.
func (s *sieveBench) faster(call *float64, data, hole int64) error {
	took, stats, err := s.pass(data, hole, fileview.Naive, image.Storage{})
	if err != nil {
		return err
	}
	*call = min(*call, took.Seconds()/float64(stats.Reads))
	return nil
}

// storageOf solves call + size/bandwidth = time for two sizes and times.
func storageOf(small, large int64, a, b float64) (image.Storage, error) {
	perByte := (b - a) / float64(large-small)
	call := a - perByte*float64(small)
	if !(perByte > 0) || !(call > 0) {
		return image.Storage{}, fmt.Errorf("calls of %d and %d bytes took %.3g and %.3g s: no cost of a call follows; measure more rounds on a quiet machine",
			small, large, a, b)
	}
	return image.Storage{Bandwidth: 1 / perByte, Call: time.Duration(call * float64(time.Second)), Measured: time.Now().UTC()}, nil
}

func (s *sieveBench) pattern(data, hole int64, rounds int, storage image.Storage) (sieveTimes, error) {
	t := sieveTimes{Data: data, Hole: hole, Rules: make([]sieveRule, len(joining))}
	times := make([][]float64, len(joining))
	var naive []float64
	for range rounds {
		took, _, err := s.pass(data, hole, fileview.Naive, storage)
		if err != nil {
			return t, err
		}
		naive = append(naive, took.Seconds())
		for i, rule := range joining {
			took, stats, err := s.pass(data, hole, rule, storage)
			if err != nil {
				return t, err
			}
			times[i] = append(times[i], took.Seconds())
			t.Rules[i] = sieveRule{Rule: rule, Calls: stats.Reads, Bytes: stats.Read}
		}
	}
	t.Naive = medianOf(naive)
	for i := range t.Rules {
		t.Rules[i].Seconds = medianOf(times[i])
		t.Rules[i].Speedup = t.Naive / t.Rules[i].Seconds
	}
	return t, nil
}

// Total returns the bytes that Progress is told in all, about.
func (o sieveOptions) Total() int64 {
	sum := int64(0)
	for _, data := range sieveSizes {
		for _, hole := range sieveSizes {
			sum += o.Size / (data + hole) * data
		}
	}
	return sum * int64(o.Rounds) * int64(1+len(joining))
}

// storageCost is image.Storage in the units of --json.
type storageCost struct {
	Bandwidth float64   `json:"bytes_per_s"`
	Call      float64   `json:"call_s"` // cost of a call however short it is
	Measured  time.Time `json:"measured_at"`
}

func runBenchSieve(ctx context.Context, g *ui.Globals, w benchWriteOptions) error {
	size, err := ui.ParseSize("--size", w.size)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	store, err := image.OpenStore(vfs.OS{}, w.dir)
	if err != nil && !errors.Is(err, image.ErrNoStore) {
		return err
	}
	o := sieveOptions{Size: size, Rounds: w.rounds}
	add, done := g.Progress("sieve", o.Total())
	o.Progress = add
	r, err := measureSieve(ctx, w.dir, o)
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
			sieveResult
			Cost storageCost `json:"storage_cost"`
			Kept bool        `json:"kept_in_store"`
		}{w.dir, r, storageCost{r.Storage.Bandwidth, r.Storage.Call.Seconds(), r.Storage.Measured}, store != nil})
	}
	return printSieve(g, r, store)
}

func printSieve(g *ui.Globals, r sieveResult, store *image.Store) error {
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
