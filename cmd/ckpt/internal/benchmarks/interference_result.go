package benchmarks

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/iosched"
	"ckpt/internal/figure"
	"ckpt/predict/fit"
)

// interference is the comparison as JSON. Times are in seconds.
type interference struct {
	Dir      string                 `json:"dir,omitempty"`
	Jobs     []string               `json:"competing_jobs"`
	Rounds   int                    `json:"repetitions"`
	Policies []string               `json:"policy_names"`
	Storages []*interferenceStorage `json:"contention_list"`
}

// An interferenceStorage is what was measured on one storage.
type interferenceStorage struct {
	Name  string             `json:"name"`
	Disk  string             `json:"slow_disk,omitempty"` // that it was throttled to
	Alone []float64          `json:"alone_times_s"`       // flow time of each job alone
	File  float64            `json:"file_alone_s,omitempty"`
	List  []interferenceLine `json:"policy_list"`

	stored int64
	runs   []*interferenceRun
}

// An interferenceLine is one policy: medians of the rounds, and ratios to the same round
// without turns.
type interferenceLine struct {
	Policy string `json:"policy"`
	// The jobs at the same time.
	Total     float64   `json:"jobs_total_s,omitempty"`
	Flow      float64   `json:"mean_flow_s,omitempty"`
	Stretches []float64 `json:"stretch_times,omitempty"` // of each job
	// The first job beside the reader.
	MixedTotal    float64 `json:"reader_total_s,omitempty"`
	MixedFlow     float64 `json:"beside_reader_s,omitempty"` // flow time of the job
	ReaderStretch float64 `json:"reader_stretch,omitempty"`
	// The first job alone.
	Alone float64 `json:"alone_flow_s"`

	TotalRatio      *spread `json:"jobs_total_spread,omitempty"`
	FlowRatio       *spread `json:"mean_flow_spread,omitempty"`
	MixedTotalRatio *spread `json:"reader_total_spread,omitempty"`
	ReaderRatio     *spread `json:"reader_stretch_spread,omitempty"`
	AloneRatio      *spread `json:"alone_flow_spread,omitempty"`
	Keeps           *bool   `json:"promises_kept,omitempty"` // all promises; nil without turns
}

// A spread is a median of rounds, with the quarters, the least and the most.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"lower_quartile"`
	High   float64 `json:"upper_quartile"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(v []float64) *spread {
	if len(v) == 0 {
		return nil
	}
	v = slices.Sorted(slices.Values(v))
	at := func(share float64) float64 {
		x := share * float64(len(v)-1)
		i := int(x)
		if i+1 == len(v) {
			return v[i]
		}
		return v[i] + (x-float64(i))*(v[i+1]-v[i])
	}
	return &spread{at(0.5), at(0.25), at(0.75), v[0], v[len(v)-1]}
}

// A measure is what turns promise something about: a limit of its ratio to the same without
// turns.
type measure struct {
	promise string
	limit   float64
	header  string
	bar     string                         // in the picture, if it is there
	of      func(*interferenceRun) float64 // 0: not measured
	value   func(*interferenceLine) *float64
	ratio   func(*interferenceLine) **spread
}

// measures has what docs/TURNS.md promises.
var measures = []measure{
	{"total time of the jobs", 1.05, "jobs: total", "total time",
		func(r *interferenceRun) float64 { return r.jobs.total },
		func(l *interferenceLine) *float64 { return &l.Total },
		func(l *interferenceLine) **spread { return &l.TotalRatio }},
	{"mean flow time of the jobs", 0.8, "mean flow", "mean flow time",
		func(r *interferenceRun) float64 { return fit.Mean(r.jobs.flows) },
		func(l *interferenceLine) *float64 { return &l.Flow },
		func(l *interferenceLine) **spread { return &l.FlowRatio }},
	{"total time of job and reader", 1.05, "reader: total", "total time with the reader",
		func(r *interferenceRun) float64 { return r.mixed.total },
		func(l *interferenceLine) *float64 { return &l.MixedTotal },
		func(l *interferenceLine) **spread { return &l.MixedTotalRatio }},
	{"stretch of the reader", 0.5, "stretch", "stretch of the reader",
		func(r *interferenceRun) float64 { return fit.Mean(r.files) },
		func(l *interferenceLine) *float64 { return &l.ReaderStretch },
		func(l *interferenceLine) **spread { return &l.ReaderRatio }},
	{"flow time of a job alone", 1.02, "alone", "",
		func(r *interferenceRun) float64 { return r.alone[0] },
		func(l *interferenceLine) *float64 { return &l.Alone },
		func(l *interferenceLine) **spread { return &l.AloneRatio }},
}

// broken lists the measures whose median is above the limit.
func (l *interferenceLine) broken() (list []string) {
	for _, m := range measures {
		if s := *m.ratio(l); s != nil && s.Median > m.limit {
			list = append(list, fmt.Sprintf("%s is %.2f", m.promise, s.Median))
		}
	}
	return list
}

// summarise makes the lines of the policies from the runs.
func (s *interferenceStorage) summarise(policies []string) {
	byRound := make(map[int]*interferenceRun) // without turns
	first := s.of(none)
	for _, r := range first {
		byRound[r.round] = r
	}
	for i := range first[0].alone {
		s.Alone = append(s.Alone, medianRuns(first, func(r *interferenceRun) float64 { return r.alone[i] }))
	}
	var files []float64
	for _, r := range s.runs {
		files = append(files, r.filesAlone...)
	}
	s.File = medianOf(files)
	for _, p := range policies {
		s.List = append(s.List, s.line(p, byRound))
	}
}

// of returns the runs of a policy.
func (s *interferenceStorage) of(policy string) (list []*interferenceRun) {
	for _, r := range s.runs {
		if r.policy == policy {
			list = append(list, r)
		}
	}
	return list
}

func medianRuns(runs []*interferenceRun, of func(*interferenceRun) float64) float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, of(r))
	}
	return medianOf(v)
}

func (s *interferenceStorage) line(policy string, byRound map[int]*interferenceRun) interferenceLine {
	runs := s.of(policy)
	l := interferenceLine{Policy: policy}
	for _, m := range measures {
		*m.value(&l) = medianRuns(runs, m.of)
		var ratios []float64
		for _, r := range runs {
			// No file was read beside a checkpoint that was over at once.
			if base, x := m.of(byRound[r.round]), m.of(r); base > 0 && x > 0 {
				ratios = append(ratios, x/base)
			}
		}
		*m.ratio(&l) = spreadOf(ratios)
	}
	for i := range runs[0].jobs.flows {
		stretch := func(r *interferenceRun) float64 { return r.jobs.flows[i] / byRound[r.round].alone[i] }
		l.Stretches = append(l.Stretches, medianRuns(runs, stretch))
	}
	if s.File > 0 {
		l.ReaderStretch /= s.File
		l.MixedFlow = medianRuns(runs, func(r *interferenceRun) float64 { return r.mixed.flows[0] })
	}
	if policy != none {
		keeps := len(l.broken()) == 0
		l.Keeps = &keeps
	}
	return l
}

func (b *interference) print(g *ui.Globals) error {
	if err := g.Printf("%s in %s, %s\n", strings.Join(b.Jobs, " and "), b.Dir, ui.Count(b.Rounds, "round")); err != nil {
		return err
	}
	for _, s := range b.Storages {
		if err := s.print(g); err != nil {
			return err
		}
	}
	// The promises are about the slow storage, if there is one.
	s := b.Storages[len(b.Storages)-1]
	var limits []string
	for _, m := range measures {
		if *m.ratio(&s.List[0]) != nil {
			limits = append(limits, fmt.Sprintf(" %s ≤ %.2f", m.promise, m.limit))
		}
	}
	g.Printf("\n%s: to hold are%s of none\n", s.Name, strings.Join(limits, ","))
	for _, l := range s.List[1:] {
		text, mark := "all hold", ""
		if broken := l.broken(); len(broken) > 0 {
			text = strings.Join(broken, ", ")
		}
		if l.Policy == iosched.DefaultPolicy {
			mark = " (default)"
		}
		if err := g.Printf("  %s%s: %s\n", l.Policy, mark, text); err != nil {
			return err
		}
	}
	return nil
}

// title names the storage.
func (s *interferenceStorage) title() string {
	if s.Disk != "" {
		return s.Name + " to " + s.Disk
	}
	return s.Name
}

func (s *interferenceStorage) print(g *ui.Globals) error {
	var alone []string
	for _, t := range s.Alone {
		alone = append(alone, ui.Seconds(t))
	}
	title := s.title() + ": a checkpoint alone takes " + strings.Join(alone, " and ")
	if s.File > 0 {
		title += ", a file of the reader " + ui.Seconds(s.File)
	}
	g.Printf("\n%s\n\n", title)
	var rows [][]string
	var header []string
	for i := range s.List {
		var row []string
		header, row = s.List[i].row()
		rows = append(rows, row)
	}
	return g.Table(header, rows)
}

// row shows what was measured of a policy, with how far most ratios are from the median.
func (l *interferenceLine) row() (header, row []string) {
	add := func(name, text string) { header, row = append(header, name), append(row, text) }
	add("policy", l.Policy)
	for i, m := range measures {
		v, s := *m.value(l), *m.ratio(l)
		if v == 0 {
			continue
		}
		if m.header == "stretch" {
			add("|stretch", fmt.Sprintf("%.1f", v))
		} else {
			add("|"+m.header, ui.Seconds(v))
		}
		ratio := ""
		if l.Policy != none && s != nil {
			ratio = fmt.Sprintf("%.2f ± %.2f", s.Median, (s.High-s.Low)/2)
		}
		add("|ratio", ratio)
		switch i {
		case 1:
			var all []string
			for _, x := range l.Stretches {
				all = append(all, fmt.Sprintf("%.2f", x))
			}
			add("|stretches", strings.Join(all, " "))
		case 3:
			add("|job", ui.Seconds(l.MixedFlow))
		}
	}
	return header, row
}

// panels has a row for each storage: what the policies make of the jobs, and of the
// reader.
func (b *interference) panels() ([][]*figure.Picture, error) {
	var rows [][]*figure.Picture
	for _, s := range b.Storages {
		var row []*figure.Picture
		for _, pair := range [][]measure{measures[:2], measures[2:4]} {
			if *pair[0].ratio(&s.List[0]) == nil {
				continue
			}
			p, err := s.panel(pair)
			if err != nil {
				return nil, err
			}
			p.Title.Text = s.title()
			row = append(row, p)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// panel draws the ratios of each policy side by side, with the range of the middle half of
// the rounds.
func (s *interferenceStorage) panel(pair []measure) (*figure.Picture, error) {
	var names []string
	for _, l := range s.List[1:] {
		names = append(names, l.Policy)
	}
	var list []series
	key := figure.Key{}
	for i, m := range pair {
		bars := series{name: m.bar, color: figure.Categories[i]}
		for k := range s.List[1:] {
			r := *m.ratio(&s.List[k+1])
			if r == nil { // too little was measured for a ratio: no bar
				r = &spread{}
			}
			bars.values = append(bars.values, r.Median)
			bars.ranges = append(bars.ranges, struct{ Low, High float64 }{r.Low - r.Median, r.High - r.Median})
		}
		list = append(list, bars)
		key = append(key, figure.Entry{Name: bars.name, Color: bars.color})
	}
	p, err := barPanel(names, list, min(vg.Points(14), 3*vg.Centimeter/vg.Length(len(names))), 0.32)
	if err != nil {
		return nil, err
	}
	one, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: 1}, {X: p.X.Max, Y: 1}})
	if err != nil {
		return nil, err
	}
	one.Color, one.Width, one.Dashes = figure.Ink, vg.Points(0.7), []vg.Length{vg.Points(3), vg.Points(2)}
	p.Add(one)
	p.Y.Label.Text = "of that without turns"
	figure.Include(&p.Y, 0, max(1, p.Y.Max))
	figure.AddKey(p, key)
	return p, nil
}
