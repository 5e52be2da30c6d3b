package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
)

// ParseSize reads a size like 512MiB, 512M or 1048576.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "iBKMGT")
	factor, known := map[string]int64{"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20,
		"G": 1 << 30, "GiB": 1 << 30, "T": 1 << 40, "TiB": 1 << 40}[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(n > 0) || n*float64(factor) > 1<<60 {
		return 0, BadUsage(fmt.Sprintf("invalid size %q", s), "sizes look like 512MiB or 2G")
	}
	return int64(n * float64(factor)), nil
}

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

// parseDuration reads the value of a flag: one of Go's forms, or plain seconds.
func parseDuration(flag, s string) (time.Duration, error) {
	if d, err := coordinator.ParseDuration(s); err == nil {
		return d, nil
	}
	return 0, BadUsage(fmt.Sprintf("%s %q: invalid duration", flag, s), "durations look like 90s, 5m, 1h30m, or plain seconds like 102.74")
}

// ParsePercent reads the value of a flag, like 30% or 30, as 0.30.
func ParsePercent(flag, s string) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return 0, BadUsage(fmt.Sprintf("%s %q: invalid percentage", flag, s), "percentages look like 30% or 2.5%")
	}
	return percent / 100, nil
}

// Quantities reads the values of several flags and keeps the first error.
type Quantities struct{ Err error }

func quantity[T any](q *Quantities, parse func(flag, s string) (T, error), flag, value string) (v T) {
	if q.Err == nil {
		v, q.Err = parse(flag, value)
	}
	return v
}

func (q *Quantities) Percent(flag, value string) float64 {
	return quantity(q, ParsePercent, flag, value)
}

// Duration returns 0 for a flag that was not given.
func (q *Quantities) Duration(flag, value string) time.Duration {
	if value == "" {
		return 0
	}
	return quantity(q, parseDuration, flag, value)
}

// Size returns 0 for a flag that was not given.
func (q *Quantities) Size(flag, value string) int64 {
	if value == "" {
		return 0
	}
	return quantity(q, func(flag, value string) (int64, error) {
		n, err := ParseSize(value)
		if err != nil {
			err = fmt.Errorf("%s: %w", flag, err)
		}
		return n, err
	}, flag, value)
}

// Missing is the error of a flag that must be given.
func Missing(flag, example string) error {
	return BadUsage(flag+" is missing", "add "+flag+", like "+flag+" "+example)
}

// ParseSizeFlag reads the value of a flag, at least a byte.
func ParseSizeFlag(flag, value string) (int64, error) {
	n, err := ParseSize(value)
	if err != nil || n == 0 {
		return 0, BadUsage(fmt.Sprintf("--%s %s: invalid size", flag, value), "sizes look like 512KiB, 16MiB or 2G")
	}
	return n, nil
}
