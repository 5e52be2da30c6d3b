package pfs

import (
	"errors"
	"math"
	"strings"
	"testing"

	"ckpt/image/plan"
)

// objects describes two connections of 10 MiB/s, with parts of 10 MiB and 0.1 s before each.
func objects(t *testing.T, more string) *System {
	t.Helper()
	s, err := Read(strings.NewReader("name: x\ntargets: {count: 1, rate: 1000000000GB/s}\nrpc: 10MiB\nhost: {latency: 100ms}\n" + more))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const twoConnections = "connections: {count: 2, rate: 10485760B/s}\n"

// TestConnections: a part takes the latency and its bytes at the rate of a connection, and a
// process has as many parts under way as connections. Writes fill parts, however short they are.
func TestConnections(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		what, more string
		each, all  int64 // bytes of a write, and of all
		want       float64
	}{
		{"four parts, two at a time", twoConnections, 40 * mib, 40 * mib, 2 * 1.1},
		{"short writes fill parts", twoConnections, 4 * mib, 40 * mib, 2 * 1.1},
		{"the last part is short", strings.Replace(twoConnections, "2", "1", 1), 15 * mib, 15 * mib, 1.1 + 0.6},
		{"the storage takes two requests in a second", strings.Replace(twoConnections, "2", "4", 1) + "servers: {per_request: 500ms}\n", 2 * mib, 40 * mib, 1 + 0.1 + 4*0.5},
	} {
		sim := NewSim(objects(t, test.more), Options{})
		f, c, at := sim.File(FileSpec{StripeSize: mib, StripeCount: 1}), sim.Client(0), int64(0)
		var write func()
		got := finish(t, sim, func(done func()) {
			write = func() {
				if at == test.all {
					c.Flush(done)
					return
				}
				n := min(test.each, test.all-at)
				at += n
				c.Write(f, at-n, n, write)
			}
			write()
		})
		near(t, test.what, got, test.want)
	}
	sim := NewSim(objects(t, twoConnections), Options{})
	f, c := sim.File(FileSpec{StripeSize: mib, StripeCount: 1}), sim.Client(0)
	near(t, "reading", finish(t, sim, func(done func()) { c.Read(f, 0, 40*mib, done) }), 2*1.1)
}

// TestConnectionsLimit: what a process writes is bound by its connections, and the result says so.
func TestConnectionsLimit(t *testing.T) {
	s, err := Load("s3")
	if err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, sources(4, 2, 768<<20), plan.Settings{StripeCount: 1, P1: true})
	r := mustRun(t, s, Job{Plan: p, Depth: 4, Sync: true}).Jobs[0]
	// 96 parts of 8 MiB, three at a time, each 0.15 s and 8 MiB at 87.5 MB/s; before them the
	// beginning of the upload, after them its end and the manifest.
	want := 32*(0.15+8*1048576/87.5e6) + 0.15 + 0.3 + 0.15
	if math.Abs(r.Seconds-want) > 0.01*want || r.Bottleneck != "connections" {
		t.Errorf("%g s, bottleneck %s: want %g s and connections", r.Seconds, r.Bottleneck, want)
	}
}

func TestRequestsAndBill(t *testing.T) {
	s := objects(t, "connections: {count: 3, rate: 1MB/s, least_part: 5MiB, most_part: 5GiB, most_parts: 10}\nprices: {currency: USD, put: 0.005, get: 0.0004, month: 0.023}\n")
	const mib = 1 << 20
	var all Requests
	for _, test := range []struct {
		bytes int64
		want  Requests
	}{{0, Requests{1, 0}}, {10 * mib, Requests{1, 0}}, {10*mib + 1, Requests{4, 1}}, {100 * mib, Requests{12, 1}}} {
		r, err := s.Requests(test.bytes)
		if err != nil || r != test.want {
			t.Errorf("%d bytes: %+v, %v; want %+v", test.bytes, r, err, test.want)
		}
		all.Add(r)
	}
	if all != (Requests{18, 2}) {
		t.Errorf("together %+v", all)
	}
	var parts *PartsError
	if _, err := s.Requests(100*mib + 1); !errors.As(err, &parts) {
		t.Errorf("eleven parts: %v", err)
	}
	b := s.Bill(Requests{Puts: 2000, Gets: 5000}, 3<<30)
	if b == nil || b.Currency != "USD" || math.Abs(b.Checkpoint-0.012) > 1e-12 || math.Abs(b.Month-0.069) > 1e-12 {
		t.Errorf("bill %+v: want 0.012 for the requests and 0.069 for a month", b)
	}
	if b := objects(t, twoConnections).Bill(Requests{Puts: 1}, 1); b != nil {
		t.Errorf("no price is known: %+v", b)
	}
}

func TestObjectsRefused(t *testing.T) {
	for more, want := range map[string]string{
		"connections: {rate: 1MB/s}":                              "connections.count: missing",
		"connections: {count: 2}":                                 "connections.rate: missing",
		twoConnections + "host: {in_flight: 4}":                   "host.in_flight: ",
		twoConnections + "host: {dirty: 4MiB}":                    "host.dirty: ",
		twoConnections + "locks: {kind: extent-to-end}":           "locks.kind: ",
		"connections: {count: 1, rate: 1MB/s, least_part: 20MiB}": "rpc: 10MiB: connections.least_part is 20MiB",
		"connections: {count: 1, rate: 1MB/s, most_part: 5MiB}":   "rpc: 10MiB: connections.most_part is 5MiB",
		twoConnections + "prices: {put: 1}":                       "prices.currency: missing",
		twoConnections + "prices: {put: -1, currency: $}":         "prices.put: -1",
		"prices: {put: 1, currency: USD}":                         "add connections",
	} {
		if _, err := Read(strings.NewReader("name: x\ntargets: {count: 1, rate: 1MB/s}\nrpc: 10MiB\n" + more)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", more, err, want)
		}
	}
}
