package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// serverPart is the shortest part that a server takes.
const serverPart = 5 << 20

// gateway starts an object storage, whose credentials the test gets.
func gateway(t *testing.T) *testkit.Gateway {
	testkit.All(t, "versitygw")
	g, err := testkit.StartGateway(t.TempDir(), "bucket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.End)
	for _, word := range g.Environment {
		name, value, _ := strings.Cut(word, "=")
		t.Setenv(name, value)
	}
	return g
}

// connect makes a bucket, and returns it as it is seen at an endpoint.
func connect(g *testkit.Gateway, endpoint, bucket string) (objectfs.Bucket, error) {
	if err := g.Bucket(bucket); err != nil {
		return nil, err
	}
	b, err := objectfs.Connect(testkit.Name(endpoint, bucket))
	return b, err
}

// TestServerSchedules is TestObjectSchedules on a server.
func TestServerSchedules(t *testing.T) {
	g := gateway(t)
	requests, n := length(t, serverPart), 2
	if testkit.Nightly() {
		n = 100
	}
	for seed := range uint64(n) {
		b, err := connect(g, g.Endpoint, fmt.Sprintf("seed-%d", seed))
		if err != nil {
			t.Fatal(err)
		}
		w := world{objecttest.NewWorld(b), serverPart}
		i := drawIncident(seed, requests, w)
		if err := schedule(w, i); err != nil {
			t.Errorf("seed %d, %v: %v", seed, i, err)
		}
	}
}

// proxyFaults are what happens to one request on its way. An answer that is not the storage's own
// costs at most the checkpoint, all else nothing.
var proxyFaults = []struct {
	testkit.Fault
	lie bool
}{
	{testkit.Fault{Drop: true}, false},
	{testkit.Fault{Drop: true, Done: true}, false},
	{testkit.Fault{Drop: true, Late: 4}, false},
	{testkit.Fault{Late: 1}, false},
	{testkit.Fault{Cut: true}, false},
	{testkit.Fault{Status: http.StatusInternalServerError}, false},
	{testkit.Fault{Status: http.StatusInternalServerError, Done: true}, false},
	{testkit.Fault{Status: http.StatusServiceUnavailable}, false},
	{testkit.Fault{Status: http.StatusConflict}, false},
	{testkit.Fault{Status: http.StatusPreconditionFailed}, true},
	{testkit.Fault{Status: http.StatusPreconditionFailed, Done: true}, true},
}

// TestProxy has each request in turn meet each fault between the client and a server, while a
// coordinator takes checkpoints, prunes and sweeps, and while they are read and copied.
func TestProxy(t *testing.T) {
	g := gateway(t)
	var seen atomic.Int64
	clean := testkit.StartProxy(g, func(n int, _ *http.Request) testkit.Fault {
		seen.Store(int64(n))
		return testkit.Fault{}
	})
	defer clean.End()
	if err := proxied(g, clean, "clean", false); err != nil {
		t.Fatal(err)
	}
	requests := int(seen.Load())
	if requests < 100 {
		t.Fatalf("%d requests", requests)
	}
	var cases []func(p *testkit.Proxy) error
	for kind, f := range proxyFaults {
		for at := 1; at <= requests; at++ {
			cases = append(cases, func(p *testkit.Proxy) error {
				var request atomic.Value
				p.Again(func(n int, r *http.Request) testkit.Fault {
					if n != at {
						return testkit.Fault{}
					}
					request.Store(r.Method + " " + r.URL.String())
					return f.Fault
				})
				if err := proxied(g, p, fmt.Sprintf("case-%d-%d", kind, at), f.lie); err != nil {
					return fmt.Errorf("request %d, %v, %+v: %w", at, request.Load(), f.Fault, err)
				}
				return nil
			})
		}
	}
	rand.New(rand.NewPCG(44, 44)).Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	cases = testkit.Some(1, cases...)
	var next atomic.Int64
	var all errgroup.Group
	for range 4 {
		all.Go(func() error {
			p := testkit.StartProxy(g, nil)
			defer p.End()
			for i := next.Add(1) - 1; i < int64(len(cases)); i = next.Add(1) - 1 {
				if err := cases[i](p); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
	}
	_ = all.Wait()
	t.Logf("%d cases, of %d requests and %d faults", len(cases), requests, len(proxyFaults))
}

// proxied has a coordinator work through a proxy, and looks at what is there without it.
func proxied(g *testkit.Gateway, p *testkit.Proxy, bucket string, lie bool) error {
	b, err := connect(g, p.Endpoint, bucket)
	if err != nil {
		return err
	}
	open := func(b objectfs.Bucket) *objectfs.FS { return world{objecttest.NewWorld(b), serverPart}.open(nil) }
	first, copied := &tenure{}, error(nil)
	if first.work(open(b)); first.end == nil {
		copied = readAndCopy(open(b))
	}
	p.Again(nil)
	if !lie && (first.end != nil || copied != nil || len(first.committed) != 3) {
		return fmt.Errorf("checkpoints %v, %w", first.committed, errors.Join(first.end, copied))
	}
	if b, err = connect(g, g.Endpoint, bucket); err != nil {
		return err
	}
	for _, dir := range []string{bucketDir, copyDir} {
		s, err := OpenStore(open(b), dir)
		var j *Job
		if err == nil {
			j, err = s.Job(testJob)
		}
		if lie && (errors.Is(err, ErrNoStore) || errors.Is(err, ErrJobNotFound)) && (first.end != nil || copied != nil) {
			continue
		}
		want := first.committed
		if copied != nil && dir == copyDir {
			want = nil
		}
		if err == nil {
			err = checkAll(j, want)
		}
		if err != nil {
			return fmt.Errorf("%s, after %w: %w", dir, errors.Join(first.end, copied), err)
		}
	}
	return nil
}

const copyDir = bucketDir + "/copy"

// readAndCopy reads all checkpoints, and copies them into another store.
func readAndCopy(fsys vfs.FS) error {
	s, err := OpenStore(fsys, bucketDir)
	if err != nil {
		return err
	}
	j, err := s.Job(testJob)
	if err != nil {
		return err
	}
	all, err := j.Checkpoints()
	if err == nil {
		err = checkAll(j, all)
	}
	if err != nil {
		return err
	}
	to, err := CreateStore(fsys, copyDir)
	if err != nil {
		return err
	}
	return (&JobCopy{From: j, To: to}).Run(context.Background(), all)
}
