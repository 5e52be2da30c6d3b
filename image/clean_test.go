package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

const cleanExtent = 2 * zones.PageSize

// dirty knows which pages of some regions have changed.
type dirty map[string]bool

func dirtyKey(region string, page int64) string { return fmt.Sprint(region, page) }

// change changes a byte of a region.
func (d dirty) change(r zones.Region, at int64) {
	r.Mem[at]++
	d[dirtyKey(r.Name, at/zones.PageSize)] = true
}

func (d dirty) clean(region string, offset, n int64) bool {
	for p := offset / zones.PageSize; p*zones.PageSize < offset+n; p++ {
		if d[dirtyKey(region, p)] {
			return false
		}
	}
	return true
}

// extents returns how many bytes of extents have changed.
func (d dirty) extents(regions []zones.Region) (n int64) {
	for _, r := range regions {
		for off := int64(0); off < int64(len(r.Mem)); off += cleanExtent {
			if length := min(cleanExtent, int64(len(r.Mem))-off); !d.clean(r.Name, off, length) {
				n += length
			}
		}
	}
	return n
}

func cleanOptions(e *elsewhere, d dirty, history *container.History, setting codec.Setting, base int) container.WriteOptions {
	opt := container.WriteOptions{ExtentBytes: cleanExtent, History: history, Base: base, Clean: d.clean, Codec: container.NewCodec(setting, 0)}
	e.options(&opt)
	return opt
}

// TestClean: of a series of checkpoints only the extents that have changed are fetched,
// and each holds what the memory was.
func TestClean(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		k := memJob(t)
		own := mixedRegions(40*zones.PageSize, 1)
		e := newElsewhere(t, own, unix.PROT_NONE)
		setting := rapid.SampledFrom([]codec.Setting{codec.UseNone, codec.UseZstd}).Draw(rt, "codec")
		history := container.NewHistory()
		for number := 1; number <= 4; number++ {
			d := make(dirty)
			for range rapid.IntRange(0, 8).Draw(rt, "changes") {
				r := own[rapid.SampledFrom([]int{0, 1, 2, 4}).Draw(rt, "region")]
				d.change(r, rapid.Int64Range(0, r.Size-1).Draw(rt, "at"))
			}
			want := d.extents(own)
			if number == 1 {
				want = bytesOf(own) // nothing is known yet
			}
			e.moved = 0
			var told int64
			opt := cleanOptions(e, d, history, setting, number-1)
			opt.Progress = func(n int64) { told += n }
			m, err := k.writeAlone(number, e.seen, opt)
			if err != nil {
				rt.Fatal(err)
			}
			if e.moved != want || told != bytesOf(own) {
				rt.Fatalf("checkpoint %d: fetched %d bytes, want %d; progress %d", number, e.moved, want, told)
			}
			if err := errors.Join(k.holds(m, own), e.check(fetchMost)); err != nil {
				rt.Fatal(err)
			}
			if rapid.Bool().Draw(rt, "restart") {
				history = container.NewHistory()
				if err := k.job.Recall(history, m, m.Files[0].Path, 0); err != nil {
					rt.Fatal(err)
				}
			}
		}
	})
}

// TestCleanTogether: ranks that write files together refer to what is clean, too, and
// need few rounds for it.
func TestCleanTogether(t *testing.T) {
	t.Parallel()
	for name, s := range groupLayouts() {
		t.Run(name, func(t *testing.T) {
			g := newGroupJob(t, groupRanks(), s, codec.UseNone, true)
			memory, seen := groupMemory(1), make([][]zones.Region, 3)
			d := make(dirty)
			var es []*elsewhere
			for i := range memory {
				e := newElsewhere(t, memory[i], unix.PROT_NONE)
				es, seen[i] = append(es, e), e.seen
			}
			g.tune = func(i int, opt *container.WriteOptions) {
				es[i].options(opt)
				opt.ExtentBytes, opt.Clean = cleanExtent, d.clean
			}
			for number := 1; number <= 3; number++ {
				clear(d)
				if number > 1 {
					for i := range memory {
						d.change(memory[i][0], int64(number*9000+i))
					}
				}
				for _, e := range es {
					e.moved = 0
				}
				m, err := g.take(t.Context(), number, number-1, seen)
				if err != nil {
					t.Fatal(err)
				}
				if err := g.check(m, memory); err != nil {
					t.Fatal(err)
				}
				for i, e := range es {
					if want := d.extents(memory[i]); number > 1 && e.moved != want {
						t.Errorf("checkpoint %d: rank %d fetched %d bytes, want %d", number, i, e.moved, want)
					}
					if err := e.check(fetchMost); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestCleanUnknown: what is clean is read all the same if the base does not have it, or
// only in a file that is too old.
func TestCleanUnknown(t *testing.T) {
	t.Parallel()
	own := mixedRegions(20*zones.PageSize, 1)
	for name, c := range map[string]struct {
		change func(opt *container.WriteOptions)
		seen   func([]zones.Region) []zones.Region
		all    bool
	}{
		"known":            {func(*container.WriteOptions) {}, nil, false},
		"no base":          {func(o *container.WriteOptions) { o.Base = 0 }, nil, true},
		"unknown base":     {func(o *container.WriteOptions) { o.Base = 7 }, nil, true},
		"no history":       {func(o *container.WriteOptions) { o.History = nil }, nil, true},
		"other extents":    {func(o *container.WriteOptions) { o.ExtentBytes = 64 * zones.PageSize }, nil, true},
		"another name":     {nil, func(rs []zones.Region) []zones.Region { return renamed(rs, "new", zones.Data) }, true},
		"of another zone":  {nil, func(rs []zones.Region) []zones.Region { return renamed(rs, rs[0].Name, zones.Shared) }, true},
		"file is too old":  {func(o *container.WriteOptions) { o.Oldest = 2 }, nil, true},
		"file is just old": {func(o *container.WriteOptions) { o.Oldest = 1 }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := memJob(t)
			e := newElsewhere(t, own[:1], unix.PROT_NONE)
			history := container.NewHistory()
			if _, err := k.writeAlone(1, e.seen, cleanOptions(e, nil, history, codec.UseNone, 0)); err != nil {
				t.Fatal(err)
			}
			opt, regions := cleanOptions(e, nil, history, codec.UseNone, 1), e.seen
			if c.change != nil {
				c.change(&opt)
			}
			if c.seen != nil {
				regions = c.seen(regions)
			}
			e.moved = 0
			m, err := k.writeAlone(2, regions, opt)
			if err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if c.all {
				want = bytesOf(own[:1])
			}
			// Zeros lie in no file: they are never too old.
			if name == "file is too old" {
				want -= zeroExtents(own[0])
			}
			if e.moved != want {
				t.Errorf("fetched %d bytes, want %d", e.moved, want)
			}
			for i := range regions {
				regions[i].Mem = own[i].Mem
			}
			if err := k.holds(m, regions); err != nil {
				t.Error(err)
			}
		})
	}
}

func renamed(regions []zones.Region, name string, zone zones.Zone) []zones.Region {
	regions = slices.Clone(regions)
	regions[0].Name, regions[0].Zone = name, zone
	return regions
}

func zeroExtents(r zones.Region) (n int64) {
	for off := 0; off < len(r.Mem); off += cleanExtent {
		if b := r.Mem[off:min(off+cleanExtent, len(r.Mem))]; codec.IsZero(b) {
			n += int64(len(b))
		}
	}
	return n
}

// TestCleanLies: a lie about what is clean makes a checkpoint of older bytes, which is
// sound all the same.
func TestCleanLies(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	own := mixedRegions(20*zones.PageSize, 1)
	was := make([][]byte, len(own))
	for i := range own {
		was[i] = slices.Clone(own[i].Mem)
	}
	e := newElsewhere(t, own, unix.PROT_NONE)
	history := container.NewHistory()
	if _, err := k.writeAlone(1, e.seen, cleanOptions(e, nil, history, codec.UseNone, 0)); err != nil {
		t.Fatal(err)
	}
	own[0].Mem[3]++
	m, err := k.writeAlone(2, e.seen, cleanOptions(e, nil, history, codec.UseNone, 1))
	if err != nil {
		t.Fatal(err)
	}
	old := slices.Clone(own)
	for i := range old {
		old[i].Mem = was[i]
	}
	if err := k.holds(m, old); err != nil {
		t.Error(err)
	}
}

// TestCleanStaged: what is clean takes no staging memory, and is not read.
func TestCleanStaged(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	own := mixedRegions(40*zones.PageSize, 1)
	history := container.NewHistory()
	opt := container.WriteOptions{ExtentBytes: cleanExtent, History: history}
	if _, err := k.writeAlone(1, own, opt); err != nil {
		t.Fatal(err)
	}
	d := make(dirty)
	d.change(own[0], 5*zones.PageSize)
	hidden := slices.Clone(own)
	mem, err := unix.Mmap(-1, 0, len(own[0].Mem), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	part := mem[4*zones.PageSize : 6*zones.PageSize]
	if err := unix.Mprotect(part, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	copy(part, own[0].Mem[4*zones.PageSize:])
	hidden[0].Mem = mem
	captured := 0
	opt.Base, opt.Clean = 1, d.clean
	opt.Staging, opt.Captured = container.NewStaging(vfs.Aligned(cleanExtent)), func() { captured++; clear(part) }
	m, err := k.writeAlone(2, hidden, opt)
	if err != nil || captured != 1 {
		t.Fatalf("captured %d times, %v", captured, err)
	}
	if err := k.holds(m, own); err != nil {
		t.Error(err)
	}
}

// TestLoaded: each byte of each region is handed over once, complete, and not touched
// after that; little memory waits to be.
func TestLoaded(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	for _, setting := range []codec.Setting{codec.UseNone, codec.UseZstd} {
		for _, extent := range []int{0, 48 << 20} {
			if !testkit.Nightly() && (setting == codec.UseNone) != (extent == 0) {
				continue
			}
			t.Run(fmt.Sprintf("%v,%d", setting, extent), func(t *testing.T) {
				k := memJob(t)
				own := mixedRegions(72<<20, 1)
				opt := container.WriteOptions{ExtentBytes: extent, Codec: container.NewCodec(setting, 0), History: container.NewHistory()}
				if _, err := k.writeAlone(1, own, opt); err != nil {
					t.Fatal(err)
				}
				own[0].Mem[50<<20]++
				opt.Base = 1
				m, err := k.writeAlone(2, own, opt)
				if err != nil {
					t.Fatal(err)
				}
				e := newElsewhere(t, empty(own), unix.PROT_READ|unix.PROT_WRITE)
				if err := k.job.Load(t.Context(), m, m.Files[0].Path, 0, e.seen, container.LoadOptions{Loaded: e.loaded}); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(append(e.complaints, sameMemory("the process", e.own, own))...); err != nil || e.moved != bytesOf(own) {
					t.Errorf("%d of %d bytes were handed over: %v", e.moved, bytesOf(own), err)
				}
				if e.resident > most {
					t.Errorf("%d MiB waited to be handed over, want %d at most", e.resident>>20, most>>20)
				}
			})
		}
	}
}

// TestLoadedTogether: the same for a rank in a file of several.
func TestLoadedTogether(t *testing.T) {
	t.Parallel()
	g := newGroupJob(t, groupRanks(), groupLayouts()["shared"], codec.UseZstd, true)
	memory := groupMemory(1)
	for number := 1; number <= 2; number++ {
		memory[1][0].Mem[number]++
		m, err := g.take(t.Context(), number, number-1, memory)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range m.Ranks {
			e := newElsewhere(t, empty(memory[i]), unix.PROT_READ|unix.PROT_WRITE)
			if err := g.job.Load(t.Context(), m, r.File, i, e.seen, container.LoadOptions{Loaded: e.loaded}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(append(e.complaints, sameMemory(r.File, e.own, memory[i]))...); err != nil || e.moved != bytesOf(memory[i]) {
				t.Errorf("rank %d: %d bytes were handed over: %v", i, e.moved, err)
			}
		}
	}
}

// TestLoadedFails: a load ends with the first error of the hook, and damaged bytes are
// not handed over.
func TestLoadedFails(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	own := mixedRegions(20*zones.PageSize, 1)
	m, err := k.writeAlone(1, own, container.WriteOptions{ExtentBytes: cleanExtent})
	if err != nil {
		t.Fatal(err)
	}
	load := func(fails int) (*elsewhere, error) {
		e := newElsewhere(t, empty(own), unix.PROT_READ|unix.PROT_WRITE)
		e.fails = fails
		return e, k.job.Load(t.Context(), m, m.Files[0].Path, 0, e.seen, container.LoadOptions{Loaded: e.loaded})
	}
	for call := 1; ; call++ {
		e, err := load(call)
		if err == nil {
			if call < 4 || e.calls != call-1 {
				t.Errorf("memory is handed over in %d parts", call-1)
			}
			break
		}
		if !errors.Is(err, errGone) || !strings.Contains(err.Error(), "hand over memory") {
			t.Error(err)
		}
	}
	at := int64(container.BlockSize + 7) // in the first extent
	f, err := k.fs.OpenWrite(k.job.Dir() + "/" + m.Files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{own[0].Mem[7] ^ 1}, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := load(0)
	if err == nil || e.held[0][0] {
		t.Errorf("damaged bytes were handed over: %v", err)
	}
}
