package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/nodes"
)

// flagLookup tells which flags were given, of all or of some names.
func flagLookup(f *pflag.FlagSet, names ...string) job.Lookup {
	return func(name string) (value string, given bool) {
		flag := f.Lookup(name)
		if flag == nil || len(names) > 0 && !slices.Contains(names, name) {
			return "", false
		}
		value = flag.Value.String()
		return value, flag.Changed && !(value == "false" && flag.DefValue == "false")
	}
}

// lookup tells which flags of a launch were given, and who runs its ranks.
func (o *launchOptions) lookup(ranks string) job.Lookup {
	flags := flagLookup(o.flags)
	return func(name string) (value string, given bool) {
		switch name {
		case "ranks":
			return ranks, true
		case "every-n":
			_, err := strconv.Atoi(o.every)
			return o.every, err == nil || o.every == epochWord
		case "async-several":
			return o.async.String(), o.async > 1
		case "drain-less":
			return o.drain, o.drain != nodes.DrainBehind
		case "objective-pause":
			return "", o.objective == "pause" && o.flags.Changed("objective")
		case "from-launcher":
			return "", o.fromLauncher && o.flags.Changed("nodes-from-launcher")
		}
		return flags(name)
	}
}

// ranksOf names who runs the ranks of a command.
func (o *launchOptions) ranksOf() string {
	if dataset.Engine(o.engine) == dataset.DMTCP {
		return "dmtcp"
	}
	return "program"
}

// A combinationTable is what ckpt help combinations prints.
type combinationTable struct {
	Settings []string          `json:"given_list"`
	Pairs    []combinationPair `json:"pair_list"`
	Rows     []combinationRow  `json:"reason_list"`
}

// A combinationPair is a cell of the table.
type combinationPair struct {
	A     string `json:"given"`
	B     string `json:"given_with"`
	Works bool   `json:"works"`
	Row   int    `json:"reason_number,omitempty"` // from 1, if the pair makes no sense
	// Because is the reason of the row.
	Because string `json:"because,omitempty"`
}

// A combinationRow is a reason for a refusal.
type combinationRow struct {
	Row      int      `json:"reason_number"`
	Settings []string `json:"given_list"`
	Because  string   `json:"because"`
	Remedy   string   `json:"remedy,omitempty"`
	Counted  bool     `json:"numbers_decide"`
}

// A combinationAxis is a setting with a value, as one line and one column of the table.
type combinationAxis struct {
	label    string
	settings map[string]string
}

// combinationAxes are the settings that the table holds against each other.
func combinationAxes() []combinationAxis {
	var axes []combinationAxis
	add := func(label string, pairs ...string) {
		settings := make(map[string]string)
		for _, p := range pairs {
			name, value, _ := strings.Cut(p, "=")
			settings[name] = value
		}
		axes = append(axes, combinationAxis{label, settings})
	}
	add("a simulated job", "ranks=simulated")
	add("a program that calls ckpt", "ranks=program")
	add("--engine dmtcp", "ranks=dmtcp")
	add("--mode semi", "mode=semi", "groups=several")
	add("--mode uncoordinated", "mode=uncoordinated", "groups=several")
	add("--log optimistic", "mode=uncoordinated", "groups=several", "log=optimistic")
	add("--layout aggregated", "layout=aggregated")
	add("--layout shared", "layout=shared")
	add("--level application", "level=application")
	add("--local DIR", "local=DIR")
	add("--local --protect partner", "local=DIR", "protect=partner")
	add("--local --drain none", "local=DIR", "drain=none", "drain-less=none")
	add("--codec zstd", "codec=zstd")
	add("--incremental=false", "incremental=false")
	add("--async", "async=true")
	add("--async=N", "async=N", "async-several=N")
	add("--storage-turns", "storage-turns=on")
	add("--keep N", "keep=N")
	add("--tune STORAGE", "tune=STORAGE")
	add("--every N", "every=N", "every-n=N")
	add("--interval T", "interval=T")
	add("--count N", "count=N")
	add("--fail rank=R@t=DUR", "fail=rank")
	add("restart --np N", "other-np=N")
	add("restart --map", "map=LIST", "other-map=yes")
	add("restart JOB@N", "checkpoint=N")
	return axes
}

// of tells what two axes give.
func (a *combinationAxis) of(b *combinationAxis) job.Lookup {
	usual := map[string]string{"mode": string(job.Coordinated), "layout": "per-rank", "level": string(job.System), "protect": "none"}
	return func(name string) (value string, given bool) {
		if value, given = a.settings[name]; !given {
			value, given = b.settings[name]
		}
		return cmp.Or(value, usual[name]), given
	}
}

// excludes reports whether both are values of the same setting.
func (a *combinationAxis) excludes(b *combinationAxis) bool {
	for name := range a.settings {
		if _, has := b.settings[name]; has && name != "groups" {
			return true
		}
	}
	return false
}

// newCombinationTable judges each pair of axes.
func newCombinationTable() combinationTable {
	rows, axes := job.Combinations(), combinationAxes()
	t := combinationTable{}
	for i := range rows {
		t.Rows = append(t.Rows, combinationRow{i + 1, rows[i].Labels(), rows[i].Because, rows[i].Remedy, rows[i].Counted})
	}
	for i := range axes {
		a := &axes[i]
		t.Settings = append(t.Settings, a.label)
		for k := range axes[:i] {
			b := &axes[k]
			if a.excludes(b) {
				continue
			}
			p := combinationPair{A: a.label, B: b.label, Works: true}
			for r := range rows {
				if !rows[r].Counted && rows[r].Holds(a.of(b)) {
					p.Works, p.Row, p.Because = false, r+1, rows[r].Because
					break
				}
			}
			t.Pairs = append(t.Pairs, p)
		}
	}
	return t
}

// ShowCombinations prints which settings go with which.
func ShowCombinations(g *ui.Globals) error {
	t := newCombinationTable()
	return g.Show(t, func() error { return printCombinations(g, &t) })
}

// Widths of what printCombinations prints.
const tableWidth, labelWidth = 80, 25

// printCombinations prints the table with settings as capitals and reasons as small letters, so
// that it fits 80 columns. Reasons of the table come first, as its cells name them.
func printCombinations(g *ui.Globals, t *combinationTable) error {
	capitals, small := "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
	letters := make(map[int]string) // of reasons, by row
	for _, p := range t.Pairs {
		if !p.Works && letters[p.Row] == "" {
			letters[p.Row] = small[len(letters):][:1]
		}
	}
	cells := make(map[[2]string]string)
	for _, p := range t.Pairs {
		cells[[2]string{p.A, p.B}] = cmp.Or(letters[p.Row], "·")
	}
	text, blank := strings.Repeat(" ", 2+labelWidth), strings.Repeat(" ", labelWidth)
	for i := range t.Settings[1:] {
		text += " " + capitals[i:i+1]
	}
	for i, s := range t.Settings {
		line := capitals[i:i+1] + " " + s + blank[len(s):]
		for _, other := range t.Settings[:i] {
			line += " " + cmp.Or(cells[[2]string{s, other}], " ")
		}
		text += "\n" + strings.TrimRight(line, " ")
	}
	text += "\n\n· works; blank: values of one setting. A small letter is the reason why the two\nmake no sense together:\n"
	slices.SortStableFunc(t.Rows, func(a, b combinationRow) int {
		return cmp.Compare(cmp.Or(letters[a.Row], "~"), cmp.Or(letters[b.Row], "~"))
	})
	for i, r := range t.Rows {
		if letters[r.Row] == "" && i > 0 && letters[t.Rows[i-1].Row] != "" {
			text += "\nReasons of other settings, of more than two, and of numbers:\n"
		}
		text += fmt.Sprintf("\n%-3s%s\n   %s\n", letters[r.Row], strings.Join(r.Settings, "; "), r.Because)
		if r.Remedy != "" {
			text += "   hint: " + r.Remedy + "\n"
		}
	}
	text += "\nGroups on nodes (--local) keep their message logs in the store; docs/TIERS.md says why.\n"
	return g.Printf("%s", ui.Folded(text, tableWidth))
}
