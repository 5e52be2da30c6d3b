package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
)

func (r *Result) planned() (sec section, err error) {
	sec = section{Phase: Plan, Title: "The plan", Commands: r.commands("count", "plan", "interval")}
	if c := r.Count; c != nil {
		sec.Facts = append(sec.Facts, fact{"number", r.counted()}, fact{"the run then takes", span(c.Total) + " without a failure"})
		if c.Run != nil {
			sec.Facts = append(sec.Facts, fact{"with failures", span(c.Run.Total) + ", without any checkpoint " + span(c.Run.Unprotected)})
		}
	}
	if i := r.Interval; i != nil {
		sec.Facts = append(sec.Facts, fact{"best interval", span(i.Interval) + " from the end of a checkpoint to the next; " + ui.Percent(i.Waste) + " of the time is wasted, for an MTBF of " + span(i.MTBF)})
	}
	sec.Text = r.advice()
	if err := r.study.picture(&sec, "interval", "waste.svg", "The share of the time that checkpoints and failures waste, over the interval between checkpoints."); err != nil {
		return sec, err
	}
	plan := readInto[struct {
		Options []option `json:"options"`
	}](r.study, "plan", &err)
	if plan == nil {
		return sec, err
	}
	t := table{Head: []string{"", "|nodes × ranks", "MPI", "codec", "|stored", "|latency", "|95 % interval", "|number", "|every", "|run", "|extrapolated"},
		Note: "The best is marked with *. Extrapolated: how far outside the measurements."}
	for _, o := range plan.Options {
		mark, far := "", "no"
		if o.Best {
			mark = "*"
		}
		if o.Extrapolation > 1.05 {
			far = fmt.Sprintf("×%.2g", o.Extrapolation)
		}
		t.Rows = append(t.Rows, []string{mark, fmt.Sprintf("%d × %d", o.Nodes, o.PPN), o.MPI, o.Codec, size(o.Stored), ui.Seconds(o.Checkpoint), seconds(o.Low, o.High),
			strconv.Itoa(o.Count), span(o.Interval), span(o.Total), far})
	}
	if len(t.Rows) > 0 {
		sec.Tables = append(sec.Tables, t)
	}
	return sec, nil
}

// protected compares the modes.
func (r *Result) protected() (sec section, err error) {
	modes := readInto[struct {
		Options []modeOption `json:"mode_options"`
	}](r.study, "modes", &err)
	if modes == nil {
		return sec, err
	}
	sec = section{Phase: Plan, Title: "Modes and message logs", Commands: r.commands("modes")}
	t := table{Head: []string{"", "mode", "log", "|checkpoint", "|95 % interval", "|every", "|log per interval", "|restart", "|95 % interval", "|run", "|95 % interval"},
		Note: "The run includes checkpoints and failures. The best is marked with *; where intervals overlap, others may be as good."}
	if len(modes.Options) > 0 && r.own != nil && r.Size != nil && modes.Options[0].Stored >= r.Size.Low {
		sec.Text = []string{"These numbers are of whole images of each process, as the thesis stores them. Those of ckpt are smaller."}
	}
	var assumed []string
	for _, o := range modes.Options {
		mark, log := "", o.Log
		if o.Best {
			mark = "*"
		}
		if log == "" {
			log = "needs none"
		}
		t.Rows = append(t.Rows, []string{mark, o.Mode, log, ui.Seconds(o.Cost), seconds(o.Low, o.High), span(o.Interval), size(o.LogBytes + o.KeptLog),
			ui.Seconds(o.Restart), seconds(o.RestartLow, o.RestartHigh), span(o.Total), span(o.TotalLow) + " to " + span(o.TotalHigh)})
		for _, a := range o.Assumptions {
			if !slices.Contains(assumed, a) {
				assumed = append(assumed, a)
			}
		}
	}
	if len(assumed) > 0 {
		t.Note += " Assumed: " + strings.Join(assumed, "; ") + "."
	}
	sec.Tables = []table{t}
	return sec, nil
}

// advice says what bounds the number of checkpoints.
func (r *Result) advice() []string {
	if r.Count == nil || r.Interval == nil || r.Count.Count == 0 {
		return nil
	}
	switch r.Count.Limit {
	case "failures":
		return []string{"The overhead pays for more checkpoints than the failures ask for: more of them would cost more than they save."}
	case "capacity":
		return []string{"The store bounds the number of checkpoints."}
	}
	return []string{"The failures ask for more checkpoints than the overhead pays for: the overhead bounds their number."}
}
