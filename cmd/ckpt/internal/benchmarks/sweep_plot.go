package benchmarks

import (
	"image/color"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/internal/figure"
)

// panels has one for each group: the switches above, two others to a row.
func (s *sweep) panels() ([][]*plot.Plot, error) {
	colors, key := s.bottlenecks()
	var rows [][]*plot.Plot
	for i := range s.groups {
		p, err := s.panel(i, colors)
		if err != nil {
			return nil, err
		}
		last := len(rows) - 1
		switch {
		case s.groups[i].name == "switches" || len(s.groups) == 1:
			rows = append(rows, []*plot.Plot{p})
		case last >= 0 && len(rows[last]) == 2 && rows[last][1] == nil:
			rows[last][1] = p
		default:
			rows = append(rows, []*plot.Plot{p, nil})
		}
	}
	top := rows[0][0]
	top.Title.Text = "Write rate on " + s.system.Name
	figure.AddKey(top, key)
	if beside := rows[0][len(rows[0])-1]; beside != nil && beside != top { // axes of a row in line
		beside.Title.Text = " "
		figure.AddKey(beside, figure.Key{{Name: " ", Color: color.Transparent}})
	}
	return rows, nil
}

// bottlenecks gives each bottleneck of any run its colour.
func (s *sweep) bottlenecks() (map[string]color.NRGBA, figure.Key) {
	var names []string
	for _, found := range s.found {
		for _, x := range found {
			if !slices.Contains(names, x.Bottleneck) {
				names = append(names, x.Bottleneck)
			}
		}
	}
	slices.Sort(names)
	colors := make(map[string]color.NRGBA)
	key := figure.Key{}
	for i, name := range names {
		colors[name] = figure.Categories[i%len(figure.Categories)]
		key = append(key, figure.Entry{Name: name, Color: colors[name]})
	}
	return colors, key
}

// panel draws a bar for each run of a group, in the colour of its bottleneck.
func (s *sweep) panel(i int, colors map[string]color.NRGBA) (*plot.Plot, error) {
	group, found := &s.groups[i], s.found[i]
	p := figure.New("")
	p.X.Label.Text, p.Y.Label.Text = group.name, "MB/s"
	names := labels(group, found)
	if group.name == "switches" {
		p.X.Label.Text = "switches"
		for _, t := range group.terms {
			p.X.Label.Text += " " + t.header()
		}
	} else if unit := sameUnit(names); unit != "" {
		p.X.Label.Text += " [" + unit + "]"
	}
	values := make(map[string]plotter.Values)
	most := 0.0
	for k, x := range found {
		rates := values[x.Bottleneck]
		if rates == nil {
			rates = make(plotter.Values, len(found))
			values[x.Bottleneck] = rates
		}
		rates[k] = x.Rate / 1e6
		most = max(most, rates[k])
	}
	width := barWidth(len(found), group.name == "switches")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		bars, err := plotter.NewBarChart(values[name], width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = colors[name], 0
		p.Add(bars)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(found))-0.4
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.Y, 0, most)
	return p, nil
}

// labels names the runs of a group below their bars. Switches are 1 for on, as Larrosa
// writes them.
func labels(g *sweepGroup, found []sweepRun) []string {
	names := make([]string, len(found))
	for i := range found {
		for _, t := range g.terms {
			word := t.get(&found[i].sweepPoint)
			if t.options == onOff {
				word = map[string]string{"on": "1", "off": "0"}[word]
			}
			names[i] += word
		}
	}
	return names
}

// sameUnit takes the unit from the names if all have the same.
func sameUnit(names []string) string {
	_, unit, _ := strings.Cut(names[0], " ")
	for _, n := range names {
		if _, u, _ := strings.Cut(n, " "); u != unit {
			return ""
		}
	}
	for i := range names {
		names[i], _, _ = strings.Cut(names[i], " ")
	}
	return unit
}

func barWidth(bars int, whole bool) vg.Length {
	space := 9 * vg.Centimeter
	if whole {
		space = 19 * vg.Centimeter
	}
	return min(space/vg.Length(bars)*0.7, vg.Centimeter)
}
