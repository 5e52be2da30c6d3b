package wording

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"102.74": 102740 * time.Millisecond, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "0": 0, "-1": -time.Second,
		"3055.314": 3055314 * time.Millisecond, "1e3": 1000 * time.Second, "100us": 100 * time.Microsecond,
		"2d": 48 * time.Hour, "1w": 7 * 24 * time.Hour, "1y": 365 * 24 * time.Hour, "1d12h": 36 * time.Hour,
		"5min": 5 * time.Minute, "90sec": 90 * time.Second, "3 hours": 3 * time.Hour, "5 m": 5 * time.Minute,
		"1 day 6 hours": 30 * time.Hour, "0.5d": 12 * time.Hour, "-2d": -48 * time.Hour, "1.5 years": 13140 * time.Hour,
		"292y": 292 * 365 * 24 * time.Hour, "100 µs": 100 * time.Microsecond, ".5h": 30 * time.Minute, "1 min": time.Minute,
	} {
		if got, err := Duration(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", " ", "-", "x", "NaN", "Inf", "-inf", "1e300", "9223372037", "1h30", "5M", "5mo", "1d-2h", "d", "1 2h",
		"300y", "200y200y", "9999999999999999999d", "1h,30m", "1.2.3h", "5  "} {
		if got, err := Duration(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestSize(t *testing.T) {
	for s, want := range map[string]int64{
		"1048576": 1 << 20, "512MiB": 512 << 20, "512M": 512 << 20, "2G": 2 << 30, "1T": 1 << 40, "1PiB": 1 << 50,
		"61GB": 61_000_000_000, "16MB": 16_000_000, "16MiB": 16 << 20, "1kB": 1000, "1KB": 1000, "1TB": 1e12, "64k": 64 << 10,
		"1.5GiB": 3 << 29, "16 MB": 16_000_000, "16mb": 16_000_000, "16mib": 16 << 20, "7B": 7, "7 bytes": 7, "0.5K": 512,
	} {
		if got, err := Size(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "0", "0.1", "-1", "NaN", "1e300G", "16Mb", "1Gib", "16MiBB", "16 M B", "2000PiB", "0x10", "1,5G", "5E"} {
		if got, err := Size(s); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func TestShare(t *testing.T) {
	for s, want := range map[string]float64{"30%": 0.30, "2.5%": 0.025, "-1%": -0.01, "0.1": 0.1, "30 %": 0.3, "0": 0, "150%": 1.5, "-0.5": -0.5, "0.5%": 0.005} {
		if got, err := Share(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "%", "30%%", "NaN%", "Inf", "1e400", "a half", "2,5%"} {
		if got, err := Share(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
	for s, want := range map[string]AmbiguousError{
		"10": {"10%", "0.1", "1000%"}, "1.5": {"1.5%", "0.015", "150%"}, "1": {"1%", "0.01", "100%"}, "-2": {"-2%", "-0.02", "-200%"},
	} {
		_, err := Share(s)
		if got, ok := errors.AsType[*AmbiguousError](err); !ok || *got != want {
			t.Errorf("%q: %v, want %v", s, err, want)
		}
	}
}

// FuzzQuantity checks that whatever is read is a number, and that durations come
// back from their text.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"102.74", "5m", "1h30m", "-0", "NaN", "1e18", "9223372036.854775807", "0x1p-3", "1_0", "30%", "%", "1e-400",
		"1d12h", "292y4w", "3 hours", "16MB", "1.5TiB", "16Mb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := Duration(s); err == nil {
			back, err := Duration(d.String())
			if err != nil || back != d {
				t.Errorf("%q is %v, which is %v, %v", s, d, back, err)
			}
		} else if d != 0 {
			t.Errorf("%q: %v, %v", s, d, err)
		}
		if n, err := Size(s); err == nil && (n < 1 || n > maxSize) {
			t.Errorf("%q is %d bytes", s, n)
		}
		if p, err := Share(s); err == nil && (math.IsNaN(p) || math.IsInf(p, 0)) {
			t.Errorf("%q is %v", s, p)
		}
	})
}
