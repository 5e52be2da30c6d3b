package study

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	Second string          `json:"second_varied_value,omitempty"`
	Waste  float64         `json:"waste"`
	WasteL float64         `json:"waste_low"`
	WasteH float64         `json:"waste_high"`
	Lives  []simulatedLife `json:"simulated_list"`
	// Without are the ways that have no end with this value. If none has, the waste is 1.
	Without []string `json:"no_progress_list,omitempty"`

	work float64
}

// waste is the waste of the best way, as people read it.
func (p *simulatedPoint) waste() string {
	if len(p.Lives) == 0 {
		return "100 % (" + noEnd + ")"
	}
	return ui.Percent1(p.Waste)
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
	if never := new(neverError); errors.As(err, &never) {
		return nil, &simulatedPoint{Value: text, Waste: 1, WasteL: 1, WasteH: 1, Lives: []simulatedLife{}, Without: never.ways}, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--%s %s: %w", x.flag, text, err)
	}
	best := &r.Lives[0]
	return r, &simulatedPoint{work: r.WorkS, Value: text, Waste: 1 - r.WorkS/best.MeanS, WasteL: 1 - r.WorkS/max(r.WorkS, best.LowS), WasteH: 1 - r.WorkS/best.HighS, Lives: r.Lives, Without: r.Without}, nil
}

// varied simulates several values of a flag, or of two.
func (o *simulateOptions) varied(ctx context.Context, f *pflag.FlagSet) (*simulateResult, error) {
	x, err := readScope("--vary", o.vary[0])
	if err != nil {
		return nil, err
	}
	var second scope
	columns := []float64{0}
	if len(o.vary) == 2 {
		if second, err = readScope("--vary", o.vary[1]); err != nil {
			return nil, err
		}
		if second.flag == x.flag {
			return nil, ui.BadUsage("--vary "+x.flag+" is there twice", "vary another flag, or one only")
		}
		columns = []float64{0, 0.25, 0.5, 0.75, 1}
	}
	var all []simulatedPoint
	var last *simulateResult
	var never error
	var lines [][]string // that each takes for granted
	for i := range steps {
		for _, column := range columns {
			value := ""
			if second.flag != "" {
				value = second.text(second.at(column))
				if err := f.Set(second.flag, value); err != nil {
					return nil, err
				}
			}
			r, p, err := o.point(ctx, f, &x, x.at(float64(i)/(steps-1)))
			if p == nil {
				return nil, err
			}
			p.Second = value
			all = append(all, *p)
			if r == nil {
				never, lines = err, append(lines, nil)
				continue
			}
			lines, last = append(lines, r.Assumed), r
		}
	}
	if last == nil {
		return nil, never
	}
	last.Varied, last.Second, last.Points, last.Assumed = x.flag, second.flag, all, assumedOf(x.flag, second.flag, all, lines)
	return last, nil
}

// A place is the values of the flags for which something holds.
type place struct{ first, second []string }

func (p *place) add(at *simulatedPoint) {
	if !slices.Contains(p.first, at.Value) {
		p.first = append(p.first, at.Value)
	}
	if !slices.Contains(p.second, at.Second) {
		p.second = append(p.second, at.Second)
	}
}

// assumedOf is what all points take for granted, and behind it each line that only some take for
// granted, with the values of the flags there.
func assumedOf(first, second string, points []simulatedPoint, lines [][]string) []string {
	var all place
	var order, everywhere, somewhere []string
	places := map[string]*place{}
	for i := range points {
		if len(points[i].Lives) == 0 {
			continue
		}
		all.add(&points[i])
		for _, line := range lines[i] {
			if places[line] == nil {
				places[line], order = &place{}, append(order, line)
			}
			places[line].add(&points[i])
		}
	}
	for _, line := range order {
		p, at := places[line], ""
		if len(p.first) < len(all.first) {
			at = fmt.Sprintf(" --%s %s", first, strings.Join(p.first, ", "))
		}
		if len(p.second) < len(all.second) {
			at += fmt.Sprintf(" --%s %s", second, strings.Join(p.second, ", "))
		}
		if at == "" {
			everywhere = append(everywhere, line)
		} else {
			somewhere = append(somewhere, at[1:]+": "+line)
		}
	}
	return append(everywhere, somewhere...)
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
		if p == nil {
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
		return nil, ui.BadUsage(fmt.Sprintf("--target %s: %s: the waste is %s with --%s %s, and %s with %s", o.target, reason, a.waste(), x.flag, a.Value, b.waste(), b.Value),
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
	for _, w := range r.ways {
		order = append(order, w.name())
		header = append(header, "|"+w.name())
	}
	var rows [][]string
	for i := range r.Points {
		p := &r.Points[i]
		row := []string{show(r.Varied, p.Value), noEnd, "", ""}
		if len(p.Lives) > 0 {
			best := &p.Lives[0]
			row = []string{row[0], best.name() + p.doubt(), ui.Seconds(best.IntervalS), ui.Seconds(best.MeanS)}
		}
		for _, name := range order {
			waste := noEnd
			if i := slices.IndexFunc(p.Lives, func(l simulatedLife) bool { return l.name() == name }); i >= 0 {
				waste = ui.Percent1(1 - p.work/p.Lives[i].MeanS)
			}
			row = append(row, waste)
		}
		rows = append(rows, row)
	}
	if err := g.Table(header, rows); err != nil || g.Quiet {
		return err
	}
	return r.printNotes(g, "below each way: its waste at its best interval")
}

// noEnd stands for the waste of a way that fails more often than it gets further.
const noEnd = "no end"

// printNotes ends a table of points.
func (r *simulateResult) printNotes(g *ui.Globals, about string) error {
	text := "\n" + about + "\n"
	if slices.ContainsFunc(r.Points, func(p simulatedPoint) bool { return p.doubt() != "" }) {
		text += "? another may be as fast, with 95 %\n"
	}
	for _, a := range r.Assumed {
		text += "assumed: " + a + "\n"
	}
	return g.Printf("%s", text)
}

// doubt marks a best way that another may equal.
func (p *simulatedPoint) doubt() string {
	if len(p.Lives) > 1 && p.Lives[1].LongerLow <= 0 {
		return " ?"
	}
	return ""
}

// printMap prints the best way and its waste for each pair of values.
func (r *simulateResult) printMap(g *ui.Globals) error {
	header := []string{"|" + r.Varied}
	var rows [][]string
	names := map[string]string{}
	for i := range r.Points {
		p := &r.Points[i]
		value := show(r.Varied, p.Value)
		if len(rows) == 0 || rows[len(rows)-1][0] != value {
			rows = append(rows, []string{value})
		}
		if len(rows) == 1 {
			header = append(header, "|"+r.Second+" "+show(r.Second, p.Second))
		}
		row := &rows[len(rows)-1]
		if len(p.Lives) == 0 {
			*row = append(*row, noEnd)
			continue
		}
		name := p.Lives[0].name()
		names[initials(name)] = name
		*row = append(*row, initials(name)+p.doubt()+" "+p.waste())
	}
	if err := g.Table(header, rows); err != nil || g.Quiet {
		return err
	}
	legend := "the best way at its best interval, and its waste:"
	for i, short := range slices.Sorted(maps.Keys(names)) {
		legend += map[bool]string{true: ",", false: ""}[i > 0] + " " + short + " " + names[short]
	}
	return r.printNotes(g, legend)
}

// initials are the first letters of the words of a name.
func initials(name string) (s string) {
	for word := range strings.FieldsSeq(name) {
		s += strings.ToUpper(word[:1])
	}
	return s
}
