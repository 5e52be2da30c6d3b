package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
	"ckpt/interval"
	"fmt"
	"image/color"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// levelsResult is what ckpt interval prints for several levels of storage.
type levelsResult struct {
	*interval.LevelComparison
	Fit   *interval.LevelFit  `json:"level_fit,omitempty"`
	Flags []string            `json:"launch_flags,omitempty"` // of the pattern, for a job like the fitted one
	Log   *failureLog         `json:"failure_log,omitempty"`
	Sim   *interval.Simulated `json:"simulation,omitempty"`

	failing string
}

func printLevels(g *ui.Globals, r *levelsResult) error {
	if !g.Quiet && r.Log != nil {
		g.Printf("%s\n", r.Log.text())
	}
	if !g.Quiet && r.Fit != nil {
		g.Printf("%s\n", aboutFit(r.Fit))
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
			cells = append(cells, goesTo(&row, l.Name))
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
func goesTo(p *interval.PatternRow, level string) string {
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
	at, best := r.Taken(), r.Least()
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
	every := interval.Lasting(levels[0].Period)
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
	return figure.Save(path, p)
}

func levelsPlot(r *levelsResult) (*figure.Picture, error) {
	p := newPicture(fmt.Sprintf("Waste by interval: %s, MTBF %s", ui.Count(len(r.Levels), "level"), spanOf(r.MTBF)))
	p.X.Label.Text, p.Y.Label.Text = "interval", "waste [%]"
	low, high := r.Patterns[0].Interval/10, r.Patterns[0].Interval*10
	for _, row := range r.Patterns {
		low, high = min(low, row.Interval/3), max(high, row.Interval*3)
	}
	colors := []color.Color{figure.Blue, figure.Vermilion, figure.Green, figure.Purple, figure.Orange}
	for i := range r.Patterns {
		row, c := &r.Patterns[i], colors[i%len(colors)]
		expected, first := curves(row, low, high)
		if row.Rule == "first order" {
			p.Line("", first, c, vg.Points(5), vg.Points(3))
		} else {
			p.Line("", expected, c)
		}
		p.Marks(patternName(row), plotter.XYs{{X: row.Interval, Y: 100 * row.Waste}}, draw.GlyphStyle{Color: c, Radius: vg.Points(float64(6 - i)), Shape: draw.CircleGlyph{}})
	}
	return p.overIntervals(low, high)
}

// curves are the waste of a pattern over the interval, expected and to first order, as
// far as it has one.
func curves(p *interval.PatternRow, low, high float64) (expected, first plotter.XYs) {
	for _, at := range intervals(low, high) {
		pattern := interval.Pattern{Interval: at, Every: p.Pattern.Every}
		if waste, err := p.Hierarchy.Waste(pattern); err == nil {
			expected = append(expected, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
		if waste, err := p.Hierarchy.FirstOrderWaste(pattern); err == nil && waste <= 1 {
			first = append(first, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
	}
	return expected, first
}

// patternName tells a pattern in the key of the plot.
func patternName(p *interval.PatternRow) string {
	text := p.Rule + ": " + spanOf(p.Interval)
	for i, l := range p.Levels {
		if i > 0 {
			text += fmt.Sprintf(", 1 of %d to %s", l.Every, l.Name)
		}
	}
	return text + fmt.Sprintf(", %.3g %%", 100*p.Waste)
}
