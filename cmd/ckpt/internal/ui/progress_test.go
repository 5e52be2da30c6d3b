package ui

import (
	"strings"
	"testing"
	"time"
)

// TestBar: the share, the numbers and the time left; nothing before two seconds.
func TestBar(t *testing.T) {
	var out strings.Builder
	b := &Bar{w: &out, what: "verify", total: 4 << 20, bytes: true, start: time.Now()}
	if b.Set(1 << 20); out.Len() > 0 {
		t.Errorf("%q at once", out.String())
	}
	if got, want := b.line(1<<20, 3*time.Second), "verify  25 % |======                  | 1.00/4.00 MiB, 9s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (&Bar{what: "run", total: 7}).line(0, time.Second), "run   0 % |                        | 0/7, ? left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.start = b.start.Add(-time.Minute)
	b.Set(9 << 20)
	b.Clear()
	if got := out.String(); !strings.Contains(got, "100 %") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
}
