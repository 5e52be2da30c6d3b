package ui

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"102.74": 102740 * time.Millisecond, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "0": 0, "-1": -time.Second,
		"3055.314": 3055314 * time.Millisecond, "1e3": 1000 * time.Second, "100us": 100 * time.Microsecond,
	} {
		if got, err := parseDuration("--cost", s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "x", "NaN", "Inf", "-inf", "1e300", "9223372037", "5 m", "5d", "1h30"} {
		if got, err := parseDuration("--cost", s); err == nil || !strings.Contains(err.Error(), "--cost") || HintOf(err) == "" {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for s, want := range map[string]float64{"30%": 0.30, "30": 0.30, "2.5%": 0.025, "-1%": -0.01} {
		if got, err := ParsePercent("--overhead", s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "%", "30%%", "NaN%", "Inf", "1e400", "a half", "30 %"} {
		if got, err := ParsePercent("--overhead", s); err == nil || HintOf(err) == "" {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

// FuzzQuantity checks that whatever is read is a number, and comes back.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"102.74", "5m", "1h30m", "-0", "NaN", "1e18", "9223372036.854775807", "0x1p-3", "1_0", "30%", "%", "1e-400"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseDuration("--x", s); err == nil {
			back, err := parseDuration("--x", d.String())
			if err != nil || back != d {
				t.Errorf("%q is %v, which is %v, %v", s, d, back, err)
			}
		} else if d != 0 || HintOf(err) == "" {
			t.Errorf("%q: %v, %v", s, d, err)
		}
		if p, err := ParsePercent("--x", s); err == nil && (math.IsNaN(p) || math.IsInf(p, 0)) {
			t.Errorf("%q is %v", s, p)
		}
	})
}
