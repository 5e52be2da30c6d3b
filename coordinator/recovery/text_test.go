package recovery

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestTextFits prints lines of all kinds: no row is wider than a terminal, and
// the domino effect of many ranks is not longer than a screen or two.
func TestTextFits(t *testing.T) {
	check := func(t fataler, h *History, failed []int, mode InTransit) string {
		line, err := Find(h, failed, Options{mode})
		if err != nil {
			t.Fatalf("%v", err)
		}
		g, err := Collect(h, Options{mode})
		if err != nil {
			t.Fatalf("%v", err)
		}
		var b strings.Builder
		if err := Text(&b, line, g, "rank"); err != nil {
			t.Fatalf("%v", err)
		}
		for row := range strings.Lines(b.String()) {
			if utf8.RuneCountInString(strings.TrimSuffix(row, "\n")) > 80 {
				t.Fatalf("wider than 80 columns: %s", row)
			}
		}
		return b.String()
	}
	checks(t, 1, func(t *rapid.T) {
		h := drawHistory(t, 6, 6, true)
		check(t, h, ranksOf(rapid.UintRange(0, 1<<len(h.Ranks)-1).Draw(t, "failed")), rapid.SampledFrom(modes()).Draw(t, "mode"))
	})
	s := check(t, Relay(64, 20), []int{5}, Forbidden)
	if n := strings.Count(s, "\n"); n > 64+30 || !strings.Contains(s, "more steps") {
		t.Errorf("%d lines:\n%s", n, s)
	}
}
