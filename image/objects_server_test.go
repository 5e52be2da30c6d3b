package image

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
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

// TestProxyServer is a drawn part of TestProxy with a server, and all the work as one: it starts
// with the creation of the store, and ends with a copy.
func TestProxyServer(t *testing.T) {
	g := gateway(t)
	p := testkit.StartProxy(g, nil)
	defer p.End()
	var seen atomic.Int64
	p.Again(func(n int, _ *http.Request) testkit.Fault {
		seen.Store(int64(n))
		return testkit.Fault{}
	})
	if err := proxied(g, p, "clean", false); err != nil {
		t.Fatal(err)
	}
	requests, n := int(seen.Load()), 1
	if requests < 100 {
		t.Fatalf("%d requests", requests)
	}
	if testkit.Nightly() {
		n = 100
	}
	rng := rand.New(rand.NewPCG(testkit.Seed(), 44))
	for i := range n {
		f, at := proxyFaults[rng.IntN(len(proxyFaults))], 1+rng.IntN(requests)
		var met atomic.Value
		p.Again(func(n int, r *http.Request) testkit.Fault {
			if n != at {
				return testkit.Fault{}
			}
			met.Store(r.Method + " " + r.URL.String())
			return f.Fault
		})
		if err := proxied(g, p, fmt.Sprintf("case-%d", i), f.lie); err != nil {
			t.Errorf("request %d of %d, %v, %+v: %v", at, requests, met.Load(), f.Fault, err)
		}
	}
}

// proxied has a coordinator work through a proxy, and looks at what is there without it.
func proxied(g *testkit.Gateway, p *testkit.Proxy, bucket string, lie bool) error {
	b, err := connect(g, p.Endpoint, bucket)
	if err != nil {
		return err
	}
	open := func(b objectfs.Bucket) *objectfs.FS { return openIn(b, serverPart) }
	first, copied := &tenure{}, error(nil)
	if first.work(open(b)); first.end == nil {
		copied = cmp.Or(readAll(open(b), bucketDir, nil), copyBucket(open(b), 4))
	}
	p.Again(nil)
	if !lie && (first.end != nil || copied != nil || len(first.committed) != 3) {
		return fmt.Errorf("checkpoints %v, %w", first.committed, errors.Join(first.end, copied))
	}
	if b, err = connect(g, g.Endpoint, bucket); err != nil {
		return err
	}
	for _, dir := range []string{bucketDir, copyDir} {
		j, err := jobIn(open(b), dir)
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
