package exec_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"testing"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/vfs"
)

// ram is a File of fixed length in memory, which nobody has to lock: writers
// write different bytes.
type ram struct {
	vfs.Plain
	data []byte
}

func (r ram) WriteAt(b []byte, offset int64) (int, error) { return copy(r.data[offset:], b), nil }

// BenchmarkAll writes 64 ranks of 4 MiB, 8 to a node, with buffers of 16 MiB.
// The names of the switches are P1, P2 and P3.
func BenchmarkAll(b *testing.B) {
	sources := ranks(64, 4<<20/page)
	for i := range sources {
		sources[i].Node = i / 8
	}
	j := newJob(sources, false)
	for _, target := range []struct {
		name string
		open func(b *testing.B, p *plan.Plan) []vfs.File
	}{
		{"memory", openMemory},
		{"tmp", openTmp},
	} {
		for _, layout := range layouts {
			for bits := range 8 {
				if layout == plan.PerRank && bits&2 != 0 {
					continue // nothing is gathered
				}
				p := mustPlan(b, sources, plan.Settings{Layout: layout, P1: bits&4 != 0, P2: bits&2 != 0, P3: bits&1 != 0})
				b.Run(fmt.Sprintf("%s/%s/%03b", target.name, layout, bits), func(b *testing.B) {
					files := target.open(b, p)
					opt := exec.AllOptions{
						Files:   func(file int) (io.WriterAt, error) { return files[file], nil },
						Buffers: new(exec.Buffers),
					}
					all := func() exec.Stats {
						stats, err := exec.All(context.Background(), p, j.of, opt)
						if err != nil {
							b.Fatal(err)
						}
						return stats
					}
					stats := all() // buffers and files exist from here on
					b.SetBytes(stats.Bytes)
					b.ReportAllocs()
					for b.Loop() {
						all()
					}
					_, held := opt.Buffers.Held()
					b.ReportMetric(float64(held>>20), "MiB-buffers")
				})
			}
		}
	}
}

func openMemory(_ *testing.B, p *plan.Plan) []vfs.File {
	files := make([]vfs.File, len(p.Files))
	for i := range files {
		files[i] = ram{data: make([]byte, p.Files[i].Bytes)}
	}
	return files
}

// openTmp makes files that are not synced: the page cache takes them.
func openTmp(b *testing.B, p *plan.Plan) []vfs.File {
	dir := b.TempDir()
	files := make([]vfs.File, len(p.Files))
	for i := range files {
		f, err := vfs.OS{}.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		files[i] = f
	}
	return files
}
