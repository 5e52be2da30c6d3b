package study

import (
	"fmt"
	"math"
	"strings"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
)

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
type fact struct{ Name, Value string }

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
