package image

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// fetchMost is the most memory that a write holds, as WriteOptions.Fetch says.
const fetchMost = 32 << 20

// mixedRegions are regions with noise, what compresses, zeros, and nothing.
func mixedRegions(n int64, seed uint64) []zones.Region {
	regions := []zones.Region{
		region("noise", zones.Data, n, seed),
		region("odd", zones.Data, 5000, seed+1),
		region("ramp", zones.Data, n/2+zones.PageSize, seed+2),
		region("empty", zones.Data, 0, 0),
		region("zero", zones.Data, n/3, seed+3),
	}
	for at := 0; at < len(regions[2].Mem); at += 8 {
		binary.LittleEndian.PutUint64(regions[2].Mem[at:], uint64(at)+seed)
	}
	clear(regions[4].Mem)
	regions[0].Mem[n/2] = 0
	clear(regions[0].Mem[n/2/zones.PageSize*zones.PageSize:][:min(n/4, 1<<20)])
	return regions
}

// writeAlone commits checkpoint number of a rank that writes a file of its own.
func (k *taker) writeAlone(number int, regions []zones.Region, opt container.WriteOptions) (*Manifest, error) {
	tx, err := k.job.Begin(number)
	if err != nil {
		return nil, err
	}
	info, err := container.Write(context.Background(), k.fs, tx.RankPath(0), container.Header{Job: testJob, Number: number, Kind: container.KindRank}, regions, opt)
	if err != nil {
		return nil, errors.Join(err, tx.Abort())
	}
	m := testManifest(number)
	m.Files = []container.File{{Path: fmt.Sprintf("%04d/rank-0.img", number), Kind: container.KindRank, Ranks: []int{0}, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}}
	return m, tx.Commit(context.Background(), m)
}

// holds checks that the one rank of checkpoint m has the memory.
func (k *taker) holds(m *Manifest, regions []zones.Region) error {
	rep, err := k.job.Verify(context.Background(), m.Number, nil)
	if err != nil || len(rep.Damage) > 0 {
		return fmt.Errorf("verify: %v, %w", rep.Damage, err)
	}
	got := empty(regions)
	if err := k.job.Load(context.Background(), m, m.Files[0].Path, 0, got, container.LoadOptions{}); err != nil {
		return err
	}
	return sameMemory(m.Files[0].Path, got, regions)
}

// TestFetch: memory that is elsewhere is stored, and touched only while it is held, of
// which little is at a time.
func TestFetch(t *testing.T) {
	t.Parallel()
	for _, setting := range []codec.Setting{codec.UseNone, codec.UseZstd} {
		for _, incremental := range testkit.Some(1, false, true) {
			t.Run(fmt.Sprintf("%v,incremental=%v", setting, incremental), func(t *testing.T) {
				k := memJob(t)
				n := int64(24 << 20) // more than is held at a time
				if testkit.Nightly() {
					n = 48 << 20
				}
				own := mixedRegions(n, 1)
				e := newElsewhere(t, own, unix.PROT_NONE)
				opt := container.WriteOptions{Codec: container.NewCodec(setting, 0)}
				if incremental {
					opt.History = container.NewHistory()
				}
				e.options(&opt)
				var told int64
				opt.Progress = func(n int64) { told += n }
				for number := 1; number <= 3; number++ {
					own[0].Mem[number<<20]++
					told, e.moved = 0, 0
					opt.Base = number - 1
					m, err := k.writeAlone(number, e.seen, opt)
					if err != nil {
						t.Fatal(err)
					}
					if told != bytesOf(own) || e.moved != told {
						t.Errorf("fetched %d bytes, progress %d, want %d", e.moved, told, bytesOf(own))
					}
					if err := errors.Join(k.holds(m, own), e.check(fetchMost)); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// TestFetchTogether: the same for ranks that write files together, and need the memory
// of each other.
func TestFetchTogether(t *testing.T) {
	t.Parallel()
	layouts := groupLayouts()
	for _, name := range testkit.Some(2, slices.Sorted(maps.Keys(layouts))...) {
		s := layouts[name]
		for _, setting := range []codec.Setting{codec.UseNone, codec.UseZstd} {
			for _, incremental := range []bool{false, true} {
				if !testkit.Nightly() && ((setting == codec.UseZstd) != (name == "shared") || incremental == (name == "aggregated")) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v,incremental=%v", name, setting, incremental), func(t *testing.T) {
					s.Buffer, s.StripeSize = 4<<20, 1<<20
					g := newGroupJob(t, groupRanks(), s, setting, incremental)
					var owns, seen [][]zones.Region
					var es []*elsewhere
					for i := range g.ranks {
						n := int64(18 << 20)
						if !testkit.Nightly() {
							n = 10 << 20 // that of rank 2 is more than is held at a time, still
						}
						own := mixedRegions(int64(i)*n+1, uint64(i))
						e := newElsewhere(t, own, unix.PROT_NONE)
						owns, seen, es = append(owns, own), append(seen, e.seen), append(es, e)
					}
					g.tune = func(i int, opt *container.WriteOptions) {
						if i != 1 { // a rank may have its memory here
							es[i].options(opt)
						}
					}
					seen[1] = owns[1]
					for number := 1; number <= 2; number++ {
						owns[2][0].Mem[number<<20]++
						m, err := g.take(context.Background(), number, number-1, seen)
						if err != nil {
							t.Fatal(err)
						}
						if err := g.check(m, owns); err != nil {
							t.Fatal(err)
						}
						for _, e := range es {
							if err := e.check(fetchMost); err != nil {
								t.Fatal(err)
							}
						}
					}
				})
			}
		}
	}
}

// TestFetchFails: a write ends with the first error of Fetch and of the disk, leaves no
// file, and holds nothing. Every fifth call and operation fails, at night every one.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	step := 5
	if testkit.Nightly() {
		step = 1
	}
	for _, setting := range []codec.Setting{codec.UseNone, codec.UseZstd} {
		own := mixedRegions(20<<20, 1)
		for call := 1; ; call += step {
			k := memJob(t)
			e := newElsewhere(t, own, unix.PROT_NONE)
			e.fails = call
			opt := container.WriteOptions{Codec: container.NewCodec(setting, 0), History: container.NewHistory()}
			e.options(&opt)
			_, err := k.writeAlone(1, e.seen, opt)
			if err == nil {
				if call < 5 {
					t.Errorf("%v: memory is fetched in %d calls", setting, call-1)
				}
				break
			}
			if !errors.Is(err, errGone) || !strings.Contains(err.Error(), "fetch memory") {
				t.Errorf("%v, call %d: %v", setting, call, err)
			}
			if err := errors.Join(e.check(fetchMost), checkNoDebris(k.job)); err != nil {
				t.Errorf("%v, call %d: %v", setting, call, err)
			}
		}
		for at := 1; ; at += step {
			disk := memfs.New()
			k := newJob(t, disk, "/store")
			if err := k.job.Unlock(); err != nil {
				t.Fatal(err)
			}
			e := newElsewhere(t, own, unix.PROT_NONE)
			bad := memfs.WithFault(disk, memfs.Fault{At: at, Err: syscall.EIO})
			opt := container.WriteOptions{Codec: container.NewCodec(setting, 0), History: container.NewHistory()}
			e.options(&opt)
			_, err := container.Write(context.Background(), bad, "/store/x.img", container.Header{Job: testJob, Number: 1, Kind: container.KindRank}, e.seen, opt)
			if err := e.check(fetchMost); err != nil {
				t.Errorf("%v, operation %d: %v", setting, at, err)
			}
			if err == nil {
				if at < 5 {
					t.Errorf("%v: a write is %d operations", setting, at-1)
				}
				break
			}
			if _, serr := disk.Stat("/store/x.img"); !errors.Is(serr, fs.ErrNotExist) || !errors.Is(err, syscall.EIO) {
				t.Errorf("%v, operation %d: %v, then the file: %v", setting, at, err, serr)
			}
		}
	}
}

// TestFetchFailsTogether: when the process of one rank is gone, all ranks fail and hold
// nothing.
func TestFetchFailsTogether(t *testing.T) {
	t.Parallel()
	for name, s := range groupLayouts() {
		for call := 1; ; call++ {
			g := newGroupJob(t, groupRanks(), s, codec.UseNone, false)
			memory := groupMemory(1)
			if s.P3 {
				memory[1] = mixedRegions(20<<20, 1) // more than a round
			}
			var es []*elsewhere
			for i := range memory {
				e := newElsewhere(t, memory[i], unix.PROT_READ|unix.PROT_WRITE)
				e.soft = true // an aggregator may still read
				es = append(es, e)
				memory[i] = e.seen
			}
			es[1].fails = call
			g.tune = func(i int, opt *container.WriteOptions) {
				opt.ExtentBytes = 8192
				es[i].options(opt)
			}
			_, err := g.take(context.Background(), 1, 0, memory)
			for i, e := range es {
				if err := e.check(fetchMost); err != nil {
					t.Errorf("%s, call %d, rank %d: %v", name, call, i, err)
				}
			}
			if err == nil {
				if call < 3 || s.P3 && call < 8 {
					t.Errorf("%s: memory is fetched in %d calls", name, call-1)
				}
				break
			}
			if !errors.Is(err, errGone) {
				t.Errorf("%s, call %d: %v", name, call, err)
			}
			if n, err := g.job.Latest(); n != 0 || err != nil {
				t.Errorf("%s, call %d: checkpoint %d, %v", name, call, n, err)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestFetchOrStaging: memory is fetched or staged.
func TestFetchOrStaging(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, mixedRegions(1<<20, 1), unix.PROT_NONE)
	opt := container.WriteOptions{Staging: container.NewStaging(vfs.Aligned(1 << 20))}
	e.options(&opt)
	if _, err := memJob(t).writeAlone(1, e.seen, opt); err == nil || !strings.Contains(err.Error(), "cannot be staged") {
		t.Error(err)
	}
}

// BenchmarkWriteAlone writes 256 MiB of a rank to a real disk: from where they are, and
// fetched.
func BenchmarkWriteAlone(b *testing.B) {
	own := []zones.Region{region("u", zones.Data, 256<<20, 1)}
	for _, incremental := range []bool{false, true} {
		for _, fetched := range []bool{false, true} {
			b.Run(fmt.Sprintf("incremental=%v,fetched=%v", incremental, fetched), func(b *testing.B) {
				b.SetBytes(bytesOf(own))
				dir := b.TempDir()
				e := newElsewhere(b, own, unix.PROT_READ|unix.PROT_WRITE)
				for i := range b.N {
					opt := container.WriteOptions{}
					if incremental {
						opt.History = container.NewHistory()
					}
					regions := own
					if fetched {
						regions = e.seen
						opt.Fetch = func(mem []byte) error {
							copy(mem, own[0].Mem[bytesBetween(regions[0].Mem, mem):])
							return nil
						}
						opt.Release = func(mem []byte) { _ = unix.Madvise(mem, unix.MADV_DONTNEED) }
					}
					name := fmt.Sprintf("%s/%d.img", dir, i)
					if _, err := container.Write(context.Background(), vfs.OS{}, name, container.Header{Job: testJob, Number: 1, Kind: container.KindRank}, regions, opt); err != nil {
						b.Fatal(err)
					}
					if err := (vfs.OS{}).Remove(name); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// bytesBetween returns where a part of memory begins.
func bytesBetween(all, part []byte) int { return cap(all) - cap(part) }
