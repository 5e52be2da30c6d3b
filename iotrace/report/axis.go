package report

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
)

// bytesText writes a size with a suitable unit: 0 B, 512 B, 64 KiB, 1.5 MiB.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for ; math.Abs(n) >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	digits := 0
	if i > 0 && n != math.Trunc(n) {
		digits = max(0, 2-int(math.Log10(math.Abs(n))))
	}
	text := fmt.Sprintf("%.*f", digits, n)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + units[i]
}

// byteTicks marks multiples of a power of two.
func byteTicks(low, high float64) []plot.Tick {
	step := math.Exp2(math.Ceil(math.Log2(max(high-low, 8) / 6)))
	var ticks []plot.Tick
	for x := math.Ceil(low/step) * step; x <= high; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: bytesText(x)})
		if len(ticks) > 16 { // the step is lost in the precision of x
			break
		}
	}
	return ticks
}

// logByteTicks marks powers of two on an axis with log₂ of bytes.
func logByteTicks(low, high float64) []plot.Tick {
	step := max(1, math.Ceil((high-low)/8))
	var ticks []plot.Tick
	for x := math.Ceil(low/step) * step; x <= high; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: bytesText(math.Exp2(x))})
	}
	return ticks
}

// countTicks marks powers of ten on an axis with logCount of numbers.
func countTicks(_, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for k := 0; float64(k+1) <= high; k++ {
		ticks = append(ticks, plot.Tick{Value: float64(k + 1), Label: figure.Number(math.Pow10(k))})
	}
	return ticks
}

// logCount keeps 0 and 1 apart on the axis.
func logCount(n int64) float64 {
	if n <= 0 {
		return 0
	}
	return 1 + math.Log10(float64(n))
}

// rateTicks is byteTicks of bytes per second.
func rateTicks(low, high float64) []plot.Tick {
	ticks := byteTicks(low, high)
	for i := range ticks {
		ticks[i].Label += "/s"
	}
	return ticks
}

// secondsText writes a time with a suitable unit.
func secondsText(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case a < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case a < 1e4:
		return fmt.Sprintf("%.4g s", s)
	}
	return figure.Number(s) + " s"
}
