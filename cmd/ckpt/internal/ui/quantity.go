package ui

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image/nodes"
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

// InFlight is the value of --async: how many checkpoints may be behind the computation at a time,
// 0 for a job that waits until each is written.
type InFlight int

// AddFlag adds --async to a command. Alone it is one.
func (n *InFlight) AddFlag(f *pflag.FlagSet, usage string) {
	f.VarPF(n, "async", "", usage).NoOptDefVal = "1"
}

// Set reads a number, or whether there are any.
func (n *InFlight) Set(text string) error {
	k, err := strconv.Atoi(text)
	if on, berr := strconv.ParseBool(text); err != nil && berr == nil {
		k, err = 0, nil
		if on {
			k = 1
		}
	}
	if err != nil || k < 0 || k > job.MaxInFlight {
		return fmt.Errorf("want a number from 0 to %d", job.MaxInFlight)
	}
	*n = InFlight(k)
	return nil
}

func (n *InFlight) String() string {
	switch *n {
	case 0:
		return "false"
	case 1:
		return "true"
	}
	return strconv.Itoa(int(*n))
}

func (n *InFlight) Type() string { return "N" }

// Setting is what a description has of it.
func (n *InFlight) Setting() (async bool, several int) {
	if *n > 1 {
		several = int(*n)
	}
	return *n > 0, several
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

func Percent1(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + " %" }

// MiB formats bytes as MiB, the unit of the tables.
func MiB(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 2, 64) }

// Bytes formats bytes in the unit that reads best.
func Bytes(n float64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if math.Abs(n) < 1<<10 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " B"
	}
	for n /= 1 << 10; math.Abs(n) >= 1<<10-0.005 && len(units) > 1; n /= 1 << 10 {
		units = units[1:]
	}
	return strconv.FormatFloat(n, 'f', 2, 64) + " " + units[0]
}

// Rate formats bytes per second.
func Rate(n float64) string { return Bytes(n) + "/s" }

// Between formats a range, with the unit once if both ends have it.
func Between(low, high float64, format func(float64) string) string {
	from, to := format(low), format(high)
	if number, unit, ok := strings.Cut(from, " "); ok && strings.HasSuffix(to, " "+unit) {
		from = number
	}
	return from + " to " + to
}

// From these seconds on a time is in minutes, hours, days or years.
const (
	inMinutes = 600
	inHours   = 2 * 3600
	inDays    = 2 * 86400
	inYears   = 2 * 365 * 86400
)

// Seconds formats a time in the unit that reads best.
func Seconds(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case math.IsInf(s, 0) || math.IsNaN(s):
		return "never"
	case s < 0.01:
		return strconv.FormatFloat(s*1e3, 'f', 2, 64) + " ms"
	case s < 0.9995:
		return strconv.FormatFloat(s*1e3, 'f', 0, 64) + " ms"
	case s < inMinutes:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	case s < inHours:
		return strconv.FormatFloat(s/60, 'f', 1, 64) + " min"
	case s < inDays:
		return strconv.FormatFloat(s/3600, 'f', 1, 64) + " h"
	case s < inYears:
		return strconv.FormatFloat(s/86400, 'f', 1, 64) + " days"
	}
	return strconv.FormatFloat(s/(365*86400), 'f', 1, 64) + " years"
}

// Span formats a time for reading: to the second from a minute on, to the minute from two
// days on.
func Span(d time.Duration) string {
	switch {
	case d >= inYears*time.Second:
		return strconv.FormatFloat(d.Hours()/(365*24), 'f', 1, 64) + " years"
	case d >= inDays*time.Second:
		d = d.Round(time.Minute)
		text := fmt.Sprintf("%dd", d/(24*time.Hour))
		if rest := d % (24 * time.Hour); rest > 0 {
			text += strings.TrimSuffix(strings.TrimSuffix(rest.String(), "0s"), "h0m")
			if rest%time.Hour == 0 {
				text += "h"
			}
		}
		return text
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

// storageLevel says where a checkpoint is.
func storageLevel(ev *levels.LevelEvent) string {
	switch ev.Level {
	case nodes.Draining:
		return fmt.Sprintf("checkpoint %d: copying %s MiB into the store", ev.Number, MiB(ev.Bytes))
	case nodes.Stored:
		return fmt.Sprintf("checkpoint %d is in the store: %s MiB copied in %s", ev.Number, MiB(ev.Bytes), Seconds(ev.Seconds))
	case nodes.InNext:
		return fmt.Sprintf("checkpoint %d is in next store %s: %s MiB copied in %s", ev.Number, ev.Store, MiB(ev.Bytes), Seconds(ev.Seconds))
	case nodes.Reclaimed:
		return fmt.Sprintf("checkpoint %d is not on the nodes any more", ev.Number)
	case nodes.Protected:
		return fmt.Sprintf("checkpoint %d is on the nodes, protected", ev.Number)
	}
	return fmt.Sprintf("checkpoint %d is on the nodes", ev.Number)
}

// areOrIs names checkpoints and the verb after them.
func areOrIs(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("checkpoint %d is", numbers[0])
	}
	var words []string
	for _, n := range numbers {
		words = append(words, fmt.Sprint(n))
	}
	return "checkpoints " + strings.Join(words, " and ") + " are"
}

// recoveredFrom says where ranks have found their parts of a checkpoint.
func recoveredFrom(ev *levels.SourcesEvent) string {
	var parts []string
	for _, p := range []struct {
		ranks int
		where string
	}{{ev.Local, "on its node"}, {ev.Copied, "copied from another node"}, {ev.Built, "rebuilt from parities"}, {ev.Stored, "in the store"}} {
		where := p.where
		if p.ranks != 1 && where == "on its node" {
			where = "on their nodes"
		}
		if p.ranks > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", Count(p.ranks, "rank"), where))
		}
	}
	return fmt.Sprintf("checkpoint %d was found by %s", ev.Number, strings.Join(parts, ", "))
}
