package pfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ckpt/internal/wording"
)

// Bytes is a size. A description says 4MiB, or 4096.
type Bytes int64

// Rate is in bytes per second. A description says 500MB/s. Zero means no limit.
type Rate float64

// Duration is in seconds. A description says 0.5ms, or 2 for seconds.
type Duration float64

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := readSize(string(text))
	if err != nil {
		return fmt.Errorf("%q: %w, want one like 4MiB", text, err)
	}
	*b = Bytes(n)
	return nil
}

// readSize reads a size that may be zero.
func readSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	return wording.Size(s)
}

// MarshalText writes the size with the largest unit of which it is a multiple.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b Bytes) String() string {
	n, units := int64(b), []string{"", "KiB", "MiB", "GiB", "TiB"}
	for n != 0 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return strconv.FormatInt(n, 10) + units[0]
}

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "0" {
		*r = 0
		return nil
	}
	per, ok := strings.CutSuffix(s, "/s")
	if !ok {
		return fmt.Errorf("%q: invalid rate, want one like 500MB/s", text)
	}
	v, err := readRate(strings.TrimSpace(per))
	if err != nil {
		return fmt.Errorf("%q: %w, want one like 500MB/s", text, err)
	}
	*r = Rate(v)
	return nil
}

// readRate reads the bytes of a rate, which need not be whole.
func readRate(s string) (float64, error) {
	if digits, plain := strings.CutSuffix(s, "B"); plain {
		if v, err := strconv.ParseFloat(digits, 64); err == nil {
			if !(v >= 0 && v <= maxRate) {
				return 0, errors.New("out of range")
			}
			return v, nil
		}
	}
	n, err := wording.Size(s)
	return float64(n), err
}

// MarshalText writes the rate so that reading it gives the same number.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r Rate) String() string {
	if r == 0 {
		return "0"
	}
	for _, unit := range []struct {
		name string
		of   float64
	}{{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}} {
		text := strconv.FormatFloat(float64(r)/unit.of, 'f', -1, 64)
		var same Rate
		if float64(r) >= unit.of && len(text) < 8 && same.UnmarshalText([]byte(text+unit.name)) == nil && same == r {
			return text + unit.name
		}
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "B/s"
}

// UnmarshalText reads a time.
func (d *Duration) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if v, err := strconv.ParseFloat(strings.TrimSuffix(s, "s"), 64); err == nil && v >= 0 && v <= maxTime {
		*d = Duration(v)
		return nil
	}
	v, err := wording.Duration(s)
	if err != nil {
		return fmt.Errorf("%q: %w, want one like 0.5ms", text, err)
	}
	*d = Duration(v.Seconds())
	return nil
}

// MarshalText writes the time so that reading it gives the same number.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"ms", 1e3}, {"us", 1e6}} {
		text := strconv.FormatFloat(float64(d)*unit.of, 'f', -1, 64)
		var same Duration
		if d > 0 && float64(d)*unit.of < 1e3 && len(text) < 8 && same.UnmarshalText([]byte(text+unit.name)) == nil && same == d {
			return text + unit.name
		}
	}
	if d == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(d), 'f', -1, 64) + "s"
}
