package cached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"ckpt/image/filecache"
	"ckpt/internal/testkit"
)

func TestMain(m *testing.M) {
	remove := testkit.InMemory()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

var background = context.Background()

// A cluster is a directory that is cached by nodes of this host.
type cluster struct {
	t     *testing.T
	dir   string
	o     Options
	nodes []*Service
}

func newCluster(t *testing.T, nodes int, l filecache.Levels, listen string) *cluster {
	base := t.TempDir()
	c := &cluster{t: t, dir: filepath.Join(base, "store")}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.o = Options{Dir: c.dir, Dirs: filepath.Join(base, "nvme", NodeVariable), Nodes: nodes, Levels: l, Stripe: 4096, Listen: listen, Link: LinkVersion}
	c.nodes = make([]*Service, nodes)
	for i := range nodes {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.stop(i)
		}
	})
	return c
}

func (c *cluster) start(node int) {
	c.t.Helper()
	o := c.o
	o.Node = node
	s, err := Start(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[node] = s
}

// stop ends a daemon; files that are open stay as they are.
func (c *cluster) stop(node int) {
	c.t.Helper()
	if s := c.nodes[node]; s != nil {
		if err := s.Close(); err != nil {
			c.t.Error(err)
		}
	}
	c.nodes[node] = nil
}

func (c *cluster) create(name string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) open(node int, name string) *filecache.Handle {
	c.t.Helper()
	h, err := c.nodes[node].Open(background, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return h
}

func (c *cluster) stored(name string) []byte {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func all(h *filecache.Handle) ([]byte, error) {
	n, err := h.Size(background)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if k, err := h.ReadAt(b, 0); int64(k) < n {
		return nil, fmt.Errorf("%d bytes of %d: %w", k, n, err)
	}
	if _, err := h.ReadAt(make([]byte, 1), n); err != io.EOF {
		return nil, fmt.Errorf("at the end: %w", err)
	}
	return b, nil
}

// TestProgramsOfThreeNodes write to one file, over TLS, and read each other's bytes.
func TestProgramsOfThreeNodes(t *testing.T) {
	for _, l := range []filecache.Levels{{Records: true, Replicas: 2}, {Versions: true, Volatile: true}} {
		c := newCluster(t, 3, l, "127.0.0.1")
		c.create("x")
		want := make([]byte, 1<<18)
		fill(want)
		var all3 sync.WaitGroup
		for i := range 3 {
			h := c.open(i, "x")
			all3.Go(func() {
				for off := i * 10000; off < len(want); off += 30000 {
					end := min(off+10000, len(want))
					if _, err := h.WriteAt(want[off:end], int64(off)); err != nil {
						t.Error(err)
					}
				}
				if err := h.Sync(background); err != nil {
					t.Error(err)
				}
			})
		}
		all3.Wait()
		got, err := all(c.open(2, "x"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, %v", l, len(got), err)
		}
		if !bytes.Equal(c.stored("x"), want) {
			t.Errorf("%+v: the directory has other bytes", l)
		}
	}
}

// TestSettingsAgree: a daemon with other settings, or with the directory of a living one, is
// refused.
func TestSettingsAgree(t *testing.T) {
	c := newCluster(t, 2, filecache.Levels{Records: true}, "")
	o := c.o
	if s, err := Start(o); err == nil {
		s.Close()
		t.Error("a node has two daemons")
	}
	c.stop(1)
	o.Node, o.Levels = 1, filecache.Levels{Replicas: 1}
	if s, err := Start(o); !errors.Is(err, ErrSetting) {
		t.Errorf("%v, %v", s, err)
	}
	c.stop(0)
	c.o.Levels = o.Levels // of all
	c.start(0)
}

// TestLostNodes kills daemons at random moments of programs that write, loses some of their
// directories, and recovers: what the levels promise is there.
func TestLostNodes(t *testing.T) {
	runs := 6
	if testkit.Nightly() {
		runs = 300
	}
	for seed := range runs {
		lostRun(t, uint64(seed))
	}
}

func lostRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	levels := []filecache.Levels{{Records: true}, {Replicas: 1}, {Records: true, Replicas: 2}, {Versions: true, Volatile: true},
		{Records: true, Replicas: 1, Versions: true}, {}}[seed%6]
	c := newCluster(t, 3, levels, "")
	c.create("x")
	const slot = 3000
	// Each program has its own slots, and writes a number all over one.
	var programs sync.WaitGroup
	acked, tried := make([]map[int]byte, 3), make([]map[int]byte, 3)
	var versions [][]byte
	writes := 10 + rng.IntN(20)
	for i := range 3 {
		h := c.open(i, "x")
		acked[i], tried[i] = make(map[int]byte), make(map[int]byte)
		own := rand.New(rand.NewPCG(seed, uint64(i+2)))
		programs.Go(func() {
			for n := range writes {
				k := own.IntN(4)
				tried[i][k] = byte(n + 1)
				if _, err := h.WriteAt(bytes.Repeat([]byte{byte(n + 1)}, slot), int64((k*3+i)*slot)); err != nil {
					return
				}
				acked[i][k] = byte(n + 1)
			}
		})
	}
	killed := rng.IntN(3)
	early := rng.IntN(2) == 0
	if early {
		c.stop(killed)
	}
	programs.Wait()
	if !early {
		if levels.Versions {
			h := c.open(0, "x")
			if err := h.Sync(background); err != nil {
				t.Fatal(err)
			}
			versions = append(versions, c.stored("x"))
		}
		c.stop(killed)
	}
	dirLost, recovered := rng.IntN(2) == 0, false
	moved := Setting{Dirs: c.o.Dirs}.NodeDir(killed) + "-moved"
	if dirLost && rng.IntN(2) == 0 { // it turns up again
		if err := os.CopyFS(moved, os.DirFS(strings.TrimSuffix(moved, "-moved"))); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if recovered {
				c.back(moved, killed)
			}
		}()
	}
	if dirLost {
		if err := os.RemoveAll(Setting{Dirs: c.o.Dirs}.NodeDir(killed)); err != nil {
			t.Fatal(err)
		}
	}
	o := RecoverOptions{}
	if rng.IntN(2) == 0 {
		c.start(killed) // else its directory is read
	} else if dirLost {
		if _, err := Recover(background, c.dir, o); !errors.Is(err, ErrAway) {
			t.Errorf("seed %d: %v", seed, err)
		}
		o.Lost = []int{killed}
	}
	list, err := Recover(background, c.dir, o)
	if err != nil || len(list) != 1 {
		t.Fatalf("seed %d: %+v, %v", seed, list, err)
	}
	recovered = list[0].err == nil
	where := fmt.Sprintf("seed %d, %+v, killed %d early %v, directory lost %v: %+v", seed, levels, killed, early, dirLost, list[0])
	switch {
	case list[0].err != nil:
		if !errors.Is(list[0].err, filecache.ErrLost) || !dirLost || levels.Replicas > 0 || levels.Versions {
			t.Errorf("%s", where)
		}
	case list[0].From == filecache.FromVersion:
		want := []byte{}
		if len(versions) > 0 {
			want = versions[0]
		}
		if !bytes.Equal(c.stored("x"), want) || levels.Replicas > 0 {
			t.Errorf("%s: not the last version", where)
		}
	default:
		for i := range 3 {
			for k, n := range acked[i] {
				got := c.slot("x", k*3+i, slot)
				torn := levels.Replicas == 0 && !levels.Records && tried[i][k] != n
				if !torn && !bytes.Equal(got, bytes.Repeat([]byte{n}, slot)) && !bytes.Equal(got, bytes.Repeat([]byte{tried[i][k]}, slot)) {
					t.Errorf("%s: slot %d of program %d begins %v…, acknowledged is %d", where, k, i, got[:min(len(got), 5)], n)
				}
			}
		}
	}
}

func (c *cluster) slot(name string, n, bytes int) []byte {
	b := c.stored(name)
	return b[min(n*bytes, len(b)):min((n+1)*bytes, len(b))]
}

func fill(b []byte) {
	rng := rand.New(rand.NewPCG(uint64(len(b)), 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// back has a node begin with a directory that was lost while its file was recovered: no byte of
// the file changes.
func (c *cluster) back(moved string, node int) {
	c.t.Helper()
	if c.nodes[node] != nil || c.t.Failed() {
		return // it has begun with an empty directory
	}
	before := c.stored("x")
	if err := os.Rename(moved, strings.TrimSuffix(moved, "-moved")); err != nil {
		c.t.Fatal(err)
	}
	c.start(node)
	if list, err := Recover(background, c.dir, RecoverOptions{}); err != nil || len(list) > 0 {
		c.t.Errorf("after node %d came back: %+v, %v", node, list, err)
	}
	h, err := c.nodes[node].Open(background, "x")
	if err != nil {
		c.t.Error(err)
		return
	}
	got, err := all(h)
	if err := errors.Join(err, h.Flush(background)); err != nil || !bytes.Equal(got, before) {
		c.t.Errorf("after node %d came back: %d bytes, want %d, %v", node, len(got), len(before), err)
	}
}
