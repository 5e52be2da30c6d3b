package filecache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"testing"

	"go.uber.org/goleak"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nightly() bool { return testkit.Nightly() }

// cluster returns a cache of nodes in memory, and their file systems; the last one is the
// store.
func cluster(nodes int) (*Cache, []*memfs.FS) {
	var all []*memfs.FS
	for range nodes + 1 {
		all = append(all, memfs.New())
	}
	return cacheOf(all), all
}

func cacheOf(all []*memfs.FS) *Cache {
	c := &Cache{Store: Store{FS: all[len(all)-1], Dir: "/store"}}
	for _, m := range all[:len(all)-1] {
		c.Nodes = append(c.Nodes, Node{m, "/nvme"})
	}
	return c
}

// onePerNode are processes, one for each node.
func onePerNode(nodes int) []int {
	list := make([]int, nodes)
	for i := range list {
		list[i] = i
	}
	return list
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents reads all of a file.
func contents(h interface {
	io.ReaderAt
	Size() int64
}) ([]byte, error) {
	b := make([]byte, h.Size())
	n, err := h.ReadAt(b, 0)
	if err != nil && (err != io.EOF || n < len(b)) {
		return nil, err
	}
	return b, nil
}

// stored reads a file of the store.
func stored(t testing.TB, c *Cache, path string) []byte {
	t.Helper()
	f, err := c.Store.FS.Open(path)
	check(t, err)
	defer f.Close()
	n := must(f.Size())(t)
	b := make([]byte, n)
	if k, err := f.ReadAt(b, 0); int64(k) < n {
		t.Fatal(err)
	}
	return b
}

func random(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// together runs all processes of a file and returns the first error.
func together(f *File, do func(p *Process) error) error {
	return each(len(f.processes), func(i int) error {
		if err := do(f.Process(i)); err != nil {
			return fmt.Errorf("process %d: %w", i, err)
		}
		return nil
	})
}

func same(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d is %d, want %d", i, got[i], want[i])
		}
	}
	return errors.New("impossible")
}

var background = context.Background()
