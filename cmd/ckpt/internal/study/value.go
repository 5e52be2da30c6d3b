package study

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
	"ckpt/internal/lazy"
	"ckpt/predict/fit"
	"ckpt/zones"
)

// valueOf stands in an argument for a value in the output of a step:
// {time:latency_s.total}; {modes:mode_options.mode=semi.restart_s|0} is of the element of a
// list whose mode is semi, and 0 if the step has no result.
var valueOf = lazy.Regexp(`\{([a-z][a-z0-9-]*):([a-zA-Z0-9_.=]+)(\|[^{}]*)?\}`)

// uses returns the steps whose results a step uses, needs those without which it
// cannot run.
func (s *Step) uses() []string { return s.named(func(string) bool { return true }) }

func (s *Step) needs() []string {
	return s.named(func(otherwise string) bool { return otherwise == "" })
}

func (s *Step) named(counts func(otherwise string) bool) []string {
	list := slices.Clone(s.After)
	for _, a := range s.Args {
		for _, m := range valueOf().FindAllStringSubmatch(a, -1) {
			if counts(m[3]) {
				list = append(list, m[1])
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// resolved returns the arguments of a step with all values.
func (s *Study) resolved(step *Step) ([]string, error) {
	var failed error
	args := make([]string, len(step.Args))
	for i, a := range step.Args {
		args[i] = valueOf().ReplaceAllStringFunc(a, func(of string) string {
			m := valueOf().FindStringSubmatch(of)
			text, err := s.value(m[1], m[2])
			if r := s.state.record(m[1]); m[3] != "" && r != nil && r.Failure != "" {
				return m[3][1:]
			}
			if err != nil && failed == nil {
				failed = err
			}
			return text
		})
	}
	return args, failed
}

// value looks up a field in the output of a step: for CSV a column of the first row.
func (s *Study) value(name, field string) (string, error) {
	i := slices.IndexFunc(s.Steps, func(step Step) bool { return step.Name == name })
	if i < 0 {
		return "", fmt.Errorf("the study has no step %s", name)
	}
	b, err := os.ReadFile(s.path(s.Steps[i].Output()))
	if err != nil {
		return "", err
	}
	if s.Steps[i].csv {
		rows, err := rowsOf(b)
		if err == nil && len(rows) == 0 {
			err = fmt.Errorf("%s has no row", name)
		}
		if err != nil {
			return "", err
		}
		return rows[0][field], nil
	}
	in := json.NewDecoder(bytes.NewReader(b))
	in.UseNumber()
	var at any
	if err := in.Decode(&at); err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(field, ".") {
		at = partOf(at, part)
	}
	if at == nil {
		return "", fmt.Errorf("the result of %s has no %s", name, field)
	}
	return fmt.Sprint(at), nil
}

// partOf returns a field of an object, or an element of a list: by its number, or by
// the value of a field of it, as in mode=semi. It returns nil if it is missing.
func partOf(of any, part string) any {
	switch v := of.(type) {
	case map[string]any:
		return v[part]
	case []any:
		key, want, _ := strings.Cut(part, "=")
		for i, x := range v {
			if part == strconv.Itoa(i) {
				return x
			}
			if o, ok := x.(map[string]any); ok && want != "" && fmt.Sprint(o[key]) == want {
				return x
			}
		}
	}
	return nil
}

// rowsOf reads CSV: a map from column to cell for each row.
func rowsOf(b []byte) (out []map[string]string, err error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.FieldsPerRecord = -1
	r.Comment = '#'
	all, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	for i, row := range all {
		if i == 0 || slices.Equal(row, all[0]) {
			continue
		}
		cells := map[string]string{}
		for k, cell := range row {
			if k < len(all[0]) {
				cells[all[0][k]] = cell
			}
		}
		out = append(out, cells)
	}
	return out, nil
}

// A stored is a checkpoint of a small run, as ckpt launch told it.
type stored struct {
	Type    string      `json:"type"`
	Number  int         `json:"number"`
	Ranks   int         `json:"ranks"`
	Zones   zones.Sizes `json:"zones"` // of the images of all ranks
	Memory  zones.Sizes `json:"memory"`
	Bytes   int64       `json:"stored_bytes"`
	Files   int         `json:"files"`
	Latency fit.Parts   `json:"latency_s"`
}

// checkpoints reads the checkpoints of a small run.
func (s *Study) checkpoints(run Run) (list []stored, err error) {
	b, err := os.ReadFile(s.path("run-" + strconv.Itoa(run.NP) + ".json"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var c stored
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, err
		}
		if c.Type == "checkpoint" {
			list = append(list, c)
		}
	}
	return list, nil
}

// text prints the summary.
func (r *Result) text(g *ui.Globals) error {
	for _, f := range r.facts() {
		g.Printf("%-16s  %s\n", f.Name, f.Value)
	}
	for _, l := range r.Left {
		if !g.Quiet {
			g.Printf("%-16s  %s: %s\n", "left out", l.What, l.Reason)
		}
	}
	return g.Printf("%-16s  %s\n", "page", r.Page)
}

// A fact is a short answer, with unit and interval.
type fact figure.Fact

// facts are the answers of the study.
func (r *Result) facts() []fact {
	var names []string
	for i := range r.Runs {
		names = append(names, r.Runs[i].Name)
	}
	facts := []fact{{"target", fmt.Sprintf("%s on %s, %s", r.App, ui.Count(r.NP, "rank"), ui.Count(r.Nodes, "node"))}, {"small runs", strings.Join(names, ", ")}}
	if f := r.failure; f != nil {
		facts = append(facts, fact{"failed", fmt.Sprintf("step %s: %v", f.Step.Name, f.Err)})
	}
	if len(r.Checks)+len(r.Scores) > 0 {
		facts = append(facts, fact{"check", r.checked()})
	}
	facts = append(facts, r.sizeFacts()...)
	if len(r.Replays) > 0 {
		p := r.Replays[0]
		facts = append(facts, fact{"replay", fmt.Sprintf("%s of %s in %s, measured, without an interval", size(p.Bytes), size(p.Wanted), ui.Seconds(p.Seconds))})
	}
	if c := r.Count; c != nil {
		facts = append(facts, fact{"number", r.counted()})
	}
	if i := r.Interval; i != nil {
		facts = append(facts, fact{"interval", fmt.Sprintf("%s is best for an MTBF of %s: %s of the time is wasted", span(i.Interval), span(i.MTBF), ui.Percent(i.Waste))})
	}
	if o := r.Best; o != nil {
		text := fmt.Sprintf("%d × %d ranks, %s, codec %s: %s, 95 %% %s", o.Nodes, o.PPN, o.MPI, o.Codec, ui.Seconds(o.CheckpointS), seconds(o.LowS, o.HighS))
		if o.Extrapolation > 1.05 {
			text += fmt.Sprintf(", extrapolated ×%.2g", o.Extrapolation)
		}
		facts = append(facts, fact{"best plan", text + r.otherNodes()})
	}
	return facts
}

// otherNodes compares the best plan with that on another number of nodes.
func (r *Result) otherNodes() string {
	o := r.faster
	switch {
	case o == nil:
		return ""
	case o.HighS < r.Best.LowS:
		return fmt.Sprintf("; faster on %s, %s", ui.Count(o.Nodes, "node"), ui.Seconds(o.CheckpointS))
	}
	return fmt.Sprintf("; the mapping does not matter: %s on %s", ui.Seconds(o.CheckpointS), ui.Count(o.Nodes, "node"))
}

// sizeFacts are size and latency of a checkpoint.
func (r *Result) sizeFacts() (facts []fact) {
	for _, k := range r.Kinds {
		what := "first checkpoint"
		if !k.Full {
			what = "next ones"
		}
		text := fmt.Sprintf("%s in %s, 95 %% %s", size(k.Stored), ui.Count(k.Files, "file"), sizes(k.Low, k.High))
		if k.Latency != nil {
			text += fmt.Sprintf("; %s, 95 %% %s", ui.Seconds(k.Latency.Total), seconds(*k.LowS, *k.HighS))
		}
		facts = append(facts, fact{what, text})
	}
	if s := r.Size; s != nil && len(r.Kinds) > 0 {
		facts = append(facts, fact{"whole images", size(s.TotalMiB.Bytes()) + " in " + r.filesText() + ", 95 % " + sizes(s.LowMiB.Bytes(), s.HighMiB.Bytes()) + ", as the thesis stores them"})
	} else if s != nil {
		facts = append(facts, fact{"checkpoint", size(s.TotalMiB.Bytes()) + " in " + r.filesText() + ", 95 % " + sizes(s.LowMiB.Bytes(), s.HighMiB.Bytes())})
	}
	if t := r.Time; t != nil {
		facts = append(facts, fact{"latency", ui.Seconds(t.Latency.Total) + ", 95 % " + seconds(t.LowS, t.HighS)})
	}
	return facts
}

// checked sums the checks up.
func (r *Result) checked() string {
	worst, inside := 0.0, 0
	for _, c := range r.Checks {
		worst = max(worst, math.Abs(c.Error))
		if c.Inside {
			inside++
		}
	}
	var parts []string
	if len(r.Checks) > 0 {
		parts = append(parts, fmt.Sprintf("image of a rank off by at most %s, %d of %d inside the 95 %% interval", ui.Percent(worst), inside, len(r.Checks)))
	}
	worst, inside = 0, 0
	for _, x := range r.Scores {
		worst = max(worst, math.Abs(x.Error))
		if x.Inside {
			inside++
		}
	}
	switch {
	case len(r.Scores) > 0 && parts == nil:
		parts = append(parts, fmt.Sprintf("stored bytes off by at most %s, %d of %d inside the 95 %% interval", ui.Percent(worst), inside, len(r.Scores)))
	case len(r.Scores) > 0:
		parts = append(parts, fmt.Sprintf("stored bytes %s, %d of %d", ui.Percent(worst), inside, len(r.Scores)))
	}
	return "each run predicted from the others: " + strings.Join(parts, "; ")
}

func (r *Result) filesText() string { return ui.Count(r.fileCount(), "file") }

// counted tells the number of checkpoints, and its range for the interval of the latency.
func (r *Result) counted() string {
	c := r.Count
	if c.Count == 0 {
		return fmt.Sprintf("no checkpoint is affordable for %s", ui.Percent(c.Overhead))
	}
	return fmt.Sprintf("%s, 95 %% %s, one every %s: %s of the run, of the accepted %s", ui.Count(c.Count, "checkpoint"), c.Between(), span(c.Interval), ui.Percent(c.Spent), ui.Percent(c.Overhead))
}

// signed formats a relative error.
func signed(share float64) string {
	if text := fmt.Sprintf("%+.2f %%", 100*share); text != "-0.00 %" {
		return text
	}
	return "+0.00 %"
}

// size formats bytes for reading, sizes and seconds a range.
func size(n int64) string { return ui.Bytes(float64(n)) }

func sizes(low, high int64) string { return ui.Between(float64(low), float64(high), ui.Bytes) }

func seconds(low, high float64) string { return ui.Between(low, high, ui.Seconds) }

// span formats a time for reading: 24h, 19m40s.
func span(seconds float64) string {
	text := ui.Span(time.Duration(seconds * 1e9))
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}
