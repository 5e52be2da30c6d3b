package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/tune"
	"ckpt/image/nodes"
	"ckpt/image/plan"
	"ckpt/zones"
)

func (g *Globals) PrintCheckpoint(cp *job.CheckpointEvent) error {
	if cp == nil {
		return nil // the answer has no checkpoint
	}
	if g.JSON {
		return g.PrintJSON(cp)
	}
	l := cp.Latency
	of := ""
	if len(cp.Of) > 0 {
		of = ", " + Ranks(cp.Of)
	}
	return g.Printf("checkpoint %d of %s%s%s\n"+
		"%s\n"+
		"stored     %s MiB in %d files\n"+
		"latency    %s = %s coordination + %s management + %s storage%s\n"+
		"pause      %s, for which the application stood still\n",
		cp.Number, cp.Job, of, At(cp.Iteration), memoryText(cp), MiB(cp.StoredBytes), cp.Files, Seconds(l.Total), Seconds(l.Coordination), Seconds(l.Management), Seconds(l.Storage), turnWait(cp.TurnWait),
		Seconds(cp.Pause))
}

// turnWait is the part of a latency that was waited for other jobs.
func turnWait(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return fmt.Sprintf(" + %s waiting for its turn", Seconds(seconds))
}

// memoryText says how large the zones are, where it is known in memory, and what
// images of single ranks hold, which repeat the library and the segments.
func memoryText(cp *job.CheckpointEvent) string {
	zones := func(z *zones.Sizes) string {
		return fmt.Sprintf("library %s, data %s, shared %s, iobuffer %s", MiB(z.Library), MiB(z.Data), MiB(z.Shared), MiB(z.IOBuffer))
	}
	if cp.Memory == nil {
		return fmt.Sprintf("in images  %s MiB (%s)", zones(&cp.Zones), Count(cp.Ranks, "rank"))
	}
	return fmt.Sprintf("in memory  %s MiB (%s)\nper rank   an image of each would hold %s MiB in all", zones(cp.Memory), Count(cp.Ranks, "rank"), MiB(cp.Zones.Total()))
}

// Predicted says what a checkpoint was predicted to be.
func Predicted(p *job.PredictedCheckpoint) string {
	text := fmt.Sprintf("%s MiB stored, 95 %% %s to %s", MiB(p.Stored), MiB(p.StoredLow), MiB(p.StoredHigh))
	if p.Time > 0 {
		text += fmt.Sprintf("; pause %s, time %s, 95 %% %s to %s", Seconds(p.Pause), Seconds(p.Time), Seconds(p.TimeLow), Seconds(p.TimeHigh))
	}
	return text
}

// Narrator prints the events of a job, as lines or as JSON lines, with a progress
// bar below them on a terminal.
type Narrator struct {
	G     *Globals
	Begun func(job string) // takes the name of the job each time that its ranks compute; may be nil
	Seen  func(ev any)     // takes each event but progress; may be nil
	mu    sync.Mutex
	Bar   *Bar
}

func (n *Narrator) Warn(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Bar.Clear()
	n.G.Warn("%s", OneLine(text))
}

func (n *Narrator) Event(ev any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := ev.(*coordinator.ProgressEvent); ok {
		if n.Bar == nil {
			n.Bar = n.G.NewBar("iteration", int64(p.Iterations), false)
		}
		n.Bar.Note("")
		if p.Checkpoint > 0 {
			n.Bar.Note(fmt.Sprintf("writing %d", p.Checkpoint))
		}
		n.Bar.Set(int64(p.Iteration))
		return
	}
	if n.Seen != nil {
		n.Seen(ev)
	}
	if s, ok := ev.(*coordinator.StartEvent); ok && n.Begun != nil {
		n.Begun(s.Job)
	}
	n.Bar.Clear()
	if n.G.JSON {
		_ = json.NewEncoder(n.G.Out).Encode(ev) // a closed pipe must not end the job
		return
	}
	if n.G.Quiet {
		return
	}
	if l, ok := ev.(*levels.LevelEvent); ok && !n.G.Verbose && l.Level != nodes.Stored && l.Level != nodes.InNext {
		return
	}
	if r, ok := ev.(*job.RestartedEvent); ok {
		if n.G.Verbose {
			_ = n.G.Printf("  %s\n", restarted(r))
		}
		return
	}
	_ = n.G.Printf("%s\n", describe(ev))
	if cp, ok := ev.(*job.CheckpointEvent); ok && n.G.Verbose {
		l := cp.Latency
		_ = n.G.Printf("  %s coordination + %s management + %s storage%s; the application stood still for %s\n",
			Seconds(l.Coordination), Seconds(l.Management), Seconds(l.Storage), turnWait(cp.TurnWait), Seconds(cp.Pause))
	}
}

// Ranks names consecutive ranks, such as a group.
func Ranks(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d", list[0])
	}
	return fmt.Sprintf("ranks %d-%d", list[0], list[len(list)-1])
}

// restarted describes the cost of a restart.
func restarted(ev *job.RestartedEvent) string {
	text := fmt.Sprintf("%s computed again after %s, %s of it reading %s MiB", Count(ev.Ranks, "rank"), Seconds(ev.Seconds), Seconds(ev.Read), MiB(ev.ReadBytes))
	if ev.LogBytes > 0 {
		text += fmt.Sprintf(", %s reading %s MiB of logs", Seconds(ev.Log), MiB(ev.LogBytes))
	}
	if ev.Replay != nil {
		text += fmt.Sprintf("; %s repeated what was lost", Seconds(*ev.Replay))
	}
	return text
}

// tuned describes a change of the way to write.
func tuned(ev *tune.TunedEvent) string {
	to := "keeps " + wayText(&ev.To)
	if ev.From != ev.To {
		to = "writes " + wayText(&ev.To) + ", not " + wayText(&ev.From)
	}
	when := "the job"
	if ev.After > 0 {
		when = fmt.Sprintf("after checkpoint %d the job", ev.After)
	}
	return fmt.Sprintf("tuned: %s %s: %s", when, to, ev.Why)
}

// wayText names a way to write.
func wayText(w *tune.TunedWay) string {
	text := string(w.Layout)
	if w.Strategy != plan.Individual {
		text += fmt.Sprintf(" (%s, %s, buffer %s)", w.Strategy, aggregatorsText(w.Aggregators), Size(w.Buffer))
	}
	text += " " + w.Codec
	if w.Async {
		text += " async"
	}
	return text
}

// aggregatorsText says how many aggregators a setting asks for.
func aggregatorsText(n int) string {
	switch n {
	case 0:
		return "an aggregator per node"
	case plan.Auto:
		return "an aggregator per OST"
	}
	return Count(n, "aggregator")
}

// recovery describes the cost of a failure.
func recovery(ev *coordinator.RecoveryEvent) string {
	var from []string
	var numbers []int
	for _, n := range ev.From {
		if n > 0 {
			numbers = append(numbers, n)
		} else if len(from) == 0 {
			from = []string{"the beginning"}
		}
	}
	slices.Sort(numbers)
	switch n := len(numbers); {
	case n > 2:
		from = append(from, fmt.Sprintf("checkpoints %d to %d", numbers[0], numbers[n-1]))
	case n == 2:
		from = append(from, fmt.Sprintf("checkpoints %d and %d", numbers[0], numbers[1]))
	case n == 1:
		from = append(from, fmt.Sprintf("checkpoint %d", numbers[0]))
	}
	lost := 0
	for _, n := range ev.Iterations {
		lost = max(lost, n)
	}
	return fmt.Sprintf("restarting %s from %s; %s lost at most", Count(ev.Ranks, "rank"), strings.Join(from, ", "), Count(lost, "iteration"))
}

// At says at which iteration something is, nothing if it counts none, as programs under
// DMTCP do not.
func At(iteration int) string {
	if iteration == 0 {
		return ""
	}
	return fmt.Sprintf(" at iteration %d", iteration)
}

func bracketed(iteration int) string {
	if iteration == 0 {
		return ""
	}
	return fmt.Sprintf(" (iteration %d)", iteration)
}

// stopping answers an interrupt.
func stopping(ev *coordinator.StoppingEvent) string {
	risk := Count(ev.AtRisk, "iteration")
	switch {
	case ev.Now && ev.AtRisk > 0:
		return "stopping now; a restart repeats " + risk
	case ev.Now:
		return "stopping now"
	case ev.Walltime:
		return "stopping after a last checkpoint, which saves " + risk
	case ev.AtRisk > 0:
		return "stopping after a last checkpoint; ^C again stops now and loses " + risk
	}
	return "stopping after a last checkpoint; ^C again stops now"
}

// newInterval says how often a budget lets checkpoints be taken, and why.
func newInterval(ev *coordinator.IntervalEvent) string {
	of := ""
	if len(ev.Of) > 0 {
		of = " of " + Ranks(ev.Of)
	}
	every := func(s float64) string {
		if s >= 60 {
			return Span(time.Duration(s * float64(time.Second)))
		}
		return Seconds(s)
	}
	why := "is predicted to cost"
	if ev.Measured > 0 {
		why = "costs"
	}
	line := fmt.Sprintf("a checkpoint%s every %s of computing, since one %s %s and %s is accepted", of, every(ev.Interval), why,
		Seconds(ev.Cost), Percent(ev.Overhead))
	if ev.Next > 1.5*ev.Interval {
		line += fmt.Sprintf("; the next in %s", every(ev.Next))
	}
	return line
}

// describe puts an event into one line.
func describe(ev any) string {
	switch ev := ev.(type) {
	case *coordinator.StartEvent:
		at := "from the beginning"
		switch {
		case len(ev.Line) > 1 && slices.Max(ev.Line) > 0:
			at = fmt.Sprintf("from their recovery line, iteration %d on", ev.Iteration)
		case ev.From == 0 && ev.Iteration > 0:
			at = fmt.Sprintf("from iteration %d on", ev.Iteration)
		case ev.From > 0:
			at = fmt.Sprintf("from checkpoint %d%s", ev.From, bracketed(ev.Iteration))
		}
		if ev.FromNP > 0 {
			at += ", of " + Count(ev.FromNP, "rank")
		}
		return fmt.Sprintf("%s: %s on %s (%s) compute %s", ev.Job, Count(ev.NP, "rank"), Count(len(ev.Mapping), "node"), ev.Mapping, at)
	case *job.CheckpointEvent:
		of := ""
		if len(ev.Of) > 0 {
			of = " of " + Ranks(ev.Of)
		}
		done := "stored in " + Seconds(ev.Latency.Total)
		if ev.StorageLevel != "" {
			done = fmt.Sprintf("on the nodes in %s, %s", Seconds(ev.Latency.Total), ev.StorageLevel)
		}
		if ev.TurnWait > 0 {
			done += fmt.Sprintf(", %s of it waiting for its turn", Seconds(ev.TurnWait))
		}
		return fmt.Sprintf("checkpoint %d%s%s: %s MiB %s", ev.Number, of, At(ev.Iteration), MiB(ev.StoredBytes), done)
	case *coordinator.StoppingEvent:
		return stopping(ev)
	case *coordinator.AbortedEvent:
		if ev.Rank < 0 {
			return fmt.Sprintf("checkpoint %d aborted: %s", ev.Number, ev.Reason)
		}
		return fmt.Sprintf("checkpoint %d aborted: rank %d: %s", ev.Number, ev.Rank, ev.Reason)
	case *coordinator.FailureEvent:
		if strings.HasPrefix(ev.Reason, "the ") { // it names what failed
			return ev.Reason
		}
		if ev.Rank < 0 {
			return "the ranks " + ev.Reason
		}
		return fmt.Sprintf("rank %d on node %d %s at iteration %d", ev.Rank, ev.Node, ev.Reason, ev.Iteration)
	case *coordinator.BackoffEvent:
		of := ""
		if len(ev.Of) > 0 {
			of = " of " + Ranks(ev.Of)
		}
		return fmt.Sprintf("%s%s got no further: the next comes after %s, and ranks may give no sign of life for %s",
			Count(ev.Restarts, "restart"), of, Seconds(ev.Pause), Seconds(ev.Silence))
	case *coordinator.IntervalEvent:
		return newInterval(ev)
	case *tune.TunedEvent:
		return tuned(ev)
	case *levels.LevelEvent:
		return storageLevel(ev)
	case *levels.WaitsEvent:
		return fmt.Sprintf("checkpoint %d waits until %s in the store: no slot of the nodes is free", ev.Number, areOrIs(ev.For))
	case *coordinator.TurnsEvent:
		return storageTurns(ev)
	case *levels.SourcesEvent:
		return recoveredFrom(ev)
	case *levels.RedundancyEvent:
		return fmt.Sprintf("checkpoint %d is protected again: %s MiB written in %s", ev.Number, MiB(ev.Bytes), Seconds(ev.Seconds))
	case *job.OutputEvent:
		return fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	case *coordinator.RecoveryEvent:
		return recovery(ev)
	case *coordinator.RestartEvent:
		line := fmt.Sprintf("restarting %s from checkpoint %d%s", Count(ev.Ranks, "rank"), ev.From, bracketed(ev.Iteration))
		if ev.From == 0 && ev.Iteration > 0 {
			line = fmt.Sprintf("restarting %s from iteration %d, at which they were dealt", Count(ev.Ranks, "rank"), ev.Iteration)
		} else if ev.From == 0 {
			line = fmt.Sprintf("restarting %s from the beginning", Count(ev.Ranks, "rank"))
		}
		if ev.Unusable != "" {
			line = ev.Unusable + "; " + line
		}
		return line
	}
	return fmt.Sprintf("%T", ev)
}

// storageTurns says whether a job takes turns on the storage.
func storageTurns(ev *coordinator.TurnsEvent) string {
	switch {
	case ev.Reason != "":
		return "the job goes on without turns on the storage: " + ev.Reason
	case ev.Started:
		return fmt.Sprintf("the job takes turns on %s, whose controller it has started", ev.Unit)
	}
	return "the job takes turns on " + ev.Unit
}
