package ui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/internal/wording"
)

// Positive refuses whole numbers below 1 that were given.
func Positive(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		if n, err := strconv.Atoi(f.Value.String()); f.Changed && (err != nil || n < 1) {
			return BadUsage(fmt.Sprintf("--%s %s: want a positive number", name, f.Value), "")
		}
	}
	return nil
}

// ParseDuration reads the value of a flag, such as "--cost".
func ParseDuration(flag, s string) (time.Duration, error) {
	d, err := wording.Duration(s)
	if err != nil {
		return 0, BadUsage(fmt.Sprintf("%s %q: %v", flag, s, err), "write "+flag+" 90s, 5min, 1h30m, 2d, 1w or 1y, or plain seconds like 102.74")
	}
	return d, nil
}

// ParseSize reads the value of a flag, at least a byte.
func ParseSize(flag, s string) (int64, error) {
	n, err := wording.Size(s)
	if err != nil {
		return 0, BadUsage(fmt.Sprintf("%s %q: %v", flag, s, err), "write "+flag+" 512MiB or 2G (powers of 1024), 16MB (powers of 1000), or bytes")
	}
	return n, nil
}

// ParseRate reads the value of a flag: bytes per second, like 200MiB/s or 200MiB.
func ParseRate(flag, s string) (int64, error) {
	n, err := wording.Size(strings.TrimSuffix(s, "/s"))
	if err == nil && n <= 0 {
		err = errors.New("must be over 0")
	}
	if err != nil {
		return 0, BadUsage(fmt.Sprintf("%s %q: %v", flag, s, err), "write "+flag+" 200MiB/s or 2GiB/s")
	}
	return n, nil
}

// ParseShare reads the value of a flag: 30% or 0.3.
func ParseShare(flag, s string) (float64, error) {
	share, err := wording.Share(s)
	if either, ok := errors.AsType[*wording.AmbiguousError](err); ok {
		return 0, BadUsage(fmt.Sprintf("%s %s is %v", flag, s, err),
			fmt.Sprintf("write %[1]s %[2]s or %[1]s %[3]s, which is the same; or %[1]s %[4]s", flag, either.Percent, either.Share, either.Whole))
	}
	if err != nil {
		return 0, BadUsage(fmt.Sprintf("%s %q: %v", flag, s, err), "write "+flag+" 10% or "+flag+" 0.1, which is the same")
	}
	return share, nil
}

// Quantities reads the values of several flags and keeps the first error.
type Quantities struct{ Err error }

func read[T any](q *Quantities, parse func(flag, s string) (T, error), flag, value string) (v T) {
	if q.Err == nil {
		v, q.Err = parse(flag, value)
	}
	return v
}

// Share reads a part of something, like 10% or 0.1.
func (q *Quantities) Share(flag, value string) float64 {
	return read(q, ParseShare, flag, value)
}

// Duration returns 0 for a flag that was not given.
func (q *Quantities) Duration(flag, value string) time.Duration {
	if value == "" {
		return 0
	}
	return read(q, ParseDuration, flag, value)
}

// Size returns 0 for a flag that was not given.
func (q *Quantities) Size(flag, value string) int64 {
	if value == "" {
		return 0
	}
	return read(q, ParseSize, flag, value)
}

// Rate returns bytes per second, 0 for a flag that was not given.
func (q *Quantities) Rate(flag, value string) int64 {
	if value == "" {
		return 0
	}
	return read(q, ParseRate, flag, value)
}

// Missing is the error of a flag that must be given.
func Missing(flag, example string) error {
	return BadUsage(flag+" is missing", "add "+flag+", like "+flag+" "+example)
}
