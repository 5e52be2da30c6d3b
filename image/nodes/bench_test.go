package nodes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

var benchBytes = flag.Int("protect.bytes", 64<<20, "what BenchmarkProtect writes")

// A bench writes the bytes of six ranks, on nodes of their own, into one directory.
type bench struct {
	b   *testing.B
	dir string
	mem []byte
	set Set

	spilled int
}

const benchRanks = 6

func newBench(b *testing.B, dir string) *bench {
	dir, err := os.MkdirTemp(dir, "ckpt-protect-")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	s := &bench{b: b, dir: dir, mem: random(1, *benchBytes), set: parse(b, "rs:4+2").Sets(Topology{NodeOf: []int{0, 1, 2, 3, 4, 5}})[0]}
	return s
}

// write writes the files of all ranks at the same time, and returns how long it took.
func (s *bench) write(copies int, sinks func(rank int) []Sink) time.Duration {
	defer s.clean()
	start := time.Now()
	var wg sync.WaitGroup
	for rank := range benchRanks {
		wg.Go(func() {
			n := len(s.mem) / benchRanks / page * page
			mem := s.mem[rank*n:][:n]
			for c := range copies {
				path := filepath.Join(s.dir, fmt.Sprintf("rank-%d-%d", rank, c))
				tee := Tee(vfs.OS{}, path, sinks(rank)...)
				_, err := container.Write(context.Background(), tee, path, container.Header{Job: "j", Number: 1, Rank: rank, Kind: container.KindRank},
					[]zones.Region{{Name: "a", Zone: zones.Data, Elem: zones.Bytes, Size: int64(n), Mem: mem}}, container.WriteOptions{})
				if err != nil {
					s.b.Error(err)
					tee.Abort()
				}
				if err := tee.Wait(context.Background()); err != nil {
					s.b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func (s *bench) clean() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.b.Error(err)
	}
	for _, e := range entries {
		os.Remove(filepath.Join(s.dir, e.Name()))
	}
}

func (s *bench) plain(copies int) time.Duration {
	return s.write(copies, func(int) []Sink { return nil })
}

func (s *bench) partner() time.Duration {
	return s.write(1, func(rank int) []Sink { return []Sink{Copy(vfs.OS{}, filepath.Join(s.dir, fmt.Sprint("copy-", rank)))} })
}

func (s *bench) coded() time.Duration {
	encoders := make([]*Encoder, benchRanks)
	for i := range encoders {
		var err error
		if encoders[i], err = NewEncoder(vfs.OS{}, filepath.Join(s.dir, fmt.Sprint("parity-", i)), ParityID{Job: "j", Checkpoint: 1, Set: s.set, Index: i}); err != nil {
			s.b.Fatal(err)
		}
	}
	defer func() {
		for _, e := range encoders {
			s.spilled += e.spilled
		}
	}()
	return s.write(1, func(rank int) []Sink {
		holders := make(map[int]Contributor)
		for i, e := range encoders {
			holders[i] = e.Contributor(rank)
		}
		sink, err := Coded(s.set, rank, holders)
		if err != nil {
			s.b.Fatal(err)
		}
		return []Sink{sink}
	})
}

// BenchmarkProtect writes files plainly, twice, with partner copies and with parity, in
// turns within each run, in memory and on the disk. It reports the rate with rs:4+2 as a
// share of the plain one, which should be at least 0.5, and the time with partner copies
// as a multiple of writing twice, which should be at most 1.3. For 1 GiB:
//
//	go test -run '^$' -bench Protect -benchtime 3x ./image/nodes -protect.bytes 1073741824
func BenchmarkProtect(b *testing.B) {
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		b.Run(dir, func(b *testing.B) {
			s := newBench(b, dir)
			s.plain(1) // the first writes find the memory of the file system cold
			var plain, twice, partner, coded cost
			for b.Loop() {
				plain.add(func() { s.plain(1) })
				coded.add(func() { s.coded() })
				twice.add(func() { s.plain(2) })
				partner.add(func() { s.partner() })
			}
			gib := float64(b.N) * float64(*benchBytes) / (1 << 30)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(gib/plain.took.Seconds(), "plain-GiB/s")
			b.ReportMetric(gib/coded.took.Seconds(), "rs-GiB/s")
			b.ReportMetric(plain.took.Seconds()/coded.took.Seconds(), "rs/plain")
			b.ReportMetric(plain.processor.Seconds()/coded.processor.Seconds(), "rs/plain-cpu")
			b.ReportMetric(partner.took.Seconds()/twice.took.Seconds(), "partner/twice")
			b.ReportMetric(partner.processor.Seconds()/twice.processor.Seconds(), "partner/twice-cpu")
			b.ReportMetric(float64(s.spilled)/float64(b.N), "spilled")
		})
	}
}

// cost is the time of runs, and of the processors in them: others share the machine.
type cost struct{ took, processor time.Duration }

func (c *cost) add(run func()) {
	start, processor := time.Now(), processorTime()
	run()
	c.took += time.Since(start)
	c.processor += processorTime() - processor
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
