package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

// overhead is what recording cost a command.
type overhead struct {
	With   string      `json:"recorded_with"`
	Unable string      `json:"ebpf_error,omitempty"` // why the faster way was not taken
	Calls  int64       `json:"recorded_calls"`
	Each   *float64    `json:"recorded_call_s"`       // null if it could not be measured
	Range  *[2]float64 `json:"recorded_call_range_s"` // likewise
	Spent  *float64    `json:"recording_s"`           // all of them, at most the whole run
	Wall   float64     `json:"wall_s"`

	forbidden bool    // and that is why
	inside    float64 // seconds that a call takes more in the trace
}

// measureOverhead estimates what recording cost: the calls, times what a call of dd costs
// on this machine. It measures after the run, when the machine is as busy as it was.
// strace handles the calls of all processes one after the other.
func measureOverhead(ctx context.Context, r recorder, calls int64, wall time.Duration) overhead {
	o := overhead{With: r.name(), Calls: calls, Wall: wall.Seconds()}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	if more, inside, err := differences(ctx, r, min(pairTime, wall)); err == nil {
		o.estimate(more)
		if len(inside) > 0 {
			o.inside, _, _ = medianOf(inside)
		}
	}
	return o
}

// estimate takes what calls took more when they were recorded, in seconds.
func (o *overhead) estimate(more []float64) {
	each, low, high := medianOf(more)
	each = max(0, each)
	spent := o.all(each)
	o.Each, o.Range, o.Spent = &each, &[2]float64{max(0, low), max(0, high)}, &spent
}

// all returns what all calls take that take so long each. No run holds more than itself.
func (o *overhead) all(each float64) float64 { return min(float64(o.Calls)*each, o.Wall) }

// Pairs of a run with recording and one without are made for a time, no longer than the
// command took, but some at least.
const (
	pairTime   = 700 * time.Millisecond
	leastPairs = 5
	mostPairs  = 51
)

// differences returns by how many seconds a call of dd took longer when it was recorded, in
// pairs of runs that take so long, and by how many it did so in the record. The second run of a pair may find a
// faster machine: they take turns.
func differences(ctx context.Context, r recorder, most time.Duration) (more, inside []float64, err error) {
	start := time.Now()
	for i := range mostPairs {
		if i >= leastPairs && time.Since(start) > most {
			break
		}
		var each, seen [2]float64
		for k := range each {
			recorded := (i + k) % 2
			if each[recorded], seen[recorded], err = timeOfCall(ctx, r, recorded == 1); err != nil {
				if len(more) >= 3 {
					return more, inside, nil
				}
				return nil, nil, err
			}
		}
		more = append(more, each[1]-each[0])
		if seen[1] > 0 {
			inside = append(inside, seen[1]-each[0])
		}
	}
	return more, inside, nil
}

// said is the time that dd says its calls took: the start of the program does not count.
var said = regexp.MustCompile(`, ([0-9.e+-]+) s(econds)?,`)

func timeOfCall(ctx context.Context, r recorder, recorded bool) (each, seen float64, err error) {
	count := r.sampleCalls()
	command := []string{"env", "LC_ALL=C", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=" + strconv.Itoa(count/2)} // a read and a write each
	var text bytes.Buffer
	if recorded {
		seen, err = r.sample(ctx, command, &text)
	} else {
		run := exec.CommandContext(ctx, command[0], command[1:]...)
		run.Stderr = &text
		err = run.Run()
	}
	if err != nil {
		return 0, 0, err
	}
	m := said.FindSubmatch(text.Bytes())
	if m == nil {
		return 0, 0, errors.New("dd does not say how long it took")
	}
	all, err := strconv.ParseFloat(string(m[1]), 64)
	return all / float64(count), seen, err
}

// medianOf returns the median, and the two values between which that of all such values lies
// with 95 % confidence, however they are distributed.
func medianOf(values []float64) (median, low, high float64) {
	slices.Sort(values)
	n := len(values)
	beyond := max(0, int((float64(n)-1.96*math.Sqrt(float64(n)))/2))
	return values[n/2], values[beyond], values[n-1-beyond]
}

// tracerTo is the command line of strace that writes to a file, without the command.
func tracerTo(path string, filter bool, text string) []string {
	return slices.Concat([]string{path}, strace.Flags(filter), []string{"-o", text, "--"})
}

// tell prints the overhead in a line.
func (o *overhead) tell(g *ui.Globals) error {
	if g.Quiet {
		return nil
	}
	switch {
	case o.forbidden:
		g.Printf("recorded by strace: eBPF, which is faster, needs root\n")
	case o.Unable != "":
		g.Printf("recorded by strace: eBPF, which is faster, failed; --with ebpf says why\n")
	}
	calls := ui.Count(int(o.Calls), "call") + " by " + recorderNames[o.With]
	if o.Each == nil {
		return g.Printf("recording: %s; their cost is not known, as dd did not run\n", calls)
	}
	return g.Printf("recording: %s, %s\n", calls, o.cost())
}

// cost tells what recording took as a range, or as a bound.
func (o *overhead) cost() string {
	low, high := o.Range[0], o.Range[1]
	least, most := o.all(low), o.all(high)
	percent := func(t float64) float64 { return 100 * t / max(o.Wall, 1e-9) }
	run := ui.Seconds(o.Wall)
	switch {
	case high == 0:
		return "too little to be measured"
	case low == 0:
		return fmt.Sprintf("not measurable: less than %s µs each, %s of %s (%.0f %%)", micros(high), ui.Seconds(most), run, percent(most))
	case least == o.Wall:
		return fmt.Sprintf("%s to %s µs each: up to all of %s", micros(low), micros(high), run)
	}
	return fmt.Sprintf("%s to %s µs each: %s to %s of %s (%.0f to %.0f %%)", micros(low), micros(high), ui.Seconds(least), ui.Seconds(most), run, percent(least), percent(most))
}

// micros writes seconds as microseconds.
func micros(seconds float64) string {
	if seconds < 10e-6 {
		return fmt.Sprintf("%.1f", 1e6*seconds)
	}
	return fmt.Sprintf("%.0f", 1e6*seconds)
}

var recorderNames = map[string]string{withEBPF: "eBPF", withStrace: "strace"}

// recordResult is what ckpt trace record prints as JSON.
type recordResult struct {
	*importResult
	Overhead overhead `json:"recording_cost"`
}

// tellRecord reports the recorded events, and what recording them cost.
func (in *traceInput) tellRecord(g *ui.Globals, t *iotrace.Trace, out string, rep *iotrace.Report, cost overhead) error {
	r, err := in.importResult(t, out, []string{recorderNames[cost.With]}, []*iotrace.Report{rep})
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(recordResult{r, cost})
	}
	aside := *g // standard output is the command's
	aside.Out = g.Err
	if err := r.tell(&aside); err != nil {
		return err
	}
	return cost.tell(&aside)
}
