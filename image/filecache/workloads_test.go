package filecache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A target is a file as each process has it open.
type target struct {
	files []interface {
		io.ReaderAt
		io.WriterAt
	}
	sync, close func() error
}

// each has all processes do something at the same time.
func (t *target) each(do func(rank int) error) error {
	var all errgroup.Group
	for rank := range t.files {
		all.Go(func() error { return do(rank) })
	}
	return all.Wait()
}

// cached opens a new file in a cache.
func cached(t testing.TB, c *Cache, size int64, levels Levels, processes []int) *target {
	f := must(c.Open(background, "workload", Options{Create: true, Size: size, Levels: levels, Processes: processes}))(t)
	out := &target{sync: func() error { return f.Sync(background) }, close: func() error { return f.Close(background) }}
	for i := range processes {
		out.files = append(out.files, f.Process(i))
	}
	return out
}

// synced makes each write durable before it returns, as the cache does.
type synced struct{ vfs.Plain }

func (f synced) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	return n, errors.Join(err, f.Sync())
}

// plain makes a file of the store, which each process opens for itself.
func plain(t testing.TB, s Store, size int64, processes int, sync bool) *target {
	path := filepath.Join(s.Dir, "workload")
	check(t, durable.MkdirAll(s.FS, s.Dir))
	check(t, create(s.FS, path))
	out := &target{}
	files := make([]vfs.File, processes)
	for i := range files {
		files[i] = must(s.FS.OpenWrite(path))(t)
		if sync {
			out.files = append(out.files, synced{vfs.Only(files[i])})
		} else {
			out.files = append(out.files, files[i])
		}
	}
	_, err := files[0].WriteAt([]byte{0}, size-1)
	check(t, err)
	every := func(do func(vfs.File) error) func() error {
		return func() (err error) {
			for _, f := range files {
				err = errors.Join(err, do(f))
			}
			return err
		}
	}
	out.sync, out.close = every(vfs.File.Sync), every(vfs.File.Close)
	return out
}

// walk is the random walk of Malinowski's thesis: in each iteration every process reads a
// block of its own somewhere, computes, writes it back, and waits for the others.
func walk(t *target, iterations, blocks, size int) error {
	for i := range iterations {
		err := t.each(func(rank int) error {
			random := rand.New(rand.NewPCG(uint64(i), uint64(rank)))
			off := int64(random.IntN(blocks/len(t.files))*len(t.files)+rank) * int64(size)
			b := make([]byte, size)
			if n, err := t.files[rank].ReadAt(b, off); n < size {
				return err
			}
			binary.LittleEndian.PutUint64(b, 3*binary.LittleEndian.Uint64(b)+uint64(rank)+1)
			_, err := t.files[rank].WriteAt(b, off)
			return err
		})
		if err == nil && i == iterations/2 {
			err = t.sync()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeBlocks writes each block of a file once, in any order; readBlocks compares them.
func writeBlocks(t *target, blocks, size int) error {
	return eachBlock(t, blocks, size, func(rank int, off int64, want []byte) error {
		_, err := t.files[rank].WriteAt(want, off)
		return err
	})
}

func readBlocks(t *target, blocks, size int) error {
	return eachBlock(t, blocks, size, func(rank int, off int64, want []byte) error {
		got := make([]byte, size)
		if n, err := t.files[rank].ReadAt(got, off); n < size {
			return err
		}
		return same(got, want)
	})
}

func eachBlock(t *target, blocks, size int, do func(rank int, off int64, want []byte) error) error {
	order := rand.New(rand.NewPCG(1, 1)).Perm(blocks)
	return t.each(func(rank int) error {
		for i := rank; i < blocks; i += len(t.files) {
			if err := do(rank, int64(order[i])*int64(size), random(uint64(order[i]), size)); err != nil {
				return fmt.Errorf("block %d: %w", order[i], err)
			}
		}
		return nil
	})
}

// TestTargetsAgree: workloads leave the same bytes in a plain file and in the cache under
// any levels, and read what they wrote.
func TestTargetsAgree(t *testing.T) {
	const blocks, size = 103, 50
	processes := []int{0, 1, 1, 2, 2}
	for name, run := range map[string]func(*target) error{
		"walk": func(t *target) error { return walk(t, 40, blocks, size) },
		"blocks": func(t *target) error {
			return errors.Join(writeBlocks(t, blocks, size), readBlocks(t, blocks, size))
		},
	} {
		whole, _ := cluster(1)
		p := plain(t, whole.Store, blocks*size, len(processes), true)
		check(t, run(p))
		check(t, p.close())
		want := stored(t, whole, filepath.Join(whole.Store.Dir, "workload"))
		for _, l := range []Levels{{}, {Records: true, Replicas: 1}, {Versions: true}} {
			c, _ := cluster(3)
			f := cached(t, c, blocks*size, l, processes)
			check(t, run(f))
			check(t, f.close())
			file := filepath.Join(c.Store.Dir, "workload")
			if l.Versions {
				n := must(c.Versions("workload"))(t)
				file = fmt.Sprintf("%s.v%04d", file, n[len(n)-1])
			}
			if !bytes.Equal(stored(t, c, file), want) {
				t.Errorf("%s, %+v: other bytes than in the plain file", name, l)
			}
		}
	}
}

// BenchmarkWorkloads runs the workloads of the thesis on real directories, eight processes on
// four nodes: in the cache under each level, and in a file of the store.
func BenchmarkWorkloads(b *testing.B) {
	const blocks, size = 2000, 512
	processes := []int{0, 0, 1, 1, 2, 2, 3, 3}
	open := func(b *testing.B, levels *Levels, durable bool) *target {
		dir := b.TempDir()
		if levels == nil {
			return plain(b, Store{FS: vfs.OS{}, Dir: dir}, blocks*size, len(processes), durable)
		}
		c := &Cache{Store: Store{FS: vfs.OS{}, Dir: filepath.Join(dir, "store")}}
		for i := range 4 {
			c.Nodes = append(c.Nodes, Node{vfs.OS{}, filepath.Join(dir, fmt.Sprint(i))})
		}
		return cached(b, c, blocks*size, *levels, processes)
	}
	for _, way := range []struct {
		name    string
		levels  *Levels
		durable bool
	}{
		{"file", nil, false}, {"file durable", nil, true}, {"cache", &Levels{Volatile: true}, false}, {"cache durable", &Levels{}, true},
		{"records", &Levels{Records: true}, true}, {"journal", &Levels{Replicas: 1}, true}, {"versions", &Levels{Versions: true}, true},
		{"all", &Levels{Records: true, Replicas: 1, Versions: true}, true},
	} {
		for name, run := range map[string]func(*target) error{
			"write": func(t *target) error { return writeBlocks(t, blocks, size) },
			"read":  func(t *target) error { return readBlocks(t, blocks, size) },
			"walk":  func(t *target) error { return walk(t, blocks/len(processes), blocks, size) },
		} {
			b.Run(name+"/"+way.name, func(b *testing.B) {
				t := open(b, way.levels, way.durable)
				if name == "read" {
					check(b, writeBlocks(t, blocks, size))
				}
				b.SetBytes(blocks * size)
				b.ResetTimer()
				for range b.N {
					check(b, run(t))
				}
				b.StopTimer()
				check(b, t.close())
			})
		}
	}
}
