package benchmarks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/plan"
)

// A sweepPoint is one run of the write benchmark.
type sweepPoint struct {
	settings plan.Settings
	ranks    int
}

// A sweepAxis is a setting that a sweep can vary.
type sweepAxis struct {
	name    string
	values  string // that it takes if the user names none
	options string // what is right, for a hint
	set     func(*sweepPoint, string) error
	get     func(*sweepPoint) string
}

// Larrosa's parameters (section 2.4) are the values of the axes.
var sweepAxes = []sweepAxis{
	switchAxis("p1", func(s *plan.Settings) *bool { return &s.P1 }),
	switchAxis("p2", func(s *plan.Settings) *bool { return &s.P2 }),
	switchAxis("p3", func(s *plan.Settings) *bool { return &s.P3 }),
	switchAxis("p4", func(s *plan.Settings) *bool { return &s.P4 }),
	{"aggregators", "1:2:4:8:16", "a number, or auto", setAggregators, getAggregators},
	sizeAxis("buffer", "4MiB:10MiB:16MiB:25MiB:32MiB:40MiB:48MiB:100MiB", func(s *plan.Settings) *int64 { return &s.Buffer }),
	sizeAxis("stripes", "1MiB:4MiB:10MiB", func(s *plan.Settings) *int64 { return &s.StripeSize }),
	numberAxis("osts", "4:8:16:32:64", func(p *sweepPoint) *int { return &p.settings.StripeCount }),
	numberAxis("ranks", "4:8:16:32:64:128:256:512", func(p *sweepPoint) *int { return &p.ranks }),
	wordAxis("layout", "per-rank:aggregated:shared", func(s *plan.Settings) *string { return (*string)(&s.Layout) }),
	wordAxis("strategy", "two-phase:dynamic:static:individual", func(s *plan.Settings) *string { return (*string)(&s.Strategy) }),
}

const onOff = "on or off"

func switchAxis(name string, of func(*plan.Settings) *bool) sweepAxis {
	return sweepAxis{name: name, values: "off:on", options: onOff,
		set: func(p *sweepPoint, value string) error {
			if value != "on" && value != "off" {
				return errValue
			}
			*of(&p.settings) = value == "on"
			return nil
		},
		get: func(p *sweepPoint) string {
			if *of(&p.settings) {
				return "on"
			}
			return "off"
		},
	}
}

func sizeAxis(name, values string, of func(*plan.Settings) *int64) sweepAxis {
	return sweepAxis{name: name, values: values, options: "sizes, like 4MiB",
		set: func(p *sweepPoint, value string) (err error) {
			*of(&p.settings), err = ui.ParseSize(name, value)
			return err
		},
		get: func(p *sweepPoint) string { return ui.Size(*of(&p.settings)) },
	}
}

func numberAxis(name, values string, of func(*sweepPoint) *int) sweepAxis {
	return sweepAxis{name: name, values: values, options: "numbers from 1",
		set: func(p *sweepPoint, value string) error {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return errValue
			}
			*of(p) = n
			return nil
		},
		get: func(p *sweepPoint) string { return strconv.Itoa(*of(p)) },
	}
}

func wordAxis(name, values string, of func(*plan.Settings) *string) sweepAxis {
	words := strings.Split(values, ":")
	return sweepAxis{name: name, values: values, options: strings.Join(words, ", "),
		set: func(p *sweepPoint, value string) error {
			if !slices.Contains(words, value) {
				return errValue
			}
			*of(&p.settings) = value
			return nil
		},
		get: func(p *sweepPoint) string { return *of(&p.settings) },
	}
}

var errValue = errors.New("not a value of the setting")

func setAggregators(p *sweepPoint, value string) error {
	if value == "auto" {
		p.settings.Aggregators = plan.Auto
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return errValue
	}
	p.settings.Aggregators = n
	return nil
}

func getAggregators(p *sweepPoint) string {
	if p.settings.Aggregators == plan.Auto {
		return "auto"
	}
	return strconv.Itoa(p.settings.Aggregators)
}

// A sweepTerm is a setting that the user named, with its values.
type sweepTerm struct {
	*sweepAxis
	values []string
	chosen bool // by the user: a value that suits no plan is an error
}

// parseSweep reads terms like p1, buffer=4MiB:32MiB, ranks=64.
func parseSweep(text string) ([]sweepTerm, error) {
	var terms []sweepTerm
	for _, word := range strings.Split(text, ",") {
		name, values, chosen := strings.Cut(strings.TrimSpace(word), "=")
		i := slices.IndexFunc(sweepAxes, func(a sweepAxis) bool { return a.name == name })
		if i < 0 {
			return nil, unknownAxis(text, name)
		}
		if slices.ContainsFunc(terms, func(t sweepTerm) bool { return t.name == name }) {
			return nil, ui.BadUsage(fmt.Sprintf("--sweep %s: %s is there twice", text, name), "name each setting once")
		}
		t := sweepTerm{sweepAxis: &sweepAxes[i], chosen: chosen}
		if !chosen {
			values = t.sweepAxis.values
		}
		t.values = strings.Split(values, ":")
		for _, v := range t.values {
			if err := t.set(&sweepPoint{}, v); err != nil {
				return nil, ui.BadUsage(fmt.Sprintf("--sweep %s: %s=%s: want %s", text, name, v, t.options),
					fmt.Sprintf("write %s=%s", name, t.sweepAxis.values))
			}
		}
		terms = append(terms, t)
	}
	return terms, nil
}

func unknownAxis(text, name string) error {
	var names []string
	for _, a := range sweepAxes {
		names = append(names, a.name)
	}
	hint := "settings: " + strings.Join(names, ", ")
	if near := ui.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return ui.BadUsage(fmt.Sprintf("--sweep %s: no setting %q", text, name), hint)
}

// A sweepGroup has the runs that vary together: one setting, or all switches.
type sweepGroup struct {
	name   string
	terms  []sweepTerm
	points []sweepPoint
}

// chosen says whether the user chose the values.
func (g *sweepGroup) chosen() bool {
	return !slices.ContainsFunc(g.terms, func(t sweepTerm) bool { return !t.chosen })
}

// sweepGroups makes the runs. A term with one value holds for all runs. The switches are
// combined with each other; every other setting varies alone.
func sweepGroups(terms []sweepTerm, base sweepPoint) []sweepGroup {
	switches := sweepGroup{name: "switches"}
	var others []sweepGroup
	for _, t := range terms {
		switch {
		case len(t.values) == 1:
			must(t.set(&base, t.values[0]))
		case t.options == onOff:
			switches.terms = append(switches.terms, t)
		default:
			others = append(others, sweepGroup{name: t.name, terms: []sweepTerm{t}})
		}
	}
	groups := others
	if len(switches.terms) > 0 {
		groups = append([]sweepGroup{switches}, others...)
	}
	for i := range groups {
		groups[i].points = combine([]sweepPoint{base}, groups[i].terms)
	}
	if len(groups) == 0 {
		groups = []sweepGroup{{name: "run", points: []sweepPoint{base}}}
	}
	return groups
}

// combine returns each point with each combination of the values of the terms.
func combine(points []sweepPoint, terms []sweepTerm) []sweepPoint {
	for _, t := range terms {
		var all []sweepPoint
		for _, p := range points {
			for _, v := range t.values {
				q := p
				must(t.set(&q, v))
				all = append(all, q)
			}
		}
		points = all
	}
	return points
}

// must panics on errors of values that parseSweep has tried.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
