package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// genRegions draws the memory of a rank: few regions or many, of sizes around
// those where something changes.
func genRegions(t *rapid.T) []zones.Region {
	edge := rapid.SampledFrom([]int64{0, 1, zones.PageSize - 1, zones.PageSize, zones.PageSize + 1, 3 * zones.PageSize})
	size := rapid.OneOf(edge, rapid.Int64Range(0, 100_000))
	if rapid.IntRange(0, 19).Draw(t, "large") == 0 {
		size = rapid.OneOf(edge, rapid.Int64Range(1<<20-zones.PageSize, 8<<20))
	}
	n := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 40)).Draw(t, "regions")
	regions := make([]zones.Region, 0, n)
	for i := range n {
		zone := rapid.SampledFrom(zones.All()).Draw(t, "zone")
		r := region(fmt.Sprintf("%s.%d", zone, i), zone, size.Draw(t, "size"), rapid.Uint64Range(0, 1000).Draw(t, "seed"))
		if len(r.Mem) > 0 && rapid.IntRange(0, 9).Draw(t, "misplaced") == 0 {
			// Memory that direct I/O does not take.
			r.Mem = append(make([]byte, 1, len(r.Mem)+1), r.Mem...)[1:]
		}
		regions = append(regions, r)
	}
	return regions
}

// cutZeros makes some regions end in pages of zeros that have no memory.
func cutZeros(t *rapid.T, regions []zones.Region) []zones.Region {
	for i := range regions {
		if r := &regions[i]; len(r.Mem) > 0 && rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
			pages := rapid.IntRange(0, len(r.Mem)/zones.PageSize).Draw(t, "pages")
			r.Mem = r.Mem[:pages*zones.PageSize]
			if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
				r.Size += 70 << 20
			}
		}
	}
	return regions
}

// whole gives regions the pages of zeros that they lack.
func whole(regions []zones.Region) []zones.Region {
	for i := range regions {
		if r := &regions[i]; int64(len(r.Mem)) < zones.PageRound(r.Size) {
			mem := vfs.Aligned(int(zones.PageRound(r.Size)))
			copy(mem, r.Mem)
			r.Mem = mem
		}
	}
	return regions
}

func roundTrip(t *rapid.T, fsys vfs.FS, dir string) {
	ctx := context.Background()
	regions := genRegions(t)
	opt := container.WriteOptions{
		ExtentBytes: rapid.SampledFrom([]int{0, 1, 4096, 10_000, 1 << 20, 1 << 30}).Draw(t, "extent"),
		Depth:       rapid.IntRange(0, 5).Draw(t, "depth"),
		Buffered:    rapid.Bool().Draw(t, "buffered"),
		Codec:       container.NewCodec(rapid.SampledFrom([]codec.Setting{codec.UseAuto, codec.UseNone, codec.UseGzip, codec.UseZstd, codec.UseS2}).Draw(t, "codec"), 0),
	}
	if rapid.Bool().Draw(t, "incremental") {
		opt.History = container.NewHistory()
	}
	regions = cutZeros(t, regions)
	was := whole(copyOf([][]zones.Region{regions})[0])
	captured := 0
	if n := rapid.SampledFrom([]int{0, 0, 1, 20, 1000, 10000}).Draw(t, "staging"); n > 0 {
		opt.Staging = container.NewStaging(vfs.Aligned(n * zones.PageSize))
		opt.Captured = func() {
			captured++
			scramble(regions)
		}
	}
	var told int64
	opt.Progress = func(n int64) { told += n }
	s, err := CreateStore(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.CreateJob(testJob, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	tx, err := j.Begin(1)
	if err != nil {
		t.Fatal(err)
	}
	info, err := container.Write(ctx, fsys, tx.RankPath(0), container.Header{Job: testJob, Number: 1, Kind: container.KindRank}, regions, opt)
	if err != nil {
		t.Fatal(err)
	}
	if opt.Staging != nil && captured != 1 {
		t.Fatalf("told %d times that the memory may change", captured)
	}
	var memory int64
	for _, r := range regions {
		memory += int64(len(r.Mem))
	}
	regions = was
	var want zones.Sizes
	for _, r := range regions {
		want.Add(r.Zone, r.Size)
	}
	if info.Zones != want || told != memory {
		t.Fatalf("zones %+v, want %+v; progress %d of %d", info.Zones, want, told, memory)
	}
	m := testManifest(1)
	m.Files = []container.File{{Path: "0001/rank-0.img", Kind: container.KindRank, Ranks: []int{0}, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}}
	if err := tx.Commit(ctx, m); err != nil {
		t.Fatal(err)
	}
	got := empty(regions)
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(got), func(a, b int) { got[a], got[b] = got[b], got[a] })
	if err := j.Load(ctx, m, "0001/rank-0.img", 0, got, container.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]zones.Region)
	for _, r := range got {
		byName[r.Name] = r
	}
	for i, r := range regions {
		got[i] = byName[r.Name]
	}
	if err := sameMemory(info.Path, got, regions); err != nil {
		t.Fatal(err)
	}
	rep, err := j.Verify(ctx, 1, nil)
	fi, serr := fsys.Stat(j.manifestPath(1))
	if err != nil || serr != nil || len(rep.Damage) > 0 || rep.CheckedBytes != info.Bytes+fi.Size() {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	later(t, fsys, j, regions, opt)
}

// later takes more checkpoints of memory that changes a little, and checks the
// last one, whether the first ones are pruned or not.
func later(t *rapid.T, fsys vfs.FS, j *Job, regions []zones.Region, opt container.WriteOptions) {
	ctx := context.Background()
	last := 1 + rapid.IntRange(0, 4).Draw(t, "more checkpoints")
	opt.Progress, opt.Captured = nil, nil
	for n := 2; n <= last; n++ {
		for i, r := range regions {
			if len(r.Mem) > 0 && rapid.Bool().Draw(t, "change") {
				at := rapid.IntRange(0, int(r.Size)-1).Draw(t, "at")
				regions[i].Mem[at] ^= byte(n)
			}
		}
		tx, err := j.Begin(n)
		if err != nil {
			t.Fatal(err)
		}
		opt.Base = n - 1
		opt.Oldest = rapid.IntRange(0, n).Draw(t, "oldest")
		info, err := container.Write(ctx, fsys, tx.RankPath(0), container.Header{Job: testJob, Number: n, Kind: container.KindRank}, regions, opt)
		if err != nil {
			t.Fatal(err)
		}
		m := testManifest(n)
		rel := fmt.Sprintf("%04d/rank-0.img", n)
		m.Files = []container.File{{Path: rel, Kind: container.KindRank, Ranks: []int{0}, Node: 0, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}}
		if err := tx.Commit(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := j.Prune(rapid.IntRange(1, last).Draw(t, "keep")); err != nil {
		t.Fatal(err)
	}
	m, err := j.Manifest(last)
	if err != nil {
		t.Fatal(err)
	}
	got := empty(regions)
	for _, r := range got {
		for at := copy(r.Mem, "restored zeros must be written, too"); at < len(r.Mem); at *= 2 {
			copy(r.Mem[at:], r.Mem[:at])
		}
	}
	if err := j.Load(ctx, m, m.Files[0].Path, rankIn(m.Files[0]), got, container.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := sameMemory(m.Files[0].Path, got, regions); err != nil {
		t.Fatal(err)
	}
	if rep, err := j.Verify(ctx, last, nil); err != nil || len(rep.Damage) > 0 {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
}

func TestRoundTripMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, memfs.New(), "/a/b/store") })
}

func TestRoundTripDisk(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(testkit.Disk(), "ckpt-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		roundTrip(t, vfs.OS{}, filepath.Join(dir, fmt.Sprint(n), "store"))
	})
}

func TestLoadOtherRegions(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	m, err := k.take(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]zones.Region) []zones.Region{
		"one less":      func(r []zones.Region) []zones.Region { return r[1:] },
		"one more":      func(r []zones.Region) []zones.Region { return append(r, region("x", zones.Data, 1, 1)) },
		"twice":         func(r []zones.Region) []zones.Region { return append(r[:len(r)-1], r[0]) },
		"other name":    func(r []zones.Region) []zones.Region { r[0].Name = "v"; return r },
		"other size":    func(r []zones.Region) []zones.Region { r[0].Size--; return r },
		"other zone":    func(r []zones.Region) []zones.Region { r[0].Zone = zones.Shared; return r },
		"other element": func(r []zones.Region) []zones.Region { r[0].Elem = zones.Int32; return r },
	} {
		err := k.job.Load(context.Background(), m, m.Files[0].Path, rankIn(m.Files[0]), change(empty(rankRegions(1, 0))), container.LoadOptions{})
		if !errors.Is(err, container.ErrRegionsDiffer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWriteCanceled checks that Write stops and leaves nothing.
func TestWriteCanceled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	regions := []zones.Region{region("u", zones.Data, 3<<20, 1)}
	opt := container.WriteOptions{ExtentBytes: 1 << 20, Depth: 1, Progress: func(int64) { cancel() }}
	_, err := container.Write(ctx, vfs.OS{}, filepath.Join(dir, "x.img"), container.Header{Job: testJob, Number: 1, Kind: container.KindRank}, regions, opt)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	left, err := vfs.OS{}.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestWriteBadInput(t *testing.T) {
	t.Parallel()
	good := container.Header{Job: testJob, Number: 1, Kind: container.KindRank}
	fine := region("u", zones.Data, 10, 1)
	short := fine
	short.Mem = short.Mem[:10]
	noName := fine
	noName.Name = ""
	for name, c := range map[string]struct {
		h       container.Header
		regions []zones.Region
	}{
		"no job":      {container.Header{Number: 1, Kind: container.KindRank}, nil},
		"no number":   {container.Header{Job: testJob, Kind: container.KindRank}, nil},
		"no kind":     {container.Header{Job: testJob, Number: 1}, nil},
		"rank":        {container.Header{Job: testJob, Number: 1, Kind: container.KindRank, Rank: -2}, nil},
		"short":       {good, []zones.Region{short}},
		"no name":     {good, []zones.Region{noName}},
		"same region": {good, []zones.Region{fine, fine}},
	} {
		m := memfs.New()
		if _, err := container.Write(context.Background(), m, "/x", c.h, c.regions, container.WriteOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := m.Stat("/x"); !isNotExist(err) {
			t.Errorf("%s: a file was left", name)
		}
	}
	// Write must not remove a file of others.
	m := memfs.New()
	if f, err := m.Create("/x"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if _, err := container.Write(context.Background(), m, "/x", good, nil, container.WriteOptions{}); err == nil {
		t.Error("overwrote a file")
	}
	if _, err := m.Stat("/x"); err != nil {
		t.Error(err)
	}
}

// TestLoadProgress: whoever loads a checkpoint is told how far that is.
func TestLoadProgress(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	m, err := k.take(1)
	if err != nil {
		t.Fatal(err)
	}
	f := m.Files[0]
	told := int64(0)
	if err := k.job.Load(context.Background(), m, f.Path, rankIn(f), empty(wantRegions(f)), container.LoadOptions{Progress: func(n int64) { told += n }}); err != nil {
		t.Fatal(err)
	}
	if told <= 0 || told > f.Bytes {
		t.Errorf("told of %d bytes of a file of %d", told, f.Bytes)
	}
}
