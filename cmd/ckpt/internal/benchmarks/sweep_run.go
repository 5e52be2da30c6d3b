package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/internal/figure"
)

// A sweep is a series of runs of the write benchmark on one storage.
type sweep struct {
	On     string       `json:"on"`
	Source string       `json:"source,omitempty"`
	Bytes  int64        `json:"each_rank_bytes"`
	Seed   uint64       `json:"seed"`
	Groups []sweepGroup `json:"sweep_list"`

	system *pfs.System
	nodes  int       // 0: one rank on each
	ranks  int       // unless the sweep varies them
	text   string    // of --sweep
	in     *sweepDir // the directory that is measured, nil for a description
}

// A sweepRun is what became of a point.
type sweepRun struct {
	Ranks int `json:"ranks"`
	Nodes int `json:"nodes"`
	plan.Printed
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"simulated_s"` // 0 in a directory
	Rate       float64 `json:"bytes_per_s"`
	Bottleneck string  `json:"bottleneck"`
	LockWaits  int64   `json:"lock_waits"`
	Writers    int     `json:"max_writers_per_ost"`

	Measured *sweepMeasured `json:"measured,omitempty"` // in a directory

	point sweepPoint
}

// newSweep reads what the user asked for. The base is what Larrosa settled on (section
// 2.4), on no more OSTs than there are.
func newSweep(system *pfs.System, in *sweepDir, o *storageOptions) (*sweep, error) {
	s := &sweep{Seed: o.seed, system: system, nodes: o.nodes, ranks: o.ranks, text: o.sweep, in: in}
	if system != nil {
		s.On, s.Source = system.Name, system.Source
	} else {
		s.On = in.dir
	}
	size, err := ui.ParseSize("--bytes", o.bytes)
	if err != nil {
		return nil, err
	}
	if s.Bytes = size; size%plan.PageSize != 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--bytes %s: want a multiple of %d", o.bytes, plan.PageSize), "write --bytes 2GiB")
	}
	var terms []sweepTerm
	if o.sweep != "" {
		if terms, err = parseSweep(o.sweep); err != nil {
			return nil, err
		}
	}
	base := sweepPoint{settings: plan.Defaults(), ranks: o.ranks}
	base.settings.Layout = plan.Shared
	base.settings.Aggregators = plan.Auto
	base.settings.Buffer = 10 << 20
	if system != nil {
		base.settings.StripeCount = min(base.settings.StripeCount, system.Targets.Count)
	}
	s.Groups = sweepGroups(terms, base)
	for i := range s.Groups {
		if err := s.check(&s.Groups[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// check drops the usual values that suit no plan, and refuses those that the user chose.
func (s *sweep) check(g *sweepGroup) error {
	var sound []sweepPoint
	var last *plan.SettingError
	for _, p := range g.points {
		_, err := s.plan(p)
		if err == nil && s.in != nil {
			err = s.suits(p)
		}
		setting, unsuitable := errors.AsType[*plan.SettingError](err)
		switch {
		case err == nil:
			sound = append(sound, p)
			continue
		case !unsuitable:
			return err
		case g.chosen():
			return s.refuse(setting)
		}
		if last = setting; s.in != nil {
			s.in.left = append(s.in.left, setting.Setting+" "+setting.Value)
		}
	}
	if g.points = sound; len(sound) == 0 {
		return s.refuse(last)
	}
	return nil
}

// refuse makes an error of package plan one about the sweep.
func (s *sweep) refuse(e *plan.SettingError) error {
	name := e.Setting
	switch name {
	case "stripe-size":
		name = "stripes"
	case "stripe-count":
		name = "osts"
	}
	if s.text != "" {
		name = "--sweep " + s.text + ": " + name
	}
	return ui.BadUsage(fmt.Sprintf("%s of %s: %s", name, e.Value, e.Reason), e.Remedy)
}

// segment is what a rank has of a row of the array.
const segment = 128 << 10

// array returns the array of a point: two-dimensional, in blocks as square as the ranks
// allow. It is nil where ranks write for themselves.
func (s *sweep) array(p sweepPoint) *pfs.Array {
	if s.in != nil || p.settings.Layout != plan.Shared || p.settings.Strategy == plan.Individual || s.Bytes%segment != 0 {
		return nil
	}
	columns := 1
	for c := 2; c*c <= p.ranks; c++ {
		if p.ranks%c == 0 {
			columns = c
		}
	}
	return &pfs.Array{Columns: columns, Segment: segment}
}

// plan makes the plan of a point: each rank has as many bytes. An array fills the file.
func (s *sweep) plan(p sweepPoint) (*plan.Plan, error) {
	if s.system != nil && p.settings.StripeCount > s.system.Targets.Count {
		return nil, &plan.SettingError{Setting: "stripe-count", Value: fmt.Sprint(p.settings.StripeCount),
			Reason: fmt.Sprintf("%s has %d", s.system.Name, s.system.Targets.Count), Remedy: fmt.Sprintf("give at most %d", s.system.Targets.Count)}
	}
	p.settings.Unaligned = s.array(p) != nil
	nodes := s.nodesOf(p)
	sources := make([]plan.Source, p.ranks)
	for i := range sources {
		sources[i] = plan.Source{Rank: i, Node: i * nodes / p.ranks, Pieces: []plan.Piece{{Bytes: s.Bytes, Align: true}}}
	}
	return plan.New(sources, p.settings)
}

func (s *sweep) nodesOf(p sweepPoint) int {
	if s.nodes == 0 {
		return p.ranks
	}
	return min(s.nodes, p.ranks)
}

// bytesOf returns the bytes of all runs.
func (s *sweep) bytesOf() (n int64) {
	for i := range s.Groups {
		for _, p := range s.Groups[i].points {
			n += int64(p.ranks) * s.Bytes
		}
	}
	return n
}

// run carries out all runs, and tells how many bytes are written.
func (s *sweep) run(ctx context.Context, progress func(done int64)) error {
	before := int64(0)
	for i := range s.Groups {
		g := &s.Groups[i]
		for _, p := range g.points {
			all := float64(p.ranks) * float64(s.Bytes)
			r, err := s.one(ctx, p, func(done, of int64) {
				// A file may be longer than its data.
				progress(before + int64(float64(done)/float64(of)*all))
			})
			if err != nil {
				return err
			}
			g.Runs = append(g.Runs, r)
			before += int64(all)
		}
	}
	return nil
}

// one carries out one run. Larrosa's benchmark closes its file, and syncs nothing.
func (s *sweep) one(ctx context.Context, point sweepPoint, progress func(done, of int64)) (sweepRun, error) {
	if s.in != nil {
		return s.measure(ctx, point)
	}
	p, err := s.plan(point)
	if err != nil {
		return sweepRun{}, err
	}
	result, err := pfs.Run(ctx, s.system, []pfs.Job{{Plan: p, Array: s.array(point)}}, pfs.Options{Seed: s.Seed, Progress: progress})
	if err != nil {
		return sweepRun{}, err
	}
	found, r := &result.Jobs[0], s.row(point, p)
	r.Bytes, r.Seconds, r.Rate, r.Bottleneck, r.LockWaits = found.Bytes, found.Seconds, found.Rate, found.Bottleneck, found.LockWaits
	r.Writers = slices.Max(found.WritersPerTarget)
	return r, nil
}

// row begins what became of a point.
func (s *sweep) row(point sweepPoint, p *plan.Plan) sweepRun {
	printed := point.settings.Printed()
	printed.Aggregators = len(p.Writers)
	return sweepRun{point: point, Ranks: point.ranks, Nodes: s.nodesOf(point), Printed: printed}
}

// print prints a table for each group.
func (s *sweep) print(g *ui.Globals) error {
	first := &s.Groups[0].points[0]
	nodes := "one on each node"
	if s.nodes > 0 {
		nodes = "on " + ui.Count(s.nodes, "node")
	}
	title, measures := s.On, []string{"|s", "bottleneck", "|writers per OST", "|lock waits"}
	if s.in != nil {
		measures = []string{"from", "to", "|read MB/s"}
	} else if s.system.Title != "" {
		title += ": " + s.system.Title
	}
	g.Printf("%s\n%s, %s, %s each\n%s, buffer %s, %s over %s\n", title, ui.Count(s.ranks, "rank"), nodes, ui.Size(s.Bytes),
		first.settings.Layout, ui.Size(first.settings.Buffer), ui.Size(first.settings.StripeSize), ui.Count(first.settings.StripeCount, "OST"))
	for _, group := range s.Groups {
		g.Printf("\n")
		var header []string
		for _, t := range group.terms {
			header = append(header, "|"+t.header())
		}
		var rows [][]string
		for _, x := range group.Runs {
			var row []string
			for _, t := range group.terms {
				row = append(row, t.get(&x.point))
			}
			row = append(row, fmt.Sprintf("%.0f", x.Rate/1e6))
			if m := x.Measured; m != nil {
				rows = append(rows, append(row, fmt.Sprintf("%.0f", m.Low/1e6), fmt.Sprintf("%.0f", m.High/1e6), fmt.Sprintf("%.0f", m.ReadRate/1e6)))
				continue
			}
			rows = append(rows, append(row, fmt.Sprintf("%.2f", x.Seconds), x.Bottleneck, strconv.Itoa(x.Writers), strconv.FormatInt(x.LockWaits, 10)))
		}
		if err := g.Table(append(append(header, "|MB/s"), measures...), rows); err != nil {
			return err
		}
	}
	return s.in.notes(g)
}

// header is the name of a setting as the table has it.
func (a *sweepAxis) header() string {
	if a.name == "osts" {
		return "OSTs"
	}
	return strings.ToUpper(a.name[:1]) + a.name[1:]
}

// panels has one for each group: the switches above, two others to a row. Each run is a bar in
// the colour of its bottleneck.
func (s *sweep) panels() ([][]*figure.Picture, error) {
	bottlenecks := map[string]bool{}
	for _, g := range s.Groups {
		for _, x := range g.Runs {
			bottlenecks[x.Bottleneck] = true
		}
	}
	colors, key := map[string]color.NRGBA{}, figure.Key{}
	for i, name := range slices.Sorted(maps.Keys(bottlenecks)) {
		colors[name] = figure.Categories[i%len(figure.Categories)]
		key = append(key, figure.Entry{Name: name, Color: colors[name]})
	}
	var rows [][]*figure.Picture
	for i := range s.Groups {
		whole := s.Groups[i].Setting == "switches"
		p, err := s.Groups[i].panel(colors, whole)
		if err != nil {
			return nil, err
		}
		last := len(rows) - 1
		switch {
		case whole || len(s.Groups) == 1:
			rows = append(rows, []*figure.Picture{p})
		case last >= 0 && len(rows[last]) == 2 && rows[last][1] == nil:
			rows[last][1] = p
		default:
			rows = append(rows, []*figure.Picture{p, nil})
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

func (g *sweepGroup) panel(colors map[string]color.NRGBA, whole bool) (*figure.Picture, error) {
	names := g.labels()
	label, space := g.Setting, 9*vg.Centimeter
	if whole {
		space = 19 * vg.Centimeter
		for _, t := range g.terms {
			label += " " + t.header()
		}
	} else if unit := sameUnit(names); unit != "" {
		label += " [" + unit + "]"
	}
	var list []series
	for _, name := range slices.Sorted(maps.Keys(colors)) {
		bars := series{color: colors[name], values: make(plotter.Values, len(g.Runs))}
		some := false
		for k, x := range g.Runs {
			if x.Bottleneck == name {
				bars.values[k], some = x.Rate/1e6, true
			}
		}
		if some {
			list = append(list, bars)
		}
	}
	p, err := barPanel(names, list, min(space/vg.Length(len(names))*0.7, vg.Centimeter), 0)
	if err == nil {
		p.X.Label.Text, p.Y.Label.Text = label, "MB/s"
	}
	return p, err
}

// labels names the runs of a group below their bars. Switches are 1 for on, as Larrosa
// writes them.
func (g *sweepGroup) labels() []string {
	names := make([]string, len(g.Runs))
	for i := range g.Runs {
		for _, t := range g.terms {
			word := t.get(&g.Runs[i].point)
			if t.options == switchOptions {
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
