package predictions

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/interval"
)

// A jobCost is what a job has measured of its checkpoints and restarts.
type jobCost struct {
	Job         string              `json:"job"`
	Mode        job.Mode            `json:"mode"`
	Groups      int                 `json:"group_count"`
	Checkpoints int                 `json:"checkpoints"`
	Cost        interval.Estimated  `json:"checkpoint_cost"` // of one checkpoint of every group
	Restart     *interval.Estimated `json:"restart_cost"`    // null if the job was never restarted
	Restarts    int                 `json:"restart_count"`   // after failures, or by a user if there are no others
	Replay      *float64            `json:"replay_ratio"`    // speed of repeated work, null if not measured
	Assumed     []string            `json:"assumption_list"`

	once bool // the cost of a group was measured once, and has no interval
}

// ofJob takes the costs of a job that wrote its checkpoints to the store: a job of any engine,
// mode and level.
func (o *intervalOptions) ofJob(f *pflag.FlagSet, j *image.Job) error {
	run, spec, err := job.MeasureCosts(j)
	if err != nil {
		return err
	}
	c := newJobCost(j.Name(), run, spec)
	o.measured = c
	if !c.once {
		o.ends.Cost = &c.Cost
	}
	if spec.Async && o.async > 0 && o.lag == "" && len(run.Latency) > 0 {
		o.lag = plainSeconds(interval.Median(run.Latency).Value)
	}
	values := map[string]string{"cost": plainSeconds(c.Cost.Value), "mode": string(c.Mode)}
	if c.Restart != nil {
		if c.Restarts > 1 {
			o.ends.Restart = c.Restart
		}
		values["restart"] = plainSeconds(c.Restart.Value)
	} else {
		values["restart"] = plainSeconds(interval.Median(run.Latency).Value)
		c.Assumed = append(c.Assumed, "a restart takes as long as a checkpoint: the job was never restarted")
	}
	if c.Mode != job.Coordinated {
		values["logging"] = "0%"
		c.Assumed = append(c.Assumed, "the time of the run includes what its message log costs")
		if c.Replay != nil {
			values["replay"] = strconv.FormatFloat(min(100, max(1, *c.Replay)), 'f', 3, 64)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := f.Set(name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func plainSeconds(v float64) string { return strconv.FormatFloat(v, 'f', 9, 64) }

func newJobCost(name string, run *job.CostRun, spec *job.Resolved) *jobCost {
	c := &jobCost{Job: name, Mode: job.Coordinated, Groups: len(run.Pauses), Checkpoints: len(run.Latency), Assumed: []string{}}
	if spec.Several() {
		c.Mode = spec.Mode
	}
	for _, list := range run.Pauses {
		m := interval.Median(list)
		c.once = c.once || len(list) == 1
		c.Cost = interval.Estimated{Value: c.Cost.Value + m.Value, Low: c.Cost.Low + m.Low, High: c.Cost.High + m.High}
	}
	c.Cost.Value, c.Cost.Low, c.Cost.High = max(1e-6, c.Cost.Value), max(1e-6, c.Cost.Low), max(1e-6, c.Cost.High)
	var failed, all, replays []float64
	for _, r := range run.Restarts {
		if all = append(all, r.TotalS); r.Failed {
			failed = append(failed, r.TotalS)
		}
		if r.ReplayS != nil && *r.ReplayS > 0 && r.LostS > 0 {
			replays = append(replays, r.LostS / *r.ReplayS)
		}
	}
	if len(failed) == 0 {
		failed = all
	}
	if c.Restarts = len(failed); c.Restarts > 0 {
		m := interval.Median(failed)
		c.Restart = &m
	}
	if len(replays) > 0 {
		m := interval.Median(replays).Value
		c.Replay = &m
	}
	if spec.Async {
		c.Assumed = append(c.Assumed, "writing behind the job does not slow it down")
	}
	return c
}

// about tells what was measured.
func (c *jobCost) about() string {
	what := ""
	if c.Groups > 1 {
		what = fmt.Sprintf(" of %s, one after the other", ui.Count(c.Groups, "group"))
	}
	text := fmt.Sprintf("job %s, %s: %s%s, cost %s", c.Job, c.Mode, ui.Count(c.Checkpoints, "checkpoint"), what, ui.Seconds(c.Cost.Value))
	if c.once {
		text += ", measured once"
	} else {
		text += " (" + times(c.Cost.Low, c.Cost.High) + ")"
	}
	switch {
	case c.Restarts == 1:
		text += fmt.Sprintf("; 1 restart, %s, measured once", ui.Seconds(c.Restart.Value))
	case c.Restart != nil:
		text += fmt.Sprintf("; %s, %s (%s)", ui.Count(c.Restarts, "restart"), ui.Seconds(c.Restart.Value), times(c.Restart.Low, c.Restart.High))
	}
	for _, a := range c.Assumed {
		text += "\nassumed: " + a
	}
	return text + "\n"
}

// verdict is the closing line: how often, and at what cost.
func (r *Interval) verdict() string {
	text := fmt.Sprintf("checkpoint every %s, it costs %s", spanOf(r.Interval), ui.Percent(r.Waste))
	if r.CostRange == nil && r.Measured != nil {
		return text + "; no interval, since its cost was measured once"
	}
	if r.CostRange == nil {
		return text
	}
	upTo := " or more"
	if r.IntervalHigh != nil {
		upTo = " to " + spanOf(*r.IntervalHigh)
	}
	text += fmt.Sprintf("; in 95 %% every %s%s, and %s to %s", spanOf(r.IntervalLow), upTo, strings.TrimSuffix(ui.Percent(r.WasteLow), " %"), ui.Percent(r.WasteHigh))
	if r.IntervalHigh != nil && r.IntervalLow == *r.IntervalHigh {
		text = fmt.Sprintf("checkpoint every %s, it costs %s; in 95 %% %s to %s", spanOf(r.Interval), ui.Percent(r.Waste), strings.TrimSuffix(ui.Percent(r.WasteLow), " %"), ui.Percent(r.WasteHigh))
	}
	return text
}
