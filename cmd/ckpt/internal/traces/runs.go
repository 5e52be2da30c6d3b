package traces

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
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
	form     *runQuantity
}

// A runSet is what ckpt trace analyze prints of several runs.
type runSet struct {
	Runs       []recordedRun  `json:"recorded_runs"` // those that moved the most bytes first
	Statistics []runStatistic `json:"run_statistics"`
	LeftOut    []string       `json:"not_traces"` // files that are no traces
	Unread     []unreadTrace  `json:"unread_traces"`
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

// An unreadTrace is one that is damaged or cannot be opened. The others make the set.
type unreadTrace struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
	err    error
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
	add := func(run []read.Recording) error { return o.add(g, set, run, opt) }
	var t *iotrace.Trace
	var err error
	if slices.Equal(names, args) {
		t, err = o.named(g, set, args, add)
	} else if err = o.ofSeveral(); err == nil {
		err = o.below(g, set, names, add)
	}
	switch {
	case err != nil || t != nil:
		return nil, t, err
	case len(set.Runs) > 0:
		return set.finish(), nil, nil
	case len(set.Unread) > 0:
		return nil, nil, set.failure(o.lenient)
	}
	return nil, nil, ui.AsNotFound(ui.WithHint(fmt.Errorf("%s has no trace", strings.Join(args, ", ")),
		"give a directory of logs, or the logs themselves"))
}

// ofSeveral refuses flags that ask about one run.
func (o *traceAnalyzeOptions) ofSeveral() error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"--file", o.file != ""}, {"--insights", o.insights}} {
		if f.given {
			return ui.BadUsage(f.name+" of several runs", "name the recordings of one run")
		}
	}
	return nil
}

// named reads files that the user named. They are a set unless they are of one run, whose
// trace it returns. A damaged one may be missing in a set, but not in a run.
func (o *traceAnalyzeOptions) named(g *ui.Globals, set *runSet, args []string, add func([]read.Recording) error) (*iotrace.Trace, error) {
	all, err := o.recordings(g, args)
	var damage *damagedTrace
	if errors.As(err, &damage) && len(args) > 2 {
		if o.each(g, set, args, func(some []read.Recording) error { all = append(all, some...); return nil }) != nil || len(set.LeftOut) > 0 {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	runs := read.Runs(all, true)
	if len(runs) == 1 {
		if err != nil {
			return nil, err
		}
		return o.job(runs[0])
	}
	if err := o.ofSeveral(); err != nil {
		return nil, err
	}
	for _, run := range runs {
		if err := add(run); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// below reads the traces of directories, and keeps only those whose run may have others.
func (o *traceAnalyzeOptions) below(g *ui.Globals, set *runSet, names []string, add func([]read.Recording) error) error {
	var parts []read.Recording
	err := o.each(g, set, names, func(some []read.Recording) error {
		if read.Partial(some[0].Trace) {
			parts = append(parts, some...)
			return nil
		}
		return add(some)
	})
	if err != nil {
		return err
	}
	for _, run := range read.Runs(parts, false) {
		if err := add(run); err != nil {
			return err
		}
	}
	return nil
}

// each reads traces, the texts of one strace -ff together. One that cannot be read costs the
// others nothing: the set keeps its name.
func (o *traceAnalyzeOptions) each(g *ui.Globals, set *runSet, names []string, take func([]read.Recording) error) error {
	for _, unit := range read.Together(names) {
		some, err := o.recordings(g, unit)
		switch {
		case errors.Is(err, iotrace.ErrWrongFormat):
			set.LeftOut = append(set.LeftOut, unit...)
		case err != nil:
			set.unread(unit[0], err)
		default:
			if err := take(some); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *runSet) unread(name string, err error) {
	s.Unread = append(s.Unread, unreadTrace{name, ui.OneLine(err.Error()), err})
}

// failure returns the error of a set that lacks traces: damage, if any is damaged.
func (s *runSet) failure(lenient bool) error {
	if len(s.Unread) == 0 {
		return nil
	}
	first := s.Unread[0]
	i := slices.IndexFunc(s.Unread, func(u unreadTrace) bool { return errors.As(u.err, new(*damagedTrace)) })
	if i >= 0 {
		first = s.Unread[i]
	}
	err := fmt.Errorf("%s not read: %w", ui.Plural(len(s.Unread), "trace was", "traces were"), first.err)
	if i < 0 {
		return err
	}
	return &damagedTrace{err, true, lenient}
}

// filesIn lists the traces in a directory and below it. Another name is itself.
func (s *runSet) filesIn(g *ui.Globals, name string) ([]string, error) {
	if fi, err := os.Stat(name); err != nil || !fi.IsDir() || isJob(g, name) {
		return []string{name}, nil
	}
	var names []string
	err := filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == name:
			return err
		case err != nil:
			s.unread(path, err)
			return nil
		case d.IsDir():
			return nil
		}
		// Opening a pipe would wait for its writer.
		if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
			s.LeftOut = append(s.LeftOut, path)
			return nil //nolint:nilerr // a link to nothing is no trace
		}
		switch ok, err := read.IsTrace(path); {
		case err != nil:
			s.unread(path, err)
		case ok:
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
	x := recordedRun{Job: r.Job, BatchJob: batchJob(t), Runtime: r.Runtime, Processes: r.Ranks, BytesRead: r.BytesRead,
		BytesWritten: r.BytesWritten, Busy: r.Busy, Codes: []string{}}
	if !t.Origin.IsZero() {
		x.Began = t.Origin.UTC().Format(time.RFC3339)
	}
	if r.Busy > 0 && x.moved() > 0 && r.Untimed == 0 {
		rate := x.moved() / r.Busy
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
	slices.SortStableFunc(s.Runs, func(a, b recordedRun) int {
		return cmp.Or(cmp.Compare(b.moved(), a.moved()), cmp.Compare(b.Busy, a.Busy))
	})
	s.LeftOut, s.Unread = append([]string{}, s.LeftOut...), append([]unreadTrace{}, s.Unread...)
	for i := range runQuantities {
		q := &runQuantities[i]
		var list []float64
		total := 0.0
		for i := range s.Runs {
			if x := q.of(&s.Runs[i]); !math.IsNaN(x) {
				list, total = append(list, x), total+x
			}
		}
		if len(list) > 0 {
			s.Statistics = append(s.Statistics, runStatistic{q.field, len(list), slices.Min(list), interval.Median(list), slices.Max(list), total, q})
		}
	}
	return s
}

// A runQuantity is a number of each run, NaN where a run does not know it.
type runQuantity struct {
	field, name string // in JSON, and for people
	of          func(*recordedRun) float64
	text        func(float64) string
	adds        bool // its sum means something
}

var runQuantities = []runQuantity{
	{"processes", "processes", func(r *recordedRun) float64 { return float64(r.Processes) }, quantity, true},
	{"runtime_s", "time", func(r *recordedRun) float64 { return known(r.Runtime > 0, r.Runtime) }, threeDigits, true},
	{"bytes_read", "read", func(r *recordedRun) float64 { return float64(r.BytesRead) }, briefly, true},
	{"bytes_written", "written", func(r *recordedRun) float64 { return float64(r.BytesWritten) }, briefly, true},
	{"busy_s", "I/O", func(r *recordedRun) float64 { return known(r.Rate != nil, r.Busy) }, threeDigits, true},
	{"busy_bytes_per_s", "bytes/s", func(r *recordedRun) float64 { return r.moved() / known(r.Rate != nil, r.Busy) }, briefly, false},
}

func known(is bool, x float64) float64 {
	if is {
		return x
	}
	return math.NaN()
}

// moved is the number of bytes read and written.
func (r *recordedRun) moved() float64 { return float64(r.BytesRead) + float64(r.BytesWritten) }

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
		total := ""
		if x.form.adds {
			total = x.form.text(x.Total)
		}
		name := x.form.name
		if x.Runs < len(s.Runs) {
			name += fmt.Sprintf(" of %d", x.Runs)
		}
		rows = append(rows, []string{name, x.form.text(x.Least), x.form.text(x.Median.Value),
			x.form.text(x.Median.Low) + " to " + x.form.text(x.Median.High), x.form.text(x.Most), total})
	}
	g.Printf("\n")
	g.Table([]string{"per run", "|least", "|median", "|its 95 %", "|most", "|all runs"}, rows)
	g.Printf("%s", wrapped("", "The interval of the median is a 95 % one; of fewer than six runs it is all of them. Bytes/s are bytes by the time of I/O, in which any process reads or writes."))
	s.showFindings(g)
	if n := len(s.LeftOut); n > 0 {
		g.Printf("%s", wrapped("left out  ", fmt.Sprintf("%s no trace, like %s", ui.Plural(n, "file is", "files are"), zones.Printable(s.LeftOut[0]))))
	}
	for i := range s.Unread[:min(len(s.Unread), most)] {
		g.Printf("%s", wrapped("not read  ", zones.Printable(s.Unread[i].Reason)))
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

func briefly(bytes float64) string { return brief(int64(min(bytes, 1<<62))) }

// threeDigits is rough in a table. From 1000 s on it has all seconds.
func threeDigits(s float64) string {
	d, unit := time.Duration(s*float64(time.Second)), time.Duration(1)
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit).String()
}
