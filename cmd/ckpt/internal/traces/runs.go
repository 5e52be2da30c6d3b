package traces

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/interval"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/read"
	"ckpt/zones"
)

// A recordedRun is one run of a set.
type recordedRun struct {
	Job          string   `json:"job"`
	BatchJob     string   `json:"batch_job,omitempty"`
	Began        string   `json:"began,omitempty"` // RFC 3339
	Runtime      float64  `json:"runtime_s"`       // 0 if unknown
	Processes    int      `json:"processes"`
	BytesRead    int64    `json:"bytes_read"`
	BytesWritten int64    `json:"bytes_written"`
	Busy         float64  `json:"busy_s"`
	Rate         *float64 `json:"busy_bytes_per_s"` // null without bytes, or with unknown times
	Lacking      int      `json:"lacking_warnings"`
	Codes        []string `json:"finding_codes"`
	Recordings   []string `json:"recordings"`
}

// A runStatistic describes one quantity over the runs that know it.
type runStatistic struct {
	Quantity string             `json:"quantity"`
	Runs     int                `json:"known_runs"`
	Least    float64            `json:"least_value"`
	Median   interval.Estimated `json:"run_median"`
	Most     float64            `json:"most_value"`
	Total    float64            `json:"total_value"`
}

// A runSet is what ckpt trace analyze prints of several runs.
type runSet struct {
	Runs       []recordedRun  `json:"recorded_runs"` // those that moved the most bytes first
	Statistics []runStatistic `json:"run_statistics"`
	LeftOut    []string       `json:"not_traces"` // files that are no traces
}

// severalRuns refuses recordings of several runs where a command takes one.
func severalRuns(runs [][]read.Recording) error {
	words := make([]string, 0, 3)
	for i, run := range runs {
		if i == 2 && len(runs) > 3 {
			words = append(words, fmt.Sprintf("%d more", len(runs)-i))
			break
		}
		text := run[0].Name
		if t := run[0].Trace; !t.Origin.IsZero() {
			text += " of " + t.Origin.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		words = append(words, text)
	}
	return ui.BadUsage(fmt.Sprintf("the recordings are of %d runs: %s", len(runs), strings.Join(words, ", ")),
		"name the recordings of one run; ckpt trace analyze takes several, and shows their statistics")
}

// setOf reads several runs: those of directories, or files that are not of one run. Files
// of one run are no set: it returns their trace.
func (o *traceAnalyzeOptions) setOf(g *ui.Globals, args []string, opt analyze.Options) (*runSet, *iotrace.Trace, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	var names []string
	set := &runSet{}
	for _, name := range args {
		some, err := set.filesIn(g, name)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, some...)
	}
	if slices.Equal(names, args) {
		all, err := o.recordings(g, args)
		if err != nil {
			return nil, nil, err
		}
		runs := read.Runs(all, true)
		if len(runs) == 1 {
			t, err := o.job(runs[0])
			return nil, t, err
		}
		for _, run := range runs {
			if err := o.add(g, set, run, opt); err != nil {
				return nil, nil, err
			}
		}
		return set.finish(), nil, nil
	}
	if len(names) == 0 {
		return nil, nil, ui.AsNotFound(ui.WithHint(fmt.Errorf("%s has no trace", strings.Join(args, ", ")),
			"give a directory of logs, or the logs themselves"))
	}
	var parts []read.Recording // of runs that other files may belong to
	for _, unit := range read.Together(names) {
		some, err := o.recordings(g, unit)
		if err != nil {
			return nil, nil, err
		}
		if read.Partial(some[0].Trace) {
			parts = append(parts, some...)
		} else if err := o.add(g, set, some, opt); err != nil {
			return nil, nil, err
		}
	}
	for _, run := range read.Runs(parts, false) {
		if err := o.add(g, set, run, opt); err != nil {
			return nil, nil, err
		}
	}
	return set.finish(), nil, nil
}

// filesIn lists the traces in a directory and below it. Another name is itself.
func (s *runSet) filesIn(g *ui.Globals, name string) ([]string, error) {
	if fi, err := os.Stat(name); err != nil || !fi.IsDir() || isJob(g, name) {
		return []string{name}, nil
	}
	var names []string
	err := filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case read.IsTrace(path):
			names = append(names, path)
		default:
			s.LeftOut = append(s.LeftOut, path)
		}
		return nil
	})
	return names, err
}

// job merges the recordings of a run, and keeps the part that the flags ask for.
func (in *traceInput) job(run []read.Recording) (*iotrace.Trace, error) {
	t, err := merged(run)
	if err != nil {
		return nil, err
	}
	t, in.aside, err = in.apply(t)
	return t, err
}

// add analyses a run for the set.
func (o *traceAnalyzeOptions) add(g *ui.Globals, s *runSet, run []read.Recording, opt analyze.Options) error {
	t, err := o.job(run)
	if err != nil {
		return err
	}
	s.Runs = append(s.Runs, runOf(t, characterise(g, t, opt), run))
	return nil
}

func runOf(t *iotrace.Trace, r *analyze.Report, run []read.Recording) recordedRun {
	x := recordedRun{Job: r.Job, Runtime: r.Runtime, Processes: r.Ranks, BytesRead: r.BytesRead,
		BytesWritten: r.BytesWritten, Busy: r.Busy, Codes: []string{}}
	if i := slices.IndexFunc(t.Properties, func(p iotrace.Property) bool { return p.Name == "job" }); i >= 0 && t.Properties[i].Value != "0" {
		x.BatchJob = t.Properties[i].Value
	}
	if !t.Origin.IsZero() {
		x.Began = t.Origin.UTC().Format(time.RFC3339)
	}
	if bytes := float64(r.BytesRead) + float64(r.BytesWritten); r.Busy > 0 && bytes > 0 && r.Untimed == 0 {
		rate := bytes / r.Busy
		x.Rate = &rate
	}
	for _, w := range t.Warnings {
		if w.Lacking() {
			x.Lacking++
		}
	}
	for _, f := range r.Insights {
		if !slices.Contains(x.Codes, f.Code) {
			x.Codes = append(x.Codes, f.Code)
		}
	}
	for _, rec := range run {
		x.Recordings = append(x.Recordings, rec.Name)
	}
	return x
}

// finish orders the runs, and computes what describes all of them.
func (s *runSet) finish() *runSet {
	moved := func(r *recordedRun) float64 { return float64(r.BytesRead) + float64(r.BytesWritten) }
	slices.SortStableFunc(s.Runs, func(a, b recordedRun) int {
		return cmp.Or(cmp.Compare(moved(&b), moved(&a)), cmp.Compare(b.Busy, a.Busy))
	})
	s.LeftOut = append([]string{}, s.LeftOut...)
	for _, q := range []struct {
		name string
		of   func(*recordedRun) (float64, bool)
	}{
		{"processes", func(r *recordedRun) (float64, bool) { return float64(r.Processes), true }},
		{"runtime_s", func(r *recordedRun) (float64, bool) { return r.Runtime, r.Runtime > 0 }},
		{"bytes_read", func(r *recordedRun) (float64, bool) { return float64(r.BytesRead), true }},
		{"bytes_written", func(r *recordedRun) (float64, bool) { return float64(r.BytesWritten), true }},
		{"busy_s", func(r *recordedRun) (float64, bool) { return r.Busy, r.Rate != nil }},
		{"busy_bytes_per_s", func(r *recordedRun) (float64, bool) {
			if r.Rate == nil {
				return 0, false
			}
			return *r.Rate, true
		}},
	} {
		var list []float64
		total := 0.0
		for i := range s.Runs {
			if x, ok := q.of(&s.Runs[i]); ok {
				list, total = append(list, x), total+x
			}
		}
		if len(list) > 0 {
			s.Statistics = append(s.Statistics, runStatistic{q.name, len(list), slices.Min(list), interval.Median(list), slices.Max(list), total})
		}
	}
	return s
}

// showRuns prints a set, most of its runs at most.
func showRuns(g *ui.Globals, s *runSet, most int) error {
	if g.JSON {
		return g.PrintJSON(s)
	}
	header := []string{"run", "began", "|procs", "|time", "|read", "|written", "|I/O", "|each s"}
	var rows [][]string
	for i := range s.Runs {
		if i == most {
			break
		}
		rows = append(rows, s.Runs[i].row())
	}
	if most != len(s.Runs) {
		fitNames(header, rows, 0)
	}
	g.Table(header, rows)
	if n := len(s.Runs) - len(rows); n > 0 {
		g.Printf("and %s more; --files all shows them\n", ui.Count(n, "run"))
	}
	rows = nil
	for _, x := range s.Statistics {
		form := statisticForms[x.Quantity]
		total := ""
		if form.adds {
			total = form.text(x.Total)
		}
		name := form.name
		if x.Runs < len(s.Runs) {
			name += fmt.Sprintf(" of %d", x.Runs)
		}
		rows = append(rows, []string{name, form.text(x.Least), form.text(x.Median.Value),
			form.text(x.Median.Low) + " to " + form.text(x.Median.High), form.text(x.Most), total})
	}
	g.Printf("\n")
	g.Table([]string{"per run", "|least", "|median", "|its 95 %", "|most", "|all runs"}, rows)
	g.Printf("%s", wrapped("", "The interval of the median is a 95 % one; of fewer than six runs it is all of them. Bytes/s are bytes by the time of I/O, in which any process reads or writes."))
	s.showFindings(g)
	if n := len(s.LeftOut); n > 0 {
		g.Printf("%s", wrapped("left out  ", fmt.Sprintf("%s no trace, like %s", ui.Plural(n, "file is", "files are"), zones.Printable(s.LeftOut[0]))))
	}
	return nil
}

// showFindings counts the runs with each finding, and those whose recordings lack something.
func (s *runSet) showFindings(g *ui.Globals) {
	runs := make(map[string]int)
	lacking := 0
	for i := range s.Runs {
		for _, code := range s.Runs[i].Codes {
			runs[code]++
		}
		if s.Runs[i].Lacking > 0 {
			lacking++
		}
	}
	var words []string
	for code, n := range runs {
		words = append(words, fmt.Sprintf("%s in %d", code, n))
	}
	slices.Sort(words)
	if len(words) > 0 {
		g.Printf("%s", wrapped("findings  ", strings.Join(words, ", ")+" of "+ui.Count(len(s.Runs), "run")+"; the analysis of one run explains them"))
	}
	if lacking > 0 {
		g.Printf("%s", wrapped("warning   ", ui.Plural(lacking, "run lacks", "runs lack")+" a part of the I/O; the analysis of one run says which"))
	}
}

// row is a run in the table.
func (r *recordedRun) row() []string {
	name := path.Base(filepath.ToSlash(r.Recordings[0]))
	if n := len(r.Recordings); n > 1 {
		if program, _, _ := strings.Cut(r.Job, " "); program != "" {
			name = path.Base(program)
		}
		if r.BatchJob != "" {
			name = "job " + r.BatchJob
		}
		name = fmt.Sprintf("%d recordings of %s", n, name)
	}
	began, rate := "", "unknown"
	if t, err := time.Parse(time.RFC3339, r.Began); err == nil {
		began = t.Format("2006-01-02")
	}
	if r.Rate != nil {
		rate = brief(int64(min(*r.Rate, 1<<62)))
	}
	return []string{name, began, strconv.Itoa(r.Processes), threeDigits(r.Runtime), brief(r.BytesRead), brief(r.BytesWritten), threeDigits(r.Busy), rate}
}

// statisticForms say how a person reads a quantity, and whether its sum means something.
var statisticForms = map[string]struct {
	name string
	text func(float64) string
	adds bool
}{
	"processes":        {"processes", quantity, true},
	"runtime_s":        {"time", threeDigits, true},
	"bytes_read":       {"read", briefly, true},
	"bytes_written":    {"written", briefly, true},
	"busy_s":           {"I/O", threeDigits, true},
	"busy_bytes_per_s": {"bytes/s", briefly, false},
}

func briefly(bytes float64) string { return brief(int64(min(bytes, 1<<62))) }

// threeDigits is rough in a table. From 1000 s on it has all seconds.
func threeDigits(s float64) string {
	d, unit := time.Duration(s*float64(time.Second)), time.Duration(1)
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit).String()
}
