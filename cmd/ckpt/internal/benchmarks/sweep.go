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
	values  string // that it takes unless the user names some
	options string // what is right, for a hint
	set     func(*sweepPoint, string) error
	get     func(*sweepPoint) string
}

// Larrosa's parameters (section 2.4) are the values of the axes.
var sweepAxes = []sweepAxis{
	axis("p1", onOff, func(p *sweepPoint) *bool { return &p.settings.P1 }),
	axis("p2", onOff, func(p *sweepPoint) *bool { return &p.settings.P2 }),
	axis("p3", onOff, func(p *sweepPoint) *bool { return &p.settings.P3 }),
	axis("p4", onOff, func(p *sweepPoint) *bool { return &p.settings.P4 }),
	axis("aggregators", aggregators, func(p *sweepPoint) *int { return &p.settings.Aggregators }),
	axis("buffer", sizes("4MiB:10MiB:16MiB:25MiB:32MiB:40MiB:48MiB:100MiB"), func(p *sweepPoint) *int64 { return &p.settings.Buffer }),
	axis("stripes", sizes("1MiB:4MiB:10MiB"), func(p *sweepPoint) *int64 { return &p.settings.StripeSize }),
	axis("osts", numbers("4:8:16:32:64"), func(p *sweepPoint) *int { return &p.settings.StripeCount }),
	axis("ranks", numbers("4:8:16:32:64:128:256:512"), func(p *sweepPoint) *int { return &p.ranks }),
	axis("layout", words[plan.Layout]("per-rank:aggregated:shared"), func(p *sweepPoint) *plan.Layout { return &p.settings.Layout }),
	axis("strategy", words[plan.Strategy]("two-phase:dynamic:static:individual"), func(p *sweepPoint) *plan.Strategy { return &p.settings.Strategy }),
}

// A kind is a kind of values: the usual ones, and how to read and write one.
type kind[T any] struct {
	usual, options string
	read           func(name, value string) (T, error)
	text           func(T) string
}

func axis[T any](name string, k kind[T], of func(*sweepPoint) *T) sweepAxis {
	return sweepAxis{name: name, values: k.usual, options: k.options, get: func(p *sweepPoint) string { return k.text(*of(p)) },
		set: func(p *sweepPoint, value string) (err error) {
			*of(p), err = k.read(name, value)
			return err
		}}
}

var errValue = errors.New("not a value of the setting")

const switchOptions = "on or off"

var onOff = kind[bool]{"off:on", switchOptions,
	func(_, value string) (bool, error) {
		if value != "on" && value != "off" {
			return false, errValue
		}
		return value == "on", nil
	},
	func(on bool) string { return map[bool]string{true: "on", false: "off"}[on] },
}

func sizes(usual string) kind[int64] {
	return kind[int64]{usual, "sizes, like 4MiB", ui.ParseSize, ui.Size}
}

func numbers(usual string) kind[int] {
	return kind[int]{usual, "numbers from 1", func(_, value string) (int, error) {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return 0, errValue
		}
		return n, nil
	}, strconv.Itoa}
}

var aggregators = kind[int]{"1:2:4:8:16", "a number, or auto",
	func(name, value string) (int, error) {
		if value == "auto" {
			return plan.Auto, nil
		}
		return numbers("").read(name, value)
	},
	func(n int) string {
		if n == plan.Auto {
			return "auto"
		}
		return strconv.Itoa(n)
	},
}

func words[T ~string](usual string) kind[T] {
	all := strings.Split(usual, ":")
	return kind[T]{usual, strings.Join(all, ", "), func(_, value string) (T, error) {
		if !slices.Contains(all, value) {
			return "", errValue
		}
		return T(value), nil
	}, func(value T) string { return string(value) }}
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
	Setting string     `json:"setting"`
	Runs    []sweepRun `json:"run_list"`

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
	switches := sweepGroup{Setting: "switches"}
	var groups []sweepGroup
	for _, t := range terms {
		switch {
		case len(t.values) == 1:
			must(t.set(&base, t.values[0]))
		case t.options == switchOptions:
			switches.terms = append(switches.terms, t)
		default:
			groups = append(groups, sweepGroup{Setting: t.name, terms: []sweepTerm{t}})
		}
	}
	if len(switches.terms) > 0 {
		groups = slices.Insert(groups, 0, switches)
	}
	for i := range groups {
		groups[i].points = combine([]sweepPoint{base}, groups[i].terms)
	}
	if len(groups) == 0 {
		groups = []sweepGroup{{Setting: "run", points: []sweepPoint{base}}}
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
