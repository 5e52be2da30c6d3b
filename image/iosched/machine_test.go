package iosched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMachine has every policy serve random requests that come, are granted and are
// done in any order that a unit may have: each byte is granted once, parts of a
// request in order, and no request is served before an earlier one that it overlaps
// is done, if one of them writes.
func TestMachine(t *testing.T) {
	for _, policy := range Names() {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newMachine(t, policy)
				t.Repeat(m.actions())
				m.finish()
			})
		})
	}
}

type machine struct {
	t       *rapid.T
	c       *Controller
	now     time.Duration
	came    []*Request
	granted map[*Request]int64
	service []Grant
	bytes   int64
}

func newMachine(t *rapid.T, policy string) *machine {
	mlf := DefaultMLF()
	for _, on := range []*bool{&mlf.Aggregate, &mlf.OffsetFirst, &mlf.Windows, &mlf.ReadsWait, &mlf.PipelineWrites} {
		*on = rapid.Bool().Draw(t, "switch")
	}
	for _, d := range []*time.Duration{&mlf.ShiftWait, &mlf.AggWait, &mlf.IdleWait, &mlf.Deadline, &mlf.WindowMax} {
		*d = time.Duration(rapid.IntRange(0, 4).Draw(t, "ms")) * ms
	}
	mlf.WindowMax += ms
	mlf.QB = rapid.Int64Range(1, 8).Draw(t, "QB")
	mlf.MaxAgg = rapid.Int64Range(1, 40).Draw(t, "MaxAgg")
	p, err := New(policy, Options{
		Rate: 1e4, Quantum: rapid.Int64Range(0, 20).Draw(t, "quantum"), MLF: &mlf,
		Weight: func(user string) float64 { return float64(len(user)) },
		Bound:  rapid.SampledFrom([]time.Duration{0, ms}).Draw(t, "bound"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &machine{t: t, c: NewController("disk", p), granted: make(map[*Request]int64)}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"add":  m.add,
		"next": m.next,
		"done": m.done,
		"time": func(t *rapid.T) {
			m.now += time.Duration(rapid.IntRange(0, 5000).Draw(t, "µs")) * time.Microsecond
		},
		"": m.check,
	}
}

func (m *machine) add(t *rapid.T) {
	r := &Request{
		App: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app"), User: rapid.SampledFrom([]string{"", "u", "vv"}).Draw(t, "user"),
		Rank: rapid.IntRange(0, 2).Draw(t, "rank"), File: rapid.SampledFrom([]string{"f", "g"}).Draw(t, "file"),
		Op: Op(rapid.IntRange(0, 1).Draw(t, "op")), Offset: rapid.Int64Range(0, 30).Draw(t, "offset"),
		Bytes: rapid.Int64Range(1, 12).Draw(t, "bytes"), Burst: rapid.Int64Range(0, 40).Draw(t, "burst"),
	}
	if err := m.c.Add(m.now, r); err != nil {
		t.Fatal(err)
	}
	m.came = append(m.came, r)
	m.bytes += r.Bytes
}

func (m *machine) next(t *rapid.T) { m.take() }

// take asks for grants and looks at each. It returns how many there were.
func (m *machine) take() (n int, wake time.Duration) {
	grants, wake := m.c.Next(m.now)
	if len(grants) > 0 && wake != 0 {
		m.t.Fatalf("%d grants, and a wake-up at %v", len(grants), wake)
	}
	if wake != 0 && wake <= m.now {
		m.t.Fatalf("at %v it asks to be asked again at %v", m.now, wake)
	}
	for _, g := range grants {
		r := g.Request
		if g.Bytes <= 0 || g.Offset != r.Offset+m.granted[r] || g.End() > r.End() {
			m.t.Fatalf("%v was granted %d bytes at %d after %d bytes", describe(r), g.Bytes, g.Offset, m.granted[r])
		}
		m.granted[r] += g.Bytes
		for _, earlier := range m.came {
			if earlier.Seq < r.Seq && conflict(earlier, r) && !m.served(earlier) {
				m.t.Fatalf("%v was granted before %v was done", describe(r), describe(earlier))
			}
		}
	}
	m.service = append(m.service, grants...)
	return len(grants), wake
}

func describe(r *Request) string {
	return fmt.Sprintf("request %d (%s %s %d-%d of %s)", r.Seq, r.Op, r.File, r.Offset, r.End(), r.App)
}

func conflict(a, b *Request) bool {
	return a.File == b.File && a.Offset < b.End() && b.Offset < a.End() && (a.Op == Write || b.Op == Write)
}

func (m *machine) served(r *Request) bool { return !slices.Contains(m.came, r) }

func (m *machine) done(t *rapid.T) {
	if len(m.service) > 0 {
		m.complete(rapid.IntRange(0, len(m.service)-1).Draw(t, "which"))
	}
}

func (m *machine) complete(i int) {
	g := m.service[i]
	m.service = slices.Delete(m.service, i, i+1)
	r := g.Request
	if m.granted[r] == r.Bytes && !slices.ContainsFunc(m.service, func(o Grant) bool { return o.Request == r }) {
		m.came = slices.DeleteFunc(m.came, func(o *Request) bool { return o == r })
	}
	m.bytes -= g.Bytes
	m.c.Done(m.now, m.now, g)
}

func (m *machine) check(t *rapid.T) {
	if m.c.Len() != len(m.came) {
		t.Fatalf("the controller has %d requests, want %d", m.c.Len(), len(m.came))
	}
	waiting := 0
	for _, r := range m.came {
		if m.granted[r] < r.Bytes {
			waiting++
		}
	}
	if got := m.c.policy.Len() + m.c.held; got != waiting {
		t.Fatalf("%d requests wait in policy and controller, want %d", got, waiting)
	}
}

// finish serves what is left. It must come to an end.
func (m *machine) finish() {
	for range 10000 {
		if m.c.Len() == 0 {
			break
		}
		n, wake := m.take()
		for len(m.service) > 0 {
			m.now += ms / 10
			m.complete(0)
		}
		if n == 0 && wake > 0 {
			m.now = wake
		}
		m.check(m.t)
	}
	if m.c.Len() > 0 || m.bytes != 0 {
		m.t.Fatalf("%d requests with %d bytes were never served", m.c.Len(), m.bytes)
	}
	stats, sum := m.c.Stats(), 0
	for _, f := range stats.Files {
		sum += f.Requests
		if f.Sum > f.Requests || f.Biggest > f.Requests || f.Sum < 2*f.Aggregates {
			m.t.Fatalf("counted %+v", f)
		}
	}
	if sum != len(m.granted) {
		m.t.Fatalf("%d requests were counted, want %d", sum, len(m.granted))
	}
}
