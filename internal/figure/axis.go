package figure

import (
	"fmt"
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
)

// Wide reports whether a range asks for a logarithmic axis: it is positive and spans a
// power of ten.
func Wide(low, high float64) bool { return low > 0 && high >= 10*low }

// Logarithmic makes an axis logarithmic, with marks at 1, 2 and 5 times powers of ten.
func Logarithmic(a *plot.Axis) {
	a.Scale, a.Tick.Marker = plot.LogScale{}, plot.TickerFunc(LogTicks)
}

// Include widens an axis so that a range is inside, with a margin at both ends. The
// margin of a linear axis does not cross 0.
func Include(a *plot.Axis, low, high float64) {
	low, high = min(a.Min, low), max(a.Max, high)
	if isLog(a) {
		margin := math.Pow(high/low, 0.04)
		a.Min, a.Max = low/margin, high*margin
		return
	}
	margin := (high - low) * 0.04
	if a.Max = high + margin; low < 0 || low > margin {
		low -= margin
	}
	a.Min = low
}

// LogTicks marks 1, 2 and 5 times powers of ten, or powers of ten alone if those are
// many.
func LogTicks(low, high float64) []plot.Tick {
	factors := []float64{1, 2, 5}
	if high > low*1e3 {
		factors = factors[:1]
	}
	var ticks []plot.Tick
	for k := int(math.Floor(math.Log10(low))); math.Pow10(k) <= high && len(ticks) < 40; k++ {
		for _, f := range factors {
			x := f * math.Pow10(k)
			if x >= low*(1-1e-9) && x <= high*(1+1e-9) {
				ticks = append(ticks, plot.Tick{Value: x, Label: decimal(x)})
			}
		}
	}
	return ticks
}

// decimal writes a number, of 1, 2 or 5 times a power of ten, with commas.
func decimal(x float64) string {
	if x < 1 {
		return fmt.Sprintf("%g", x)
	}
	return Number(x)
}

// durations are what people count times in.
var durations = []struct {
	of   time.Duration
	name string
}{
	{time.Millisecond, "1 ms"}, {10 * time.Millisecond, "10 ms"}, {100 * time.Millisecond, "100 ms"},
	{time.Second, "1 s"}, {2 * time.Second, "2 s"}, {5 * time.Second, "5 s"}, {10 * time.Second, "10 s"}, {30 * time.Second, "30 s"},
	{time.Minute, "1 min"}, {2 * time.Minute, "2 min"}, {5 * time.Minute, "5 min"}, {10 * time.Minute, "10 min"}, {30 * time.Minute, "30 min"},
	{time.Hour, "1 h"}, {2 * time.Hour, "2 h"}, {5 * time.Hour, "5 h"}, {10 * time.Hour, "10 h"},
	{24 * time.Hour, "1 d"}, {48 * time.Hour, "2 d"}, {120 * time.Hour, "5 d"}, {240 * time.Hour, "10 d"}, {720 * time.Hour, "30 d"},
	{2400 * time.Hour, "100 d"}, {8766 * time.Hour, "1 a"}, {87660 * time.Hour, "10 a"},
}

// DurationTicks marks round times on a logarithmic axis in seconds, at most nine.
func DurationTicks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for _, d := range durations {
		if s := d.of.Seconds(); s >= low && s <= high {
			all = append(all, plot.Tick{Value: s, Label: d.name})
		}
	}
	if len(all) < 2 { // a range like 3 to 4 minutes
		return LogTicks(low, high)
	}
	step := (len(all) + 8) / 9
	var ticks []plot.Tick
	for i := 0; i < len(all); i += step {
		ticks = append(ticks, all[i])
	}
	return ticks
}

// RoundTicks marks about six multiples of a step, which is 1, 2 or 5 times a power of
// ten and at least as large as least.
func RoundTicks(low, high, least float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(max(high-low, 1e-9)/6)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= 7 {
			step *= f
			break
		}
	}
	step = max(step, least)
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	for k := math.Ceil(low / step); k*step <= high && len(ticks) < 16; k++ {
		label := fmt.Sprintf("%.*f", digits, k*step)
		if digits == 0 {
			label = Number(k * step)
		}
		ticks = append(ticks, plot.Tick{Value: k * step, Label: label})
	}
	return ticks
}

// DecimalTicks marks about six round numbers, WholeTicks whole ones.
func DecimalTicks(low, high float64) []plot.Tick { return RoundTicks(low, high, 0) }

// WholeTicks is DecimalTicks with whole numbers.
func WholeTicks(low, high float64) []plot.Tick { return RoundTicks(low, high, 1) }

// Number writes a number without decimals, with commas.
func Number(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Ink is the colour of text and axes, Faint of the grid.
var (
	Ink   = color.NRGBA{0, 0, 0, 255}
	Faint = color.NRGBA{221, 221, 221, 255}
)

// The colours of Okabe and Ito, which colour-blind people can tell apart.
var (
	Blue      = color.NRGBA{0, 114, 178, 255}
	Vermilion = color.NRGBA{213, 94, 0, 255}
	Green     = color.NRGBA{0, 158, 115, 255}
	Purple    = color.NRGBA{204, 121, 167, 255}
	Sky       = color.NRGBA{86, 180, 233, 255}
	Orange    = color.NRGBA{230, 159, 0, 255}
	Violet    = color.NRGBA{112, 86, 151, 255}
	Grey      = color.NRGBA{120, 120, 120, 255}
)

// Categories are colours for things without an order.
var Categories = []color.NRGBA{Blue, Vermilion, Green, Purple, Sky, Orange, Violet, Grey}

// Ramp are colours for things with an order: viridis, from 0.1 to 0.9.
var Ramp = []color.NRGBA{
	{72, 36, 117, 255}, {65, 68, 135, 255}, {53, 95, 141, 255}, {42, 120, 142, 255},
	{33, 145, 140, 255}, {34, 168, 132, 255}, {94, 201, 98, 255}, {189, 223, 38, 255},
}

// Pale returns a colour with some transparency, from 0 to 255.
func Pale(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}
