package coordinator

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
)

// An Observer is told what happens to a job while it runs. Its methods are
// called from one goroutine at a time, except Warn.
type Observer interface {
	// Event takes a *StartEvent, *CheckpointEvent, *AbortedEvent,
	// *FailureEvent, *BackoffEvent, *RestartEvent, *StoppingEvent, *IntervalEvent
	// *tune.TunedEvent, *levels.LevelEvent, *levels.WaitsEvent, *levels.SourcesEvent, *levels.RedundancyEvent or
	// *ProgressEvent.
	Event(any)
	// Warn takes what went wrong without harming the job.
	Warn(text string)
}

// A RecoveryEvent says what a failure cost in a job of several groups.
type RecoveryEvent struct {
	Type       string  `json:"type"`   // "recovery"
	Failed     []int   `json:"failed"` // groups
	RolledBack []int   `json:"rolled_back"`
	From       []int   `json:"from_checkpoints"`       // their checkpoints, 0 the beginning
	Ranks      int     `json:"ranks"`                  // restarted
	Iterations []int   `json:"rolled_back_iterations"` // lost, by group
	Seconds    float64 `json:"decided_s"`              // from the failure to the decision
}

// An IntervalEvent says how often a budget lets checkpoints be taken, when the job
// starts and when that changes.
type IntervalEvent struct {
	Type     string  `json:"type"`         // "interval"
	Of       []int   `json:"of,omitempty"` // which ranks, unless all
	Interval float64 `json:"interval_s"`   // of computing between two checkpoints
	Cost     float64 `json:"cost_s"`       // that each is expected to cost
	Next     float64 `json:"next_s"`
	// Measured counts the checkpoints behind Cost; 0: it is predicted.
	Measured int     `json:"measured_checkpoints"`
	Overhead float64 `json:"overhead"`      // accepted
	Used     float64 `json:"overhead_used"` // so far
}

// A StartEvent says that all ranks compute.
type StartEvent struct {
	Type        string      `json:"type"` // "start"
	Job         string      `json:"job"`
	App         string      `json:"app"`
	NP          int         `json:"np"`
	FromNP      int         `json:"from_np,omitempty"` // ranks of the checkpoint, if another number
	Mapping     job.Mapping `json:"mapping"`
	Iterations  int         `json:"iterations"`
	Incarnation int         `json:"generation"`
	From        int         `json:"from"`      // checkpoint, 0 for the beginning
	Iteration   int         `json:"iteration"` // completed
	// Of several groups, the checkpoint of each; From is the oldest of them. The
	// groups start one after the other: the event is of the first.
	Line []int `json:"line,omitempty"`
}

// An AbortedEvent says that a checkpoint was aborted; the job continues.
type AbortedEvent struct {
	Type   string `json:"type"` // "checkpoint_lost"
	Number int    `json:"number"`
	Rank   int    `json:"rank"` // -1 if no rank is behind it
	Reason string `json:"reason"`
}

// A FailureEvent says that a rank died.
type FailureEvent struct {
	Type      string `json:"type"` // "failure"
	Rank      int    `json:"rank"` // -1 if no rank is behind it
	Node      int    `json:"node"`
	Iteration int    `json:"iteration"` // about where it was
	Reason    string `json:"reason"`
}

// A RestartEvent says that ranks are being restarted.
type RestartEvent struct {
	Type        string `json:"type"` // "restart"
	Ranks       int    `json:"ranks"`
	From        int    `json:"from"`      // checkpoint, 0 for the beginning
	Iteration   int    `json:"iteration"` // of that checkpoint
	Incarnation int    `json:"generation"`
	Unusable    string `json:"unusable,omitempty"` // why a newer checkpoint was not taken
}

// A BackoffEvent says that restarts in a row got no further than the one before them:
// the next comes after a pause, and silent ranks are waited for longer.
type BackoffEvent struct {
	Type      string  `json:"type"`              // "backoff"
	Of        []int   `json:"of,omitempty"`      // which ranks, unless all
	Restarts  int     `json:"restarts_in_a_row"` // that got no further
	Iteration int     `json:"iteration"`         // that the last of them reached
	Pause     float64 `json:"pause_s"`
	Silence   float64 `json:"silence_s"` // after which a rank is declared dead from now on
}

// A StoppingEvent says that an interrupt has arrived and what the run does about it.
type StoppingEvent struct {
	Type      string `json:"type"` // "stopping"
	Now       bool   `json:"now"`  // without a last checkpoint
	Iteration int    `json:"iteration"`
	// AtRisk is how many iterations a restart repeats if there is no last checkpoint.
	AtRisk int `json:"iterations_at_risk"`
	// Walltime says that the run stops because its time is up, or a batch system says so.
	Walltime bool `json:"walltime"`
}

// A ProgressEvent says how far the slowest rank is, and which checkpoint is being
// written, or 0. It comes a few times per second at most.
type ProgressEvent struct{ Iteration, Iterations, Checkpoint int }

// recovered notes what a recovery of several groups takes.
func (d *driver) recovered(a protocol.Recovery) {
	for i, id := range a.RolledBack {
		d.outages.restarts(id, a.Failed, len(d.groups[id].ranks), a.Iterations[i])
	}
	d.Event(&RecoveryEvent{Type: "recovery", Failed: a.Failed, RolledBack: a.RolledBack, From: a.From, Ranks: a.Ranks,
		Iterations: a.Iterations, Seconds: a.Decided.Seconds()})
}

// report tells the observer of a notice of the protocol.
func (g *group) report(n protocol.Notice) {
	switch n.Kind {
	case protocol.Started:
		g.started = true
		if !g.d.result.began {
			job.ForgetEnding(g.job)
			g.d.result.began = true
		}
		g.unlinkSegments()
		now := g.d.now()
		g.restarted(now)
		g.noteTaken(0, moment{now, now})
		g.safe = now
		g.d.outages.computes(g.id, now)
		g.d.allCompute(now)
		g.durable = g.restored.iter
		g.d.paceFrom(g)
		g.level.Computing()
		if g.spec.Several() {
			g.d.tellStart()
			return
		}
		g.d.Event(&StartEvent{Type: "start", Job: g.job.Name(), App: g.spec.App, NP: g.spec.NP, FromNP: g.restored.otherNP, Mapping: g.spec.Mapping,
			Iterations: g.spec.Iterations, Incarnation: n.Incarnation, From: n.From, Iteration: n.Iter})
		g.d.tellTuned()
	case protocol.CheckpointTaken:
		g.tell(n)
	case protocol.CheckpointAborted:
		err := fmt.Errorf("checkpoint %d was aborted: %s", n.Checkpoint, n.Text)
		if len(n.Body) > 0 {
			err = wire.DecodeError(n.Body, n.Text)
		}
		g.d.requests.aborted = err
		g.d.result.Lost++
		if errors.Is(err, durable.ErrStorageFull) {
			g.d.result.Full++
			g.d.fullness.err, g.d.fullness.when = err, g.d.now()
		}
		g.d.engine.Settled(n.Checkpoint, false)
		g.d.Event(&AbortedEvent{Type: "checkpoint_lost", Number: n.Checkpoint, Rank: n.Rank, Reason: n.Text})
		if len(n.Body) > 0 {
			g.level.Aborted(n.Checkpoint, err)
		}
		g.d.stopIfFull(err)
	case protocol.Waiting:
		g.tellWaiting(n)
	case protocol.RankDied:
		node := -1
		if n.Rank >= 0 {
			node = g.spec.Nodes[n.Rank]
		}
		g.d.endRestarting(g.ranks[0])
		g.d.outages.died(g.id, node, n.Iter, g.d.deathOf(n.Rank))
		reason := n.Text
		if g.spec.Lone() {
			reason = "the program " + reason
		}
		g.d.Event(&FailureEvent{Type: "failure", Rank: n.Rank, Node: node, Iteration: n.Iter, Reason: reason})
	case protocol.IntervalChanged:
		g.tellInterval(n.Plan)
	case protocol.BackingOff:
		ev := &BackoffEvent{Type: "backoff", Restarts: n.Stuck, Iteration: n.Iter, Pause: n.Pause.Seconds(), Silence: n.Silence.Seconds()}
		if g.spec.Several() {
			ev.Of = g.ranks
		}
		g.d.Event(ev)
	case protocol.FallingBack:
		if g.spec.Several() { // Recovery says what comes of it
			g.d.Warn(fmt.Sprintf("checkpoint %d of %s is passed over: %s", n.Checkpoint, g.name(), n.Text))
			return
		}
		g.fellBack = fmt.Sprintf("checkpoint %d: %s", n.Checkpoint, n.Text)
	case protocol.Restarting:
		if g.spec.Several() {
			return // Recovery says it for all groups
		}
		if g.fellBack != "" && g.d.outages.of(g.id) == nil { // a user restarts the job
			g.d.Warn(fmt.Sprintf("checkpoint %d cannot be used: the job resumes from checkpoint %d", g.restored.number, n.From))
			g.d.parent = n.From
		}
		g.d.outages.restarts(g.id, nil, g.size(), g.d.outages.lost(g.id, n.Iter))
		g.d.Event(&RestartEvent{Type: "restart", Ranks: g.size(), From: n.From, Iteration: n.Iter,
			Incarnation: n.Incarnation, Unusable: g.fellBack})
		g.fellBack = ""
	}
}

// deathOf returns when a rank died: now, unless its process knows better.
func (d *driver) deathOf(rank int) time.Duration {
	if rank >= 0 && d.members[rank] != nil {
		if p, ok := d.members[rank].proc.(interface{ Died() (time.Time, bool) }); ok {
			if at, known := p.Died(); known {
				return at.Sub(d.since)
			}
		}
	}
	return d.now()
}

// stopIfFull ends the job, if that is asked for when the storage is full.
func (d *driver) stopIfFull(err error) {
	if !d.stopOnFull || d.full != nil || !errors.Is(err, durable.ErrStorageFull) {
		return
	}
	d.full = fmt.Errorf("job %s was stopped: %w", d.job.Name(), err)
	d.Go(func() {
		d.Post(func() {
			d.request(protocol.Request{Stop: true, Now: true}, func(protocol.Answer, *job.CheckpointEvent, error) {})
		})
	})
}

// tell reports a committed checkpoint. The manifest cannot tell how long its
// own commit took; this does.
func (g *group) tell(n protocol.Notice) {
	m := g.taken
	g.d.engine.Settled(m.Number, true)
	g.d.fullness = fullness{}
	ev := job.DescribeCheckpoint(m.Summary())
	ev.Job = g.job.Name()
	ev.StorageLevel = g.landed
	ev.Latency.Storage += (n.Commit - min(n.Commit, g.late)).Seconds()
	ev.TurnWait += min(n.Commit, g.late).Seconds()
	ev.Latency.Total += n.Commit.Seconds()
	ev.Pause = max(ev.Pause, n.Pause.Seconds())
	g.durable = int(m.Iteration)
	at := g.d.now() - n.Lag
	g.noteTaken(m.Number, moment{at, at + n.Pause})
	if !g.drains() {
		ev.Risk = g.Durable(m.Number)
	}
	g.d.result.Checkpoints++
	g.d.tookWall(ev.Latency.Total + g.level.Facts().Lag)
	if g.spec.Program != nil && g.d.result.Checkpoints == 1 && m.Bytes.Data == 0 {
		g.d.Warn("the program protects nothing: its checkpoints hold no data; call ckpt_protect before ckpt_boundary")
	}
	g.d.crowded = g.spec.Keep > 0 && g.landed == "" // else once it is in the store
	g.d.result.addLog(m.Log)
	g.d.result.Last = m.Number
	g.d.requests.note(ev)
	g.d.Event(ev)
	g.adapt(ev)
}

// tellInterval tells how often a budget lets checkpoints be taken. Before one was
// measured all groups have the same to say.
func (g *group) tellInterval(p *protocol.Plan) {
	if p.Measured == 0 && g.id > 0 {
		return
	}
	ev := &IntervalEvent{Type: "interval", Interval: p.Interval.Seconds(), Cost: p.Cost.Seconds(), Next: p.Wait.Seconds(),
		Measured: p.Measured, Overhead: g.spec.Schedule.Overhead, Used: p.Used}
	if g.spec.Several() && p.Measured > 0 {
		ev.Of = g.ranks
	}
	g.d.Event(ev)
}

// tellStart tells, once, that the groups begin to compute, and from where.
func (d *driver) tellStart() {
	if d.computes {
		return
	}
	d.computes = true
	ev := &StartEvent{Type: "start", Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, Mapping: d.spec.Mapping,
		Iterations: d.spec.Iterations, Incarnation: 1, Iteration: math.MaxInt}
	for _, g := range d.groups {
		from := g.spawned.From
		ev.Line = append(ev.Line, from)
		if from == 0 && d.spec.Recut != nil {
			ev.Iteration, ev.FromNP = min(ev.Iteration, d.spec.Recut.Iteration), d.spec.Recut.WasNP
			continue
		}
		ev.Iteration = min(ev.Iteration, d.stored[from])
	}
	if ev.FromNP == ev.NP {
		ev.FromNP = 0
	}
	ev.From = slices.Min(ev.Line)
	d.Event(ev)
	d.tellTuned()
}

// tellWaiting tells the user which rank a checkpoint waits for.
func (g *group) tellWaiting(n protocol.Notice) {
	text := fmt.Sprintf("checkpoint %d waits for rank %d", n.Checkpoint, n.Rank)
	if m := g.d.members[n.Rank]; g.spec.Program != nil && m != nil {
		g.d.Warn(fmt.Sprintf("%s on %s, which has not called ckpt_boundary for %v since step %d", text, m.hostName, n.Pause.Round(time.Second), m.step))
		return
	}
	g.d.Warn(fmt.Sprintf("%s, which has been in iteration %d for %v", text, n.Iter, n.Pause.Round(time.Second)))
}

// A Result is how a run of a job ended.
type Result struct {
	Type        string   `json:"type"` // "result"
	Job         string   `json:"job"`
	App         string   `json:"app"`
	NP          int      `json:"np"`
	Mode        job.Mode `json:"mode"`
	Iterations  int      `json:"iterations"`
	Outcome     string   `json:"outcome"`          // completed, stopped or failed
	Digest      string   `json:"digest,omitempty"` // of the final state, if completed
	Residual    *float64 `json:"residual"`         // null if it is not a finite number
	Checkpoints int      `json:"checkpoints"`      // committed in this run
	Lost        int      `json:"checkpoints_lost"` // aborted in this run
	// Full counts how many of Lost did not fit into the storage.
	Full     int `json:"checkpoints_lost_full,omitempty"`
	Removed  int `json:"checkpoints_removed,omitempty"` // by this run, as Spec.Keep asks
	Failures int `json:"failures"`                      // ranks of a node that died at once count once
	// Of each failure that was recovered from: the ranks restarted, the iterations
	// that these repeat, together, and the seconds until they computed again.
	Restarts []int     `json:"restarts"`
	WorkLost []int     `json:"work_lost"`
	Recovery []float64 `json:"recovery_s"`
	// Of the message logs of all ranks; see CheckpointEvent.
	LogBytes   int64   `json:"log_bytes"`
	LogFsyncs  int64   `json:"log_fsyncs"`
	LogSeconds float64 `json:"log_s"`
	Wall       float64 `json:"wall_s"`
	// Durability is nil if no checkpoint has become safe.
	Durability  *Durability `json:"durability,omitempty"`
	Interrupted bool        `json:"interrupted,omitempty"`
	// Requeue says that the run was stopped for others to continue it: a signal of a batch
	// system or its limit of time.
	Requeue bool `json:"requeue,omitempty"`
	// ProgramStatus is the exit status of the command of a program, nil if it did not end by
	// itself.
	ProgramStatus *int `json:"program_status,omitempty"`

	// Last is the newest checkpoint of this run, or 0, and InFlight how many could be behind the
	// computation at a time.
	Last     int `json:"-"`
	InFlight int `json:"-"`

	began   bool // ranks have computed
	several bool // groups
}

func (r *Result) addLog(l *image.LogStats) {
	if l != nil {
		r.LogBytes += l.Bytes
		r.LogFsyncs += l.Fsyncs
		r.LogSeconds += l.Seconds
	}
}

// CanRestart reports whether the job can be continued: from a checkpoint or, if it
// has several groups, also from their logs or the beginning.
func (r *Result) CanRestart() bool { return r.several || r.Last > 0 }

// jobDigest combines the digests of all ranks, in order. If ranks hold arrays together, it
// is of these, and does not depend on the number of ranks.
func jobDigest(ranks []wire.DoneReport) string {
	h := blake3.New()
	if len(ranks[0].Fields) > 0 {
		for i, f := range ranks[0].Fields {
			var sum [2]uint64
			for _, r := range ranks {
				if i < len(r.Fields) {
					sum[0] += r.Fields[i].Sum[0]
					sum[1] += r.Fields[i].Sum[1]
				}
			}
			fmt.Fprintf(h, "%s %016x%016x\n", f.Name, sum[0], sum[1])
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	for rank, r := range ranks {
		fmt.Fprintf(h, "%d %s\n", rank, r.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}
