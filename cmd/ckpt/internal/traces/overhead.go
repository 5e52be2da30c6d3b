package traces

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/lazy"
	"ckpt/iotrace"
)

// overhead is how a command was recorded.
type overhead struct {
	With   string  `json:"recorded_with"`
	Unable string  `json:"ebpf_error,omitempty"` // why the faster way was not taken
	Calls  int64   `json:"recorded_calls"`
	Wall   float64 `json:"wall_s"`

	forbidden bool // and that is why
}

// Pairs of a run with recording and one without are made for a time, no longer than the
// command took, but some at least.
const (
	pairTime   = 700 * time.Millisecond
	leastPairs = 5
	mostPairs  = 51
)

// perCall measures by how many seconds a call takes longer in the record of strace than it
// does alone, with calls of dd: after the run, when the machine is as busy as it was.
func (r *straceRecorder) perCall(ctx context.Context, wall time.Duration) float64 {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	var more []float64
	start := time.Now()
	for i := range mostPairs {
		if i >= leastPairs && time.Since(start) > min(pairTime, wall) {
			break
		}
		var took [2]float64 // the second run of a pair may find a faster machine
		var err error
		for k := range took {
			recorded := (i + k) % 2
			if took[recorded], err = r.sample(ctx, recorded == 1); err != nil {
				return 0
			}
		}
		more = append(more, took[1]-took[0])
	}
	slices.Sort(more)
	return max(0, more[len(more)/2])
}

// said is the time that dd says its calls took: the start of the program does not count.
var said = lazy.Regexp(`, ([0-9.e+-]+) s(econds)?,`)

// sample runs dd, and returns the mean time of a call: as the record has it, or as dd says.
func (r *straceRecorder) sample(ctx context.Context, recorded bool) (float64, error) {
	const calls = 400 // a read and a write each
	command := []string{"env", "LC_ALL=C", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=" + strconv.Itoa(calls/2)}
	if recorded {
		return r.recordedTime(ctx, command)
	}
	text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return 0, err
	}
	m := said().FindSubmatch(bytes.TrimSpace(text))
	if m == nil {
		return 0, errors.New("dd does not say how long it took")
	}
	all, err := strconv.ParseFloat(string(m[1]), 64)
	return all / calls, err
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
	return g.Printf("recording: %s by %s\n", ui.Count(int(o.Calls), "call"), recorderNames[o.With])
}

// micros writes seconds as microseconds.
func micros(seconds float64) string {
	digits := 0
	if seconds < 10e-6 {
		digits = 1
	}
	return strconv.FormatFloat(1e6*seconds, 'f', digits, 64)
}

var recorderNames = map[string]string{withEBPF: "eBPF", withStrace: "strace"}

// recordResult is what ckpt trace record prints as JSON.
type recordResult struct {
	*importResult
	Overhead overhead `json:"recording_cost"`
}

// tellRecord reports the recorded events, and how they were recorded.
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
