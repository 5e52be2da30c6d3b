// Package wording is how users write to programs, and programs to users. It reads durations,
// sizes and shares, and YAML files. Libraries name settings and commands in their texts without
// knowing what a program calls them:
//
//	wording.Sprintf("{np} %d: array %q belongs to one rank; {restart %s} keeps it", n, name, job)
//
// The program says once how it names them. Only formats are read: the arguments, which may
// come from anywhere, appear as they are.
package wording

import (
	"ckpt/internal/lazy"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	year = 365 * day // as in an MTBF of 5 years
)

// units are the units of durations; package time reads the ones that it knows.
var units = map[string]time.Duration{
	"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
	"w": week, "week": week, "weeks": week,
	"y": year, "yr": year, "year": year, "years": year,
}

var (
	errForm  = errors.New("invalid duration")
	errRange = errors.New("out of range: durations end at 292 years")

	number = lazy.Regexp(`^(\d+(?:\.\d*)?|\.\d+)`)
	unit   = lazy.Regexp(`^\p{L}+`)
)

// Duration reads plain seconds (102.74), Go's forms (1h30m) and others that people
// write: 2d, 1w, 1y, 1d12h, 5min, 90sec, 3 hours. A year has 365 days.
func Duration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		return seconded(seconds)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	rest, negative := strings.CutPrefix(strings.TrimSpace(s), "-")
	if rest == "" {
		return 0, errForm
	}
	var sum time.Duration
	for rest != "" {
		d, after, err := part(rest)
		if err != nil {
			return 0, err
		}
		if sum += d; sum < 0 {
			return 0, errRange
		}
		rest = after
	}
	if negative {
		sum = -sum
	}
	return sum, nil
}

// seconded rounds seconds to a duration.
func seconded(seconds float64) (time.Duration, error) {
	if math.IsNaN(seconds) {
		return 0, errForm
	}
	if ns := math.Round(seconds * 1e9); ns > -1<<63 && ns < 1<<63 {
		return time.Duration(ns), nil
	}
	return 0, errRange
}

// part reads a number and its unit, and returns the rest of a text.
func part(s string) (d time.Duration, rest string, err error) {
	digits := number().FindString(s)
	rest = strings.TrimLeft(s[len(digits):], " ")
	name := unit().FindString(rest)
	of, known := units[name]
	if digits == "" || !known {
		return 0, "", errForm
	}
	rest = strings.TrimLeft(rest[len(name):], " ")
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n > math.MaxInt64/int64(of) {
			return 0, "", errRange
		}
		return time.Duration(n) * of, rest, nil
	}
	n, err := strconv.ParseFloat(digits, 64)
	if ns := math.Round(n * float64(of)); err == nil && ns < 1<<63 {
		return time.Duration(ns), rest, nil
	}
	return 0, "", errRange
}

// maxSize is more than any store holds, and far from the end of int64.
const maxSize = 1 << 60

var (
	size = lazy.Regexp(`^(\d+(?:\.\d*)?|\.\d+) ?([A-Za-z]*)$`)
	bits = lazy.Regexp(`^[KMGTP]i?b$`)
)

// Size reads a number of bytes: 1048576, decimal with KB MB GB TB PB (61GB is
// 61,000,000,000), binary with KiB MiB GiB TiB PiB, or with K M G T P alone, which
// are binary too. Case does not matter, but for Mb and Gb, which elsewhere are bits.
func Size(s string) (int64, error) {
	m := size().FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, errors.New("invalid size")
	}
	if bits().MatchString(m[2]) {
		return 0, fmt.Errorf("invalid size: %s is a unit of bits", m[2])
	}
	factor, known := factorOf(strings.ToLower(m[2]))
	n, err := strconv.ParseFloat(m[1], 64)
	switch {
	case err != nil || !known:
		return 0, errors.New("invalid size")
	case n*factor < 1:
		return 0, errors.New("a size is at least one byte")
	case n*factor > maxSize:
		return 0, errors.New("out of range: sizes end at 1024 PiB")
	}
	return int64(n * factor), nil
}

// factorOf returns the bytes of a unit in lower case.
func factorOf(unit string) (factor float64, known bool) {
	if unit == "" || unit == "b" || unit == "byte" || unit == "bytes" {
		return 1, true
	}
	power := strings.IndexByte("kmgtp", unit[0]) + 1
	if power == 0 {
		return 0, false
	}
	switch unit[1:] {
	case "", "ib":
		return math.Pow(1<<10, float64(power)), true
	case "b":
		return math.Pow10(3 * power), true
	}
	return 0, false
}

// An AmbiguousError says that a share like 10 may mean 10% or 1000%.
type AmbiguousError struct {
	// Percent is the number with a percent sign, Share the same as a fraction, and
	// Whole what the number means if it is a fraction.
	Percent, Share, Whole string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("ambiguous: %s or %s", e.Percent, e.Whole)
}

// Share reads a part of something: 10% and 0.1 are the same. It refuses numbers
// from 1 without a percent sign with an [AmbiguousError].
func Share(s string) (float64, error) {
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	if percent {
		text = strings.TrimSuffix(text, " ") // ckpt itself prints 10 %
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return 0, errors.New("invalid share")
	case percent:
		return n / 100, nil
	case math.Abs(n) < 1:
		return n, nil
	}
	digits := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	return 0, &AmbiguousError{Percent: digits(n) + "%", Share: digits(n / 100), Whole: digits(n*100) + "%"}
}

// Absent reports whether a cell of a table says that there is no value, in the words of R,
// pandas, polars, DuckDB and spreadsheets.
func Absent(cell string) bool {
	switch cell {
	case "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "None", "NULL", "null":
		return true
	}
	return false
}

var named = lazy.Regexp(`\{[a-z][^{}]*\}`)

// setting and command are the names that the program gives; without them the braces stay.
var setting, command func(string) string

// Use sets how the program names a setting, like group-size, and a command, like restart JOB.
// It is called before any text is made.
func Use(settingName, commandName func(string) string) { setting, command = settingName, commandName }

// Sprintf is fmt.Sprintf with a format that names settings and commands in braces.
func Sprintf(format string, args ...any) string {
	if setting != nil {
		format = named().ReplaceAllStringFunc(format, func(s string) string {
			s = s[1 : len(s)-1]
			if strings.Contains(s, " ") {
				return command(s)
			}
			return setting(s)
		})
	}
	return fmt.Sprintf(format, args...)
}
