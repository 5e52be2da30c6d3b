package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func Percent1(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + " %" }

// MiB formats bytes as MiB, the unit of the tables.
func MiB(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 2, 64) }

// Seconds formats a time in the unit that reads best.
func Seconds(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case s < 0.01:
		return strconv.FormatFloat(s*1e3, 'f', 2, 64) + " ms"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(s, 'f', 2, 64) + " s"
}

// Span formats a time for reading: to the second from a minute on.
func Span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func Percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }

// FlagSize formats a size as flags take it.
func FlagSize(n int64) string { return strings.ReplaceAll(Size(n), " ", "") }

// Size formats a size that is chosen, not counted: 64 KiB, 16 MiB.
func Size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d %s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
