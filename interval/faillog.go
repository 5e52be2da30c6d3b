package interval

import (
	"bufio"
	"ckpt/internal/lazy"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Failure is a record of a failure log. Times are seconds after an origin that all records
// share.
type Failure struct {
	Node  string // "" if the log names none
	Start float64
	End   float64 // NaN if the log does not say when the node was repaired
	Kind  string
}

// A FailureLog is what a file tells of the failures of one machine.
type FailureLog struct {
	Failures []Failure // oldest first
	// From and To are the times between which the log was kept: those of the first and the
	// last failure, unless it says more.
	From, To float64
	Nodes    int // of the machine; 0 if the log does not say
	Form     string
	Skipped  int // records without a start
}

// A LogError says which line of a failure log cannot be read.
type LogError struct {
	File           string
	Line           int // 0 for the whole file
	Reason, Remedy string
	Systems        []string // one of them has to be named
}

func (e *LogError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Hint returns the remedy.
func (e *LogError) Hint() string { return e.Remedy }

const formsOfLogs = "a log is a CSV table with the columns node, start, end and kind, the failure data of LANL, a log of SCR, or a list of times, one a line"

// maxRecords bounds a log.
const maxRecords = 10_000_000

// ReadFailures reads a failure log: a CSV table with a header, of which the start is needed;
// the failure data of LANL; the log of SCR, whose events NODE_FAIL count; or a list of times.
// Of several systems in one file it reads the one that is named.
func ReadFailures(name, system string, r io.Reader) (*FailureLog, error) {
	lines, err := linesOf(name, r)
	if err != nil {
		return nil, err
	}
	l := &logReader{name: name, system: system, log: FailureLog{From: math.NaN(), To: math.NaN()}}
	switch {
	case len(lines) == 0:
		return nil, l.bad(0, "the file is empty", formsOfLogs)
	case scrLine().MatchString(lines[0].text):
		err = l.scr(lines)
	default:
		if header, ok := l.header(lines); ok {
			err = l.table(lines[header:])
		} else {
			err = l.times(lines)
		}
	}
	if err != nil {
		return nil, err
	}
	return l.finish()
}

// A logLine is a line with its number.
type logLine struct {
	number int
	text   string
}

// linesOf reads the lines that are not empty and no comments.
func linesOf(name string, r io.Reader) (lines []logLine, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		text := strings.TrimSpace(strings.TrimPrefix(s.Text(), "\ufeff"))
		if text != "" && !strings.HasPrefix(text, "#") {
			lines = append(lines, logLine{n, text})
		}
		if len(lines) > maxRecords {
			return nil, &LogError{File: name, Line: n, Reason: "the log has over ten million lines", Remedy: "cut it to the machine and the years that matter"}
		}
	}
	if err := s.Err(); err != nil {
		return nil, &LogError{File: name, Reason: err.Error(), Remedy: formsOfLogs}
	}
	return lines, nil
}

type logReader struct {
	name, system string
	log          FailureLog
	systems      []string
	columns      map[string]int
	units        map[string]float64 // that the names of columns say, in seconds
	comma        rune
}

func (l *logReader) bad(line int, reason, remedy string) error {
	return &LogError{File: l.name, Line: line, Reason: reason, Remedy: remedy}
}

// aliases are the names of the columns, the better ones first. Names are compared without case,
// units and signs.
var aliases = map[string][]string{
	"start":  {"start", "starttime", "failurestart", "eventstart", "probstarted", "begin", "time", "timestamp", "date", "failed"},
	"end":    {"end", "endtime", "failureend", "eventend", "probfixed", "fixed", "repaired", "stop"},
	"node":   {"node", "nodenumz", "nodenum", "nodeid", "nodename", "host", "hostname", "server", "machine"},
	"kind":   {"kind", "type", "cause", "reason", "category", "failuretype", "event"},
	"system": {"system", "cluster"},
	"nodes":  {"nodes", "numbernodes", "machinenodes"},
	"down":   {"downtime"},
}

// causes are columns of the failure data of LANL: the one that is filled in is the kind.
var causes = []string{"facilities", "hardware", "humanerror", "network", "undetermined", "software"}

var (
	inBrackets = lazy.Regexp(`\(.*?\)`)
	noName     = lazy.Regexp(`[^a-z0-9]`)
	scrLine    = lazy.Regexp(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d): .*\bevent=([^,]+)`)
	scrNote    = lazy.Regexp(`\bnote="([^"]*)"`)
	scrNodes   = lazy.Regexp(`\bnodes=(\d+)`)
)

// header finds the line with the names of the columns: the first one, or the second under a
// title.
func (l *logReader) header(lines []logLine) (at int, ok bool) {
	for at = 0; at < min(2, len(lines)); at++ {
		for _, l.comma = range ",;\t" {
			if l.names(lines[at].text); l.has("start") {
				return at, true
			}
		}
	}
	return 0, false
}

// names reads the names of columns.
func (l *logReader) names(text string) {
	l.columns, l.units = map[string]int{}, map[string]float64{}
	raw, units := map[string]int{}, map[string]float64{}
	for i, name := range strings.Split(text, string(l.comma)) {
		plain := noName().ReplaceAllString(inBrackets().ReplaceAllString(strings.ToLower(name), ""), "")
		for suffix, unit := range map[string]float64{"_s": 1, "_min": 60, "_h": 3600, "_d": 86400} {
			if base, ok := strings.CutSuffix(strings.ToLower(strings.TrimSpace(name)), suffix); ok {
				plain = noName().ReplaceAllString(base, "")
				units[plain] = unit
			}
		}
		if _, seen := raw[plain]; !seen {
			raw[plain] = i
		}
	}
	for name, list := range aliases {
		for _, alias := range list {
			if i, ok := raw[alias]; ok {
				if l.columns[name] = i; units[alias] > 0 {
					l.units[name] = units[alias]
				}
				break
			}
		}
	}
	for _, cause := range causes {
		if i, ok := raw[cause]; ok {
			l.columns[cause] = i
		}
	}
}

// unit returns the seconds of one unit of a column. LANL's downtime is in minutes.
func (l *logReader) unit(name string) float64 {
	switch given := l.units[name]; {
	case given > 0:
		return given
	case name == "down":
		return 60
	}
	return 1
}

func (l *logReader) has(name string) bool { _, ok := l.columns[name]; return ok }

// table reads the records below a header.
func (l *logReader) table(lines []logLine) error {
	if l.log.Form = "CSV table"; l.has("hardware") && l.has("software") {
		l.log.Form = "failure data of LANL"
	}
	for _, line := range lines[1:] {
		r := csv.NewReader(strings.NewReader(line.text))
		r.Comma, r.LazyQuotes, r.TrimLeadingSpace = l.comma, true, true
		cells, err := r.Read()
		if err != nil {
			return l.bad(line.number, err.Error(), formsOfLogs)
		}
		if err := l.record(line.number, cells); err != nil {
			return err
		}
	}
	return nil
}

// record reads a line of a table.
func (l *logReader) record(line int, cells []string) error {
	cell := func(name string) string {
		if i, ok := l.columns[name]; ok && i < len(cells) {
			return strings.TrimSpace(cells[i])
		}
		return ""
	}
	if s := cell("system"); s != "" {
		if !slices.Contains(l.systems, s) {
			l.systems = append(l.systems, s)
		}
		if l.system != "" && s != l.system {
			return nil
		}
	}
	f := Failure{Node: cell("node"), End: math.NaN(), Kind: cell("kind")}
	for _, cause := range causes {
		if f.Kind == "" && cell(cause) != "" {
			f.Kind = cause
		}
	}
	if n, err := strconv.Atoi(cell("nodes")); err == nil {
		l.log.Nodes = max(l.log.Nodes, n)
	}
	if cell("start") == "" {
		l.log.Skipped++
		return nil
	}
	var err error
	if f.Start, err = timeOf(cell("start"), l.unit("start")); err != nil {
		return l.bad(line, err.Error(), timeForms)
	}
	if text := cell("end"); text != "" {
		if f.End, err = timeOf(text, l.unit("end")); err != nil {
			return l.bad(line, err.Error(), timeForms)
		}
	} else if down, err := strconv.ParseFloat(cell("down"), 64); err == nil {
		f.End = f.Start + l.unit("down")*down
	}
	if f.End < f.Start {
		return l.bad(line, fmt.Sprintf("the failure ends %g s before it starts", f.Start-f.End), "mend the record, or leave its end empty")
	}
	l.log.Failures = append(l.log.Failures, f)
	return nil
}

// scr reads a log of SCR. Its lines of any event tell for how long it was kept.
func (l *logReader) scr(lines []logLine) error {
	l.log.Form = "log of SCR"
	for _, line := range lines {
		m := scrLine().FindStringSubmatch(line.text)
		if m == nil {
			continue // a transfer
		}
		at, err := timeOf(m[1], 1)
		if err != nil {
			return l.bad(line.number, err.Error(), timeForms)
		}
		l.log.From, l.log.To = least(l.log.From, at), most(l.log.To, at)
		if n := scrNodes().FindStringSubmatch(line.text); n != nil {
			count, _ := strconv.Atoi(n[1])
			l.log.Nodes = max(l.log.Nodes, count)
		}
		if strings.ReplaceAll(strings.ToLower(m[2]), " ", "_") != "node_fail" {
			continue
		}
		f := Failure{Start: at, End: math.NaN(), Kind: "node_fail"}
		if note := scrNote().FindStringSubmatch(line.text); note != nil {
			f.Node, _, _ = strings.Cut(note[1], ":")
		}
		l.log.Failures = append(l.log.Failures, f)
	}
	return nil
}

// times reads a list of times.
func (l *logReader) times(lines []logLine) error {
	l.log.Form = "list of times"
	for _, line := range lines {
		at, err := timeOf(line.text, 1)
		if err != nil {
			return l.bad(line.number, err.Error(), formsOfLogs)
		}
		l.log.Failures = append(l.log.Failures, Failure{Start: at, End: math.NaN()})
	}
	return nil
}

// layouts are the forms of a time.
var layouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
	"1/2/2006 15:04:05", "1/2/2006 15:04", "1/2/06 15:04", "1/2/2006", "1/2/06"}

const timeForms = "write times as 2026-06-21 10:54, 6/21/2026 10:54 (month first) or seconds"

// timeOf reads a time as seconds, a plain number in a unit of so many.
func timeOf(text string, unit float64) (float64, error) {
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(s) || math.IsInf(s, 0) || math.Abs(s)*unit > 1e12 {
			return 0, fmt.Errorf("%q is no time", text)
		}
		return s * unit, nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return float64(t.UnixNano()) / 1e9, nil
		}
	}
	return 0, fmt.Errorf("%q is no time", text)
}

// finish sorts the failures and checks that they tell something.
func (l *logReader) finish() (*FailureLog, error) {
	if l.system == "" && len(l.systems) > 1 {
		e := &LogError{File: l.name, Reason: fmt.Sprintf("the log has failures of %d systems: %s", len(l.systems), strings.Join(l.systems, ", ")), Remedy: "name the one that counts"}
		e.Systems = l.systems
		return nil, e
	}
	if len(l.log.Failures) == 0 && l.system != "" {
		return nil, l.bad(0, fmt.Sprintf("the log has no failure of system %s", l.system), "it has "+cmp.Or(strings.Join(l.systems, ", "), "no column that names systems"))
	}
	if len(l.log.Failures) < leastFailures {
		return nil, l.bad(0, fmt.Sprintf("%d failures tell no rate", len(l.log.Failures)), fmt.Sprintf("give a log with %d or more", leastFailures))
	}
	slices.SortStableFunc(l.log.Failures, func(a, b Failure) int { return cmp.Compare(a.Start, b.Start) })
	first, last := l.log.Failures[0].Start, l.log.Failures[len(l.log.Failures)-1].Start
	l.log.From, l.log.To = least(l.log.From, first), most(l.log.To, last)
	return &l.log, nil
}

// leastFailures is how many failures a log must have.
const leastFailures = 3

// least and most leave out a bound that is not known.
func least(bound, at float64) float64 {
	if math.IsNaN(bound) {
		return at
	}
	return min(bound, at)
}

func most(bound, at float64) float64 {
	if math.IsNaN(bound) {
		return at
	}
	return max(bound, at)
}
