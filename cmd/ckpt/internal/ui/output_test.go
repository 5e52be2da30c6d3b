package ui

import (
	"strings"
	"testing"
	"time"
)

// TestBar: the share, the numbers, the times; nothing before two seconds.
func TestBar(t *testing.T) {
	var out strings.Builder
	start := time.Now()
	b := &Bar{w: &out, what: "verify", total: 4 << 20, bytes: true, start: start}
	if b.Set(1 << 20); out.Len() > 0 {
		t.Errorf("%q at once", out.String())
	}
	if got, want := b.line(1<<20, start.Add(3*time.Second)), "verify  25 % |===         | 1.00/4.00 MiB, 3s elapsed, 9s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (&Bar{what: "run", total: 7, start: start}).line(0, start.Add(time.Second)), "run   0 % |            | 0/7, 1s elapsed, ? left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.start = b.start.Add(-time.Minute)
	b.Set(9 << 20)
	b.Clear()
	if got := out.String(); !strings.Contains(got, "100 %") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
}

// TestBarFromMiddle: a run that begins with half of the work done has as much left as it
// has done at this pace; one that goes back begins to count again.
func TestBarFromMiddle(t *testing.T) {
	b := &Bar{w: &strings.Builder{}, what: "iteration", total: 1000, start: time.Now()}
	b.Set(500)
	after := func(n int64, d time.Duration, want string) {
		t.Helper()
		if got := b.line(n, b.first.at.Add(d)); !strings.Contains(got, want+" left") {
			t.Errorf("%q, want %s left", got, want)
		}
	}
	after(600, 10*time.Second, "40s")
	b.Set(400)
	after(600, 10*time.Second, "20s")
	b.Note("writing 12")
	if got := b.line(600, b.start.Add(90*time.Second)); !strings.HasSuffix(got, " left, writing 12") || len(got) >= 80 {
		t.Errorf("%q", got)
	}
}
