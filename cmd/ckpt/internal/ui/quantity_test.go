package ui

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestQuantityErrors checks that errors and hints name the flag, and that what a hint
// says to write is right.
func TestQuantityErrors(t *testing.T) {
	duration := func(flag, s string) error { _, err := ParseDuration(flag, s); return err }
	size := func(flag, s string) error { _, err := ParseSize(flag, s); return err }
	share := func(flag, s string) error { _, err := ParseShare(flag, s); return err }
	for _, c := range []struct {
		parse    func(flag, s string) error
		flag     string
		rejected []string
	}{
		{duration, "--cost", []string{"", "x", "5mo", "1h30", "NaN"}},
		{size, "--size", []string{"", "x", "0", "16Mb"}},
		{share, "--overhead", []string{"", "x", "10", "1.5", "1", "2,5%"}},
	} {
		for _, s := range c.rejected {
			err := c.parse(c.flag, s)
			if err == nil || !strings.Contains(err.Error(), c.flag+" ") || !strings.Contains(HintOf(err), c.flag+" ") || ExitCode(err) != ExitUsage {
				t.Errorf("%s %q: %v; hint: %s", c.flag, s, err, HintOf(err))
				continue
			}
			for _, after := range strings.Split(HintOf(err), c.flag+" ")[1:] {
				value := strings.TrimRight(strings.Fields(after)[0], ",;")
				if err := c.parse(c.flag, value); err != nil {
					t.Errorf("the hint for %s %q says %s: %v", c.flag, s, value, err)
				}
			}
		}
	}
}

func TestScaled(t *testing.T) {
	for bytes, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1048575: "1.00 MiB", 18e12: "16.37 TiB", 90 << 40: "90.00 TiB", 1 << 62: "4.00 EiB", 3e20: "260.21 EiB"} {
		if got := Bytes(bytes); got != want {
			t.Errorf("%g bytes are %q, want %q", bytes, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "0 s", 0.0025: "2.50 ms", 0.9996: "1.00 s", 0.402: "402 ms", 492.93: "492.93 s", 664: "11.1 min",
		1e4: "2.8 h", 54 * 86400: "54.0 days", 55 * 365 * 86400: "55.0 years", math.Inf(1): "never"} {
		if got := Seconds(seconds); got != want {
			t.Errorf("%g seconds are %q, want %q", seconds, got, want)
		}
	}
	for d, want := range map[time.Duration]string{47 * time.Hour: "47h0m0s", 48 * time.Hour: "2d", 12*24*time.Hour + 11*time.Hour: "12d11h",
		2*24*time.Hour + 10*time.Hour + 58*time.Minute + 50*time.Second: "2d10h59m", 2*24*time.Hour + 5*time.Minute: "2d5m", 5 * 365 * 24 * time.Hour: "5.0 years"} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
