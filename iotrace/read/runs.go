package read

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"ckpt/internal/lazy"
	"ckpt/iotrace"
)

// A Recording is a trace with the name of the file that it was read from.
type Recording struct {
	Name  string
	Trace *iotrace.Trace
}

// Runs divides recordings into those of one run each, in the order of their first ones.
//
// A log of Darshan with several processes is a whole run. Logs of one process each, as
// Darshan writes them of programs without MPI, are processes of one run if they are of the
// same batch job, with less than a week between them; with together, also if they share
// some time. Each gets a number of its own: that of the process, if it is in the name of
// the log.
//
// With together, other recordings are of one run, unless more than an hour lies between
// them, and more than they last. Without, each is a run.
func Runs(all []Recording, together bool) [][]Recording {
	if len(all) == 1 {
		return [][]Recording{all}
	}
	run := make([]int, len(all)) // of each recording, the first of its run
	for i := range run {
		run[i] = i
	}
	join := func(i, k int) {
		from, to := max(run[i], run[k]), min(run[i], run[k])
		for n := range run {
			if run[n] == from {
				run[n] = to
			}
		}
	}
	facts := make([]recorded, len(all))
	for i, r := range all {
		facts[i] = recordedBy(r.Trace)
	}
	inOrder := make([]int, len(all))
	for i := range inOrder {
		inOrder[i] = i
	}
	slices.SortStableFunc(inOrder, func(i, k int) int { return facts[i].start.Compare(facts[k].start) })
	jobs := make(map[[2]string]int) // the recording before, of each job
	last := make(map[standing]int)  // the recording that ends last, of each standing
	for _, i := range inOrder {
		f := facts[i]
		if f.standing == wholeRun {
			continue
		}
		if before, ok := jobs[f.job]; ok && f.job != [2]string{} && f.start.Sub(facts[before].end) < sameJob {
			join(before, i)
		}
		jobs[f.job] = i
		k, ok := last[f.standing]
		if ok && together && f.follows(facts[k]) {
			join(k, i)
		}
		if !ok || f.end.After(facts[k].end) {
			last[f.standing] = i
		}
	}
	var runs [][]Recording
	at := make(map[int]int)
	for i, r := range all {
		n, ok := at[run[i]]
		if !ok {
			n = len(runs)
			at[run[i]], runs = n, append(runs, nil)
		}
		runs[n] = append(runs[n], r)
	}
	for _, r := range runs {
		number(r)
	}
	return runs
}

// sameJob bounds the silence in a batch job: its number comes back some day.
const sameJob = 7 * 24 * time.Hour

// Partial reports whether other recordings may be of the same run.
func Partial(t *iotrace.Trace) bool { return originOf(t).job != [2]string{} }

// A standing of a recording decides what makes several of them one run.
type standing int

const (
	anyRecording standing = iota
	oneProcess            // a log of Darshan with one process
	wholeRun              // a log of Darshan with several
)

// An origin says what recorded a trace, and of which job.
type origin struct {
	standing
	job [2]string // user and number of the batch job of oneProcess, or of ckpt
}

func originOf(t *iotrace.Trace) (r origin) {
	switch {
	case t.Source == "ckpt":
		r.job[0], r.job[1] = t.Source, t.Job
	case t.Source != "darshan":
	case t.Property("processes") != "1":
		r.standing = wholeRun
	default:
		r.standing = oneProcess
		if n := t.Property("job"); n != "0" {
			r.job = [2]string{t.Property("user"), n}
		}
	}
	return r
}

// recorded are the facts of a recording that tell its run.
type recorded struct {
	origin
	start, end time.Time // zero if the recording has no date
}

func recordedBy(t *iotrace.Trace) recorded {
	last := int64(t.Runtime)
	for i := range t.Events {
		last = max(last, t.Events[i].End)
	}
	return recorded{originOf(t), t.Origin, t.Origin.Add(time.Duration(last))}
}

// follows reports whether a recording belongs to what was recorded before.
func (r recorded) follows(before recorded) bool {
	if r.start.IsZero() || before.start.IsZero() {
		return true
	}
	gap := r.start.Sub(before.end)
	if r.standing == oneProcess {
		return gap <= 0
	}
	return gap <= max(time.Hour, r.end.Sub(r.start), before.end.Sub(before.start))
}

// ofProcess finds the number of a process in the name of its log, as in
// user_program_id3116902-2110365_12-19-66957-188958432683465822_1.darshan.
var ofProcess = lazy.Regexp(`_id\d+-(\d{1,9})_`)

// number gives the processes of a run numbers of their own, if each log calls its own 0.
func number(run []Recording) {
	taken := make(map[int]bool)
	next := 0
	for _, r := range run {
		t := r.Trace
		if len(run) == 1 || originOf(t).standing != oneProcess || len(t.Ranks) != 1 {
			continue
		}
		n := 0
		if found := ofProcess().FindStringSubmatch(filepath.Base(r.Name)); found != nil {
			n, _ = strconv.Atoi(found[1])
		}
		if n == 0 || taken[n] {
			for taken[next] {
				next++
			}
			n = next
		}
		taken[n] = true
		t.Ranks[0].Rank = n
		for k := range t.Counters { // sums of all processes are those of the one
			t.Counters[k].Rank = max(t.Counters[k].Rank, 0)
		}
	}
}

// Together divides the names of files into those that must be read together: the texts of
// strace -ff of one command. Others stand alone.
func Together(names []string) (units [][]string) {
	families := familiesOf(names)
	for i, name := range names {
		family := families[i]
		switch {
		case len(family) < 2:
			units = append(units, []string{name})
		case family[0] == i:
			var unit []string
			for _, k := range family {
				unit = append(unit, names[k])
			}
			units = append(units, unit)
		}
	}
	slices.SortStableFunc(units, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return units
}

// IsTrace reports whether a file begins like a trace, packed or not. JSON is one if it names
// what rows or events have: many programs write JSON of other things beside their logs.
func IsTrace(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	x := unpack(f)
	defer x.Close()
	head := make([]byte, iotrace.HeadBytes)
	n, _ := io.ReadFull(x, head)
	format := iotrace.Detect(head[:n])
	if format != iotrace.FormatJSON {
		return format.Readable(), nil
	}
	has := func(name string) bool { return bytes.Contains(head[:n], []byte(`"`+name+`"`)) }
	return has("ph") || has("traceEvents") || has("op") && has("start_ns") && has("end_ns"), nil
}
