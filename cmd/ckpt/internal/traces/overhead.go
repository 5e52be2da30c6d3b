package traces

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

// overhead is what recording cost a command.
type overhead struct {
	With   string   `json:"recorded_with"`
	Unable string   `json:"ebpf_error,omitempty"` // why the faster way was not taken
	Calls  int64    `json:"recorded_calls"`
	Each   *float64 `json:"recorded_call_s"` // null if it could not be measured
	Spent  *float64 `json:"recording_s"`     // all of them, at most the whole run
	Wall   float64  `json:"wall_s"`

	forbidden bool // and that is why
}

// measureOverhead estimates what recording cost: the calls, times what a call of dd costs
// on this machine. It measures after the run, when the machine is as busy as it was.
// strace handles the calls of all processes one after the other.
func measureOverhead(ctx context.Context, r recorder, calls int64, wall time.Duration) overhead {
	o := overhead{With: r.name(), Calls: calls, Wall: wall.Seconds()}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	cost, err := r.sample(ctx, func(count int) []string {
		return []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=" + strconv.Itoa(count/2)} // a read and a write each
	})
	if err != nil {
		return o
	}
	each := cost.Seconds()
	spent := min(float64(calls)*each, o.Wall)
	o.Each, o.Spent = &each, &spent
	return o
}

const costRounds = 3

// difference measures the time that a recorded call takes more than a bare one, in the
// median of some rounds. Each round is a run with and without recording, less one
// without calls, so that the start of the programs does not count.
func difference(count int, calls func(int) []string, timed func(command []string, recorded bool) (time.Duration, error)) (time.Duration, error) {
	var rounds []time.Duration
	for range costRounds {
		var more time.Duration
		for _, run := range []struct {
			sign     time.Duration
			recorded bool
			count    int
		}{{1, true, count}, {-1, true, 0}, {-1, false, count}, {1, false, 0}} {
			took, err := timed(calls(run.count), run.recorded)
			if err != nil {
				return 0, err
			}
			more += run.sign * took
		}
		rounds = append(rounds, max(more, 0)/time.Duration(count))
	}
	slices.Sort(rounds)
	return rounds[costRounds/2], nil
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
	share := ""
	if o.Wall > 0 {
		share = fmt.Sprintf(" of %s (%.0f %%)", ui.Seconds(o.Wall), 100**o.Spent/o.Wall)
	}
	digits := 0
	if *o.Each < 10e-6 {
		digits = 1
	}
	return g.Printf("recording: %s, about %.*f µs each: %s%s\n", calls, digits, 1e6**o.Each, ui.Seconds(*o.Spent), share)
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
