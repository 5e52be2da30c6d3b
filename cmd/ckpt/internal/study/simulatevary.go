package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
)

// A simulatedPoint is what a value of a flag gives: all ways, the best first.
type simulatedPoint struct {
	Value  string          `json:"varied_value"`
	Waste  float64         `json:"waste"`
	WasteL float64         `json:"waste_low"`
	WasteH float64         `json:"waste_high"`
	Lives  []simulatedLife `json:"simulated_list"`
}

// A scope is a flag and the ends of its values.
type scope struct {
	flag      string
	low, high float64
	text      func(float64) string // as the flag takes it
}

// units read the values of flags that may vary, and write them.
var units = []struct {
	flags string
	read  func(flag, s string) (float64, error)
	write func(float64) string
}{
	{"mtbf node-mtbf domain-mtbf store-mtbf store-repair detect repair slack coordination restart walltime queue app-time interval", func(flag, s string) (float64, error) {
		d, err := ui.ParseDuration(flag, s)
		return d.Seconds(), err
	}, func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }},
	{"node-bytes", func(flag, s string) (float64, error) {
		n, err := ui.ParseSize(flag, s)
		return float64(n), err
	}, func(v float64) string { return strconv.FormatFloat(math.Round(v), 'f', 0, 64) }},
	{"store-rate local-rate network-rate", func(flag, s string) (float64, error) {
		n, err := ui.ParseRate(flag, s)
		return float64(n), err
	}, func(v float64) string { return strconv.FormatFloat(math.Round(v), 'f', 0, 64) }},
	{"logging log-growth drain-slowdown node-loss background", ui.ParseShare, func(v float64) string { return strconv.FormatFloat(100*v, 'g', 6, 64) + "%" }},
	{"nodes np ppn replay shape", func(flag, s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			err = ui.BadUsage(flag+" "+s+": want a number", "write "+flag+" like 64")
		}
		return v, err
	}, func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }},
}

// readScope reads FLAG=LOW..HIGH.
func readScope(option, s string) (x scope, err error) {
	wrong := func(reason string) error {
		return ui.BadUsage(fmt.Sprintf("%s %s: %s", option, s, reason), "write "+option+" node-mtbf=1y..10y")
	}
	name, ends, ok := strings.Cut(s, "=")
	low, high, both := strings.Cut(ends, "..")
	if !ok || !both {
		return x, wrong("want a flag and two values of it")
	}
	for _, u := range units {
		for _, flag := range strings.Fields(u.flags) {
			if flag != name {
				continue
			}
			x.flag, x.text = flag, u.write
			if flag == "nodes" || flag == "np" || flag == "ppn" {
				x.text = func(v float64) string { return strconv.FormatFloat(math.Round(v), 'f', 0, 64) }
			}
			if x.low, err = u.read(option+" "+flag, low); err == nil {
				x.high, err = u.read(option+" "+flag, high)
			}
			if err == nil && !(x.low > 0 && x.low < x.high) {
				err = wrong("want a value over 0 and a larger one")
			}
			return x, err
		}
	}
	return x, wrong("no flag of numbers")
}

// at is a value between the ends, each factor as far as any other.
func (x *scope) at(part float64) float64 { return x.low * math.Pow(x.high/x.low, part) }

// steps is for how many values --vary simulates.
const steps = 7

// point simulates a value.
func (o *simulateOptions) point(ctx context.Context, f *pflag.FlagSet, x *scope, value float64) (*simulateResult, *simulatedPoint, error) {
	text := x.text(value)
	if err := f.Set(x.flag, text); err != nil {
		return nil, nil, err
	}
	r, err := o.simulate(ctx, f)
	if err != nil {
		return nil, nil, fmt.Errorf("--%s %s: %w", x.flag, text, err)
	}
	best := &r.Lives[0]
	return r, &simulatedPoint{Value: text, Waste: 1 - r.WorkS/best.MeanS, WasteL: 1 - r.WorkS/max(r.WorkS, best.LowS), WasteH: 1 - r.WorkS/best.HighS, Lives: r.Lives}, nil
}

// varied simulates several values of a flag.
func (o *simulateOptions) varied(ctx context.Context, f *pflag.FlagSet) (*simulateResult, error) {
	x, err := readScope("--vary", o.vary)
	if err != nil {
		return nil, err
	}
	var all []simulatedPoint
	var last *simulateResult
	for i := range steps {
		r, p, err := o.point(ctx, f, &x, x.at(float64(i)/(steps-1)))
		if err != nil {
			return nil, err
		}
		all, last = append(all, *p), r
	}
	last.Varied, last.Points = x.flag, all
	return last, nil
}

// solved looks for the value of a flag at which the best way reaches the target, to 1 %.
func (o *simulateOptions) solved(ctx context.Context, f *pflag.FlagSet) (*simulateResult, error) {
	x, err := readScope("--solve", o.solve)
	if err != nil {
		return nil, err
	}
	share, ok := strings.CutPrefix(o.target, "waste<")
	if !ok {
		return nil, ui.BadUsage("--target "+o.target+": want a waste", "write --target 'waste<5%'")
	}
	target, err := ui.ParseShare("--target waste<", share)
	if err != nil {
		return nil, err
	}
	var points []simulatedPoint
	try := func(part float64) (*simulateResult, bool, error) {
		r, p, err := o.point(ctx, f, &x, x.at(part))
		if err != nil {
			return nil, false, err
		}
		points = append(points, *p)
		return r, p.Waste < target, nil
	}
	low, reachesLow, err := try(0)
	if err != nil {
		return nil, err
	}
	high, reachesHigh, err := try(1)
	if err != nil {
		return nil, err
	}
	if reachesLow == reachesHigh {
		a, b := &points[0], &points[1]
		reason := "neither end reaches it"
		if reachesLow {
			reason = "both ends reach it"
		}
		return nil, ui.BadUsage(fmt.Sprintf("--target %s: %s: the waste is %s with --%s %s, and %s with %s", o.target, reason, ui.Percent1(a.Waste), x.flag, a.Value, ui.Percent1(b.Waste), b.Value),
			"give other ends with --solve")
	}
	good, bad, best := 0.0, 1.0, low
	found := points[0]
	if reachesHigh {
		good, bad, best, found = 1, 0, high, points[1]
	}
	for math.Abs(good-bad)*math.Log(x.high/x.low) > 0.01 {
		mid := (good + bad) / 2
		r, reaches, err := try(mid)
		switch {
		case err != nil:
			return nil, err
		case reaches:
			good, best, found = mid, r, points[len(points)-1]
		default:
			bad = mid
		}
	}
	best.Varied, best.Points, best.Solved, best.target = x.flag, points, &found, target
	return best, nil
}

// show is a value as people read it.
func show(flag, value string) string {
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil:
		return value
	case strings.HasSuffix(flag, "-rate"):
		return ui.Rate(v)
	case strings.HasSuffix(flag, "-bytes"):
		return ui.Bytes(v)
	case strings.Contains(" "+units[0].flags+" ", " "+flag+" "):
		return ui.Seconds(v)
	}
	return value
}

// printPoints prints a row for each value.
func (r *simulateResult) printPoints(g *ui.Globals) error {
	if s := r.Solved; s != nil {
		return g.Printf("--%s %s: the waste is %s (%s), below %s, %s every %s\n%s tried, to 1 %% of the value\n", r.Varied, show(r.Varied, s.Value), ui.Percent1(s.Waste),
			ui.Between(s.WasteL, s.WasteH, ui.Percent1), ui.Percent1(r.target), s.Lives[0].name(), ui.Seconds(s.Lives[0].IntervalS), ui.Count(len(r.Points), "value"))
	}
	header := []string{"|" + r.Varied, "best", "|every", "|total"}
	var order []string
	for _, w := range r.tries {
		if name := w.way.name(); !slices.Contains(order, name) {
			order = append(order, name)
			header = append(header, "|"+name)
		}
	}
	unsure := false
	var rows [][]string
	for i := range r.Points {
		p := &r.Points[i]
		best := &p.Lives[0]
		row := []string{show(r.Varied, p.Value), best.name(), ui.Seconds(best.IntervalS), ui.Seconds(best.MeanS)}
		if len(p.Lives) > 1 && p.Lives[1].LongerLow <= 0 {
			row[1] += " ?"
			unsure = true
		}
		for _, name := range order {
			l := &p.Lives[slices.IndexFunc(p.Lives, func(l simulatedLife) bool { return l.name() == name })]
			row = append(row, ui.Percent1(1-r.WorkS/l.MeanS))
		}
		rows = append(rows, row)
	}
	if err := g.Table(header, rows); err != nil || g.Quiet {
		return err
	}
	text := "\nbelow each way: its waste at its best interval\n"
	if unsure {
		text += "? another may be as fast, with 95 %\n"
	}
	for _, a := range r.Assumed {
		text += "assumed: " + a + "\n"
	}
	return g.Printf("%s", text)
}
