package mpi

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"ckpt/internal/testkit"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	if os.Getenv(groupEnv) != "" {
		os.Exit(groupMain())
	}
	if testkit.Enabled {
		testkit.Sample(5) // CI runs the others without the race detector
	} else {
		testkit.Sample(10)
	}
	if !testkit.Nightly() {
		Fallocate = func(int, uint32, int64, int64) error { return nil }
	}
	goleak.VerifyTestMain(m)
}

// reserving has a test reserve the space of segments.
func reserving(t *testing.T) {
	t.Helper()
	was := Fallocate
	Fallocate = unix.Fallocate
	t.Cleanup(func() { Fallocate = was })
}

// tb is what the helpers need of testing.TB and rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A world is a whole job in one process: a Comm per rank, each with its own
// mapping of its node's segment.
type world struct {
	comms []*Comm
	segs  []*Segment // by rank
	close func()
}

type worldOptions struct {
	nodeOf         []int
	implementation Implementation
	dir            string
	restore        map[int][2][]byte // segment content by node, written before anyone joins
	config         func(*Config)
}

func newWorld(t tb, o worldOptions) *world {
	t.Helper()
	if o.implementation == 0 {
		o.implementation = MPICH
	}
	size := len(o.nodeOf)
	perNode := map[int]int{}
	for _, n := range o.nodeOf {
		perNode[n]++
	}
	w := &world{comms: make([]*Comm, size), segs: make([]*Segment, size)}
	listeners := make([]net.Listener, size)
	addrs := make([]string, size)
	for r, n := range o.nodeOf {
		seg, err := OpenSegment(filepath.Join(o.dir, fmt.Sprintf("node%d", n)), o.implementation, perNode[n])
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
		for i, b := range o.restore[n] {
			copy(used(seg)[i], b)
		}
		w.segs[r] = seg
		if len(perNode) > 1 {
			if listeners[r], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
			addrs[r] = listeners[r].Addr().String()
		}
	}
	for r := range size {
		cfg := Config{Rank: r, Size: size, NodeOf: o.nodeOf, Segment: w.segs[r], Listener: listeners[r], Peers: addrs, Token: []byte("secret of the job")}
		if o.config != nil {
			o.config(&cfg)
		}
		c, err := Join(cfg)
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
		w.comms[r] = c
	}
	w.close = sync.OnceFunc(func() {
		for _, c := range w.comms {
			if err := c.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
		}
		for r, s := range w.segs {
			if err := s.Unlink(); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
			if err := s.Close(); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
	})
	return w
}

// run executes f for every rank at once and returns their errors.
func (w *world) run(f func(c *Comm) error) []error {
	errs := make([]error, len(w.comms))
	var wg sync.WaitGroup
	for r, c := range w.comms {
		wg.Go(func() {
			if errs[r] = f(c); errs[r] != nil {
				c.Abort(errs[r])
				for _, other := range w.comms { // rather an error than a hanging test
					other.Abort(fmt.Errorf("rank %d failed: %w", r, errs[r]))
				}
			}
		})
	}
	wg.Wait()
	return errs
}

func (w *world) must(t tb, f func(c *Comm) error) {
	t.Helper()
	for r, err := range w.run(f) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// shmDir returns a directory for segments: in memory, where there is any.
func shmDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(SegmentDir(1<<30), "ckpt-mpi-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
