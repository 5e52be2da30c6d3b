package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
	"ckpt/interval"
	"fmt"
	"image/color"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// levelsResult is what ckpt interval prints for several levels of storage.
type levelsResult struct {
	Levels   []interval.LevelRow `json:"storage_level_list"`
	App      float64             `json:"app_s"`
	MTBF     float64             `json:"mtbf_s"` // of the job
	Downtime float64             `json:"downtime_s"`
	Interval float64             `json:"interval_s"` // with this waste and total
	Waste    float64             `json:"waste"`
	Total    float64             `json:"total_s"`
	Patterns []patternRow        `json:"pattern_list"`
	Fit      *levelFit           `json:"level_fit,omitempty"`
	Flags    []string            `json:"launch_flags,omitempty"` // of the pattern, for a job like the fitted one
	Log      *failureLog         `json:"failure_log,omitempty"`
	Sim      *interval.Simulated `json:"simulation,omitempty"`

	failing   string
	hierarchy *interval.Hierarchy
	work      time.Duration
	pattern   interval.Pattern // with this waste and total
	taken     *patternRow
}

// patternRow is a pattern and what it costs.
type patternRow struct {
	interval.PatternRow

	pattern   interval.Pattern
	hierarchy *interval.Hierarchy
	other     bool // its failures are others
}

// resultOfLevels finds the best pattern, and others to compare it with.
func resultOfLevels(h *interval.Hierarchy, work time.Duration) (*levelsResult, error) {
	best, err := h.Optimum()
	if err != nil {
		return nil, err
	}
	r := &levelsResult{Levels: h.Rows(), App: work.Seconds(), MTBF: h.MTBF.Seconds(), Downtime: h.Downtime.Seconds(), hierarchy: h, work: work}
	if err := r.add("exact", h, best.Exact); err != nil {
		return nil, err
	}
	if best.FirstOrder.Interval > 0 {
		if err := r.add("first order", h, best.FirstOrder); err != nil {
			return nil, err
		}
	}
	r.take(0)
	return r, r.without()
}

// without adds what is left if the job does without a level, and the last level alone.
// Where nothing would make progress there is nothing to add.
func (r *levelsResult) without() error {
	h, last := r.hierarchy, len(r.hierarchy.Levels)-1
	others := make(map[string]interval.Hierarchy)
	var names []string
	for l := last - 1; l >= 0 && last > 1; l-- {
		names = append(names, "no "+h.Levels[l].Name)
		others[names[len(names)-1]] = h.Without(l)
	}
	if last > 0 {
		alone := *h
		for len(alone.Levels) > 1 {
			alone = alone.Without(0)
		}
		names = append(names, h.Levels[last].Name+" alone")
		others[names[len(names)-1]] = alone
	}
	for _, name := range names {
		other := others[name]
		p, err := other.Best(interval.Pattern{})
		if err == nil {
			err = r.add(name, &other, p)
		}
		if outOfRange(err) != nil {
			return err
		}
	}
	return nil
}

// given adds the pattern that was asked for, and takes it.
func (r *levelsResult) given(fixed interval.Pattern) error {
	p, err := r.hierarchy.Best(fixed)
	if err != nil {
		return err
	}
	if err := r.add("given", r.hierarchy, p); err != nil {
		return err
	}
	r.take(len(r.Patterns) - 1)
	return nil
}

// take makes a row the result.
func (r *levelsResult) take(i int) {
	row := r.Patterns[i]
	r.taken = &row
	r.Interval, r.Waste, r.Total, r.pattern = row.Interval, row.Waste, row.Total, row.pattern
}

// add adds a row.
func (r *levelsResult) add(rule string, h *interval.Hierarchy, p interval.Pattern) error {
	row, err := h.Row(r.work, p)
	if err != nil {
		return err
	}
	row.Rule = rule
	r.Patterns = append(r.Patterns, patternRow{PatternRow: row, pattern: p, hierarchy: h})
	return nil
}

func printLevels(g *ui.Globals, r *levelsResult) error {
	if !g.Quiet && r.Log != nil {
		g.Printf("%s\n", r.Log.text())
	}
	if !g.Quiet && r.Fit != nil {
		g.Printf("%s\n", r.Fit.about())
	}
	if !g.Quiet {
		g.Printf("%s", r.about())
	}
	header := []string{"pattern", "|interval"}
	for _, l := range r.Levels[1:] {
		header = append(header, "|to "+l.Name)
	}
	header = append(header, "|waste", "|first order", "|expected time")
	var rows [][]string
	for _, row := range r.Patterns {
		cells := []string{row.Rule, spanOf(row.Interval)}
		for _, l := range r.Levels[1:] {
			cells = append(cells, row.goesTo(l.Name))
		}
		first := "out of range"
		if row.FirstOrder != nil {
			first = ui.Percent(*row.FirstOrder)
		}
		rows = append(rows, append(cells, ui.Percent(row.Waste), first, spanOf(row.Total)))
	}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	if !g.Quiet {
		if err := g.Printf("\n%s", r.verdict()); err != nil {
			return err
		}
	}
	if err := printSimulated(g, r.Interval, r.Sim); err != nil || r.Log == nil {
		return err
	}
	return g.Printf("%s", r.Log.sparesText())
}

// goesTo says which checkpoints go to a level.
func (p *patternRow) goesTo(level string) string {
	for _, l := range p.Levels {
		if l.Name == level && l.Every == 1 {
			return "all"
		} else if l.Name == level {
			return fmt.Sprintf("1 of %d", l.Every)
		}
	}
	return "none"
}

// about tells what is compared.
func (r *levelsResult) about() string {
	text := ""
	for i, l := range r.Levels {
		cost := "costs " + spanOf(l.Cost)
		if i > 0 {
			cost = "adds " + spanOf(l.Cost)
		}
		if l.Drain > 0 {
			cost += ", drains in " + spanOf(l.Drain)
		}
		survives := "all failures"
		if l.Share < 1 {
			survives = ui.Percent(l.Share) + " of the failures"
		}
		text += fmt.Sprintf("%s: %s, restart %s, survives %s\n", l.Name, cost, spanOf(l.Restart), survives)
	}
	return text + fmt.Sprintf("MTBF %s, downtime %s; work %s\n\n", r.failing, spanOf(r.Downtime), spanOf(r.App))
}

// verdict tells how often each level gets a checkpoint, and which levels are worth it.
func (r *levelsResult) verdict() string {
	at, best := &r.Patterns[0], &r.Patterns[0]
	for i := range r.Patterns {
		if r.Patterns[i].Rule == "given" {
			at = &r.Patterns[i]
		} else if !r.Patterns[i].other && r.Patterns[i].Waste < best.Waste-1e-9 {
			best = &r.Patterns[i]
		}
	}
	text := at.Rule + ":"
	for i, l := range at.Levels {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s every %s", l.Name, spanOf(l.Period))
	}
	text += fmt.Sprintf("; it costs %s\n", ui.Percent(at.Waste))
	if best.Rule != r.Patterns[0].Rule {
		rest := "the other levels cost more than they save"
		if name, ok := strings.CutPrefix(best.Rule, "no "); ok {
			rest = "level " + name + " costs more than it saves"
		} else if len(r.Levels) == 2 {
			rest = "level " + r.Levels[0].Name + " costs more than it saves"
		}
		text += fmt.Sprintf("%s wastes less, %s: %s\n", best.Rule, ui.Percent(best.Waste), rest)
	}
	if len(r.Flags) > 0 {
		text += "as flags of ckpt launch: " + strings.Join(r.Flags, " ") + "\n"
	}
	return text
}

// launchFlags are flags of ckpt launch --local that follow a pattern over nodes and store.
func launchFlags(levels []interval.PatternLevel) []string {
	drain := "behind"
	if n := levels[len(levels)-1].Every; n > 1 {
		drain = fmt.Sprintf("every=%d", n)
	}
	every := durationOf(levels[0].Period)
	if every > time.Minute {
		every = every.Round(time.Second)
	}
	return []string{"--interval", every.String(), "--drain", drain}
}

// plotLevels draws the waste over the interval, of each pattern, and marks their best.
func plotLevels(path string, r *levelsResult) error {
	p, err := levelsPlot(r)
	if err != nil {
		return err
	}
	return savePlot(path, p)
}

func levelsPlot(r *levelsResult) (*plot.Plot, error) {
	p := &picture{Plot: figure.New(fmt.Sprintf("Waste by interval: %s, MTBF %s", ui.Count(len(r.Levels), "level"), spanOf(r.MTBF)))}
	p.X.Label.Text, p.Y.Label.Text = "interval", "waste [%]"
	low, high := r.Patterns[0].Interval/10, r.Patterns[0].Interval*10
	for _, row := range r.Patterns {
		low, high = min(low, row.Interval/3), max(high, row.Interval*3)
	}
	colors := []color.Color{figure.Blue, figure.Vermilion, figure.Green, figure.Purple, figure.Orange}
	for i := range r.Patterns {
		row, c := &r.Patterns[i], colors[i%len(colors)]
		expected, first := row.curves(low, high)
		if row.Rule == "first order" {
			p.line("", first, c, vg.Points(5), vg.Points(3))
		} else {
			p.line("", expected, c)
		}
		p.marks(row.name(), plotter.XYs{{X: row.Interval, Y: 100 * row.Waste}}, draw.GlyphStyle{Color: c, Radius: vg.Points(float64(6 - i)), Shape: draw.CircleGlyph{}})
	}
	return p.overIntervals(low, high)
}

// curves are the waste of a pattern over the interval, expected and to first order, as
// far as it has one.
func (p *patternRow) curves(low, high float64) (expected, first plotter.XYs) {
	for _, at := range intervals(low, high) {
		pattern := interval.Pattern{Interval: at, Every: p.pattern.Every}
		if waste, err := p.hierarchy.Waste(pattern); err == nil {
			expected = append(expected, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
		if waste, err := p.hierarchy.FirstOrderWaste(pattern); err == nil && waste <= 1 {
			first = append(first, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
	}
	return expected, first
}

// name tells a pattern in the key of the plot.
func (p *patternRow) name() string {
	text := p.Rule + ": " + spanOf(p.Interval)
	for i, l := range p.Levels {
		if i > 0 {
			text += fmt.Sprintf(", 1 of %d to %s", l.Every, l.Name)
		}
	}
	return text + fmt.Sprintf(", %.3g %%", 100*p.Waste)
}
