package coordinator

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/durable"
)

// An Observer is told what happens to a job while it runs. Its methods are
// called from one goroutine at a time, except Warn.
type Observer interface {
	// Event is told of a *StartEvent, *CheckpointEvent, *LostEvent,
	// *FailureEvent, *BackoffEvent, *RestartEvent or *ProgressEvent.
	Event(any)
	// Warn is told of what went wrong without harming the job.
	Warn(text string)
}

// A StartEvent says that all ranks compute.
type StartEvent struct {
	Type       string  `json:"type"` // "start"
	Job        string  `json:"job"`
	App        string  `json:"app"`
	NP         int     `json:"np"`
	Mapping    Mapping `json:"mapping"`
	Iterations int     `json:"iterations"`
	Generation int     `json:"generation"`
	From       int     `json:"from"`      // checkpoint, 0 for the beginning
	Iteration  int     `json:"iteration"` // completed
	// Of several groups, the checkpoint of each; From is the oldest of them. The
	// groups start one after the other: the event is of the first.
	Line []int `json:"line,omitempty"`
}

// A LostEvent says that a checkpoint was given up; the job goes on.
type LostEvent struct {
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
	Type       string `json:"type"` // "restart"
	Ranks      int    `json:"ranks"`
	From       int    `json:"from"`      // checkpoint, 0 for the beginning
	Iteration  int    `json:"iteration"` // of that checkpoint
	Generation int    `json:"generation"`
	Unusable   string `json:"unusable,omitempty"` // why a newer checkpoint was not taken
}

// A BackoffEvent says that restarts in a row got no further than the one before them:
// the next comes after a pause, and silent ranks are waited for longer.
type BackoffEvent struct {
	Type      string  `json:"type"`         // "backoff"
	Of        []int   `json:"of,omitempty"` // which ranks, unless all
	Restarts  int     `json:"restarts"`     // that got no further
	Iteration int     `json:"iteration"`    // that the last of them reached
	Pause     float64 `json:"pause_s"`
	Silence   float64 `json:"silence_s"` // after which a rank is declared dead from now on
}

// A ProgressEvent says how far the slowest rank is. It comes a few times per
// second at most.
type ProgressEvent struct{ Iteration, Iterations int }

// A Result is how a run of a job ended.
type Result struct {
	Type        string   `json:"type"` // "result"
	Job         string   `json:"job"`
	App         string   `json:"app"`
	NP          int      `json:"np"`
	Mode        string   `json:"mode"`
	Iterations  int      `json:"iterations"`
	Outcome     string   `json:"outcome"`          // completed, stopped or failed
	Digest      string   `json:"digest,omitempty"` // of the final state, if completed
	Residual    *float64 `json:"residual"`         // null if it is not a finite number
	Checkpoints int      `json:"checkpoints"`      // committed in this run
	Lost        int      `json:"checkpoints_lost"` // given up in this run
	Failures    int      `json:"failures"`         // ranks of a node that died at once count once
	// Of each failure that was recovered from: the ranks restarted, the iterations
	// that these repeat, together, and the seconds until they computed again.
	Restarts []int     `json:"restarts"`
	WorkLost []int     `json:"work_lost"`
	Recovery []float64 `json:"recovery_s"`
	// Of the message logs of all ranks; see CheckpointEvent.
	LogBytes    int64   `json:"log_bytes"`
	LogFsyncs   int64   `json:"log_fsyncs"`
	LogSeconds  float64 `json:"log_s"`
	Wall        float64 `json:"wall_s"`
	Interrupted bool    `json:"interrupted,omitempty"`

	began   bool // ranks have computed
	last    int  // newest checkpoint of this run
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
func (r *Result) CanRestart() bool { return r.several || r.last > 0 }

// A JobFailedError says that a job failed and was not restarted.
type JobFailedError struct {
	Job         string
	Err         error
	Restartable bool // from a checkpoint, or from a recovery line
	Line        bool // it has several groups: from a line, which needs no checkpoint
	Tried       bool // to restart it, again and again
}

func (e *JobFailedError) Error() string { return fmt.Sprintf("job %s failed: %v", e.Job, e.Err) }
func (e *JobFailedError) Unwrap() error { return e.Err }

// Hint says how to go on.
func (e *JobFailedError) Hint() string {
	from := "the last checkpoint"
	if e.Line {
		from = "its recovery line"
	}
	switch {
	case e.Restartable && e.Tried:
		return fmt.Sprintf("ckpt restart %s continues from %s, once it is clear what kills it", e.Job, from)
	case e.Tried:
		return "failures come faster than checkpoints; launch it again with more of them: --every, --interval or --count"
	case e.Restartable:
		return fmt.Sprintf("ckpt restart %s continues from %s; --auto-restart does so by itself", e.Job, from)
	}
	return "there is no checkpoint yet; launch it again, with --every, --interval or --count to take some"
}

// A fullError says that a job cannot go on without room in the store.
type fullError struct {
	job string
	err error
}

func (e *fullError) Error() string { return fmt.Sprintf("job %s cannot go on: %v", e.job, e.err) }
func (e *fullError) Unwrap() error { return e.err }

// Hint says how to go on.
func (e *fullError) Hint() string {
	return fmt.Sprintf("free some space; ckpt restart %s continues then", e.job)
}

// cannotGoOn returns err with what to do about it if it is a full disk.
func (d *driver) cannotGoOn(err error) error {
	if errors.Is(err, durable.ErrStorageFull) {
		return &fullError{d.job.Name(), err}
	}
	return err
}

// A foreignBinaryError says that the library zone is not that of this binary.
type foreignBinaryError struct{ checkpoint int }

func (e *foreignBinaryError) Error() string {
	return fmt.Sprintf("checkpoint %d was taken by another build of ckpt: its library zone differs", e.checkpoint)
}

// Hint says how to go on.
func (e *foreignBinaryError) Hint() string { return "restart it with the ckpt that launched the job" }

// report tells the observer of a notice of the protocol.
func (g *group) report(n protocol.Notice) {
	switch n.Kind {
	case protocol.Started:
		g.started = true
		if !g.result.began {
			forgetEnding(g.job.Dir())
			g.result.began = true
		}
		g.unlinkSegments()
		g.outages.computes(g.id, g.now())
		if g.several() {
			g.startLine()
			return
		}
		g.event(&StartEvent{Type: "start", Job: g.job.Name(), App: g.spec.App, NP: g.spec.NP, Mapping: g.mapping,
			Iterations: g.spec.Iterations, Generation: n.Gen, From: n.From, Iteration: n.Iter})
	case protocol.CheckpointTaken:
		g.tell(n)
	case protocol.CheckpointLost:
		err := fmt.Errorf("checkpoint %d was given up: %s", n.Checkpoint, n.Text)
		if len(n.Body) > 0 {
			err = bodyError(n.Body, n.Text)
		}
		g.givenUp = err
		g.result.Lost++
		g.event(&LostEvent{Type: "checkpoint_lost", Number: n.Checkpoint, Rank: n.Rank, Reason: n.Text})
		g.stopIfFull(err)
	case protocol.RankDied:
		node := -1
		if n.Rank >= 0 {
			node = g.nodes[n.Rank]
		}
		g.outages.died(g.id, node, n.Iter, g.now())
		g.event(&FailureEvent{Type: "failure", Rank: n.Rank, Node: node, Iteration: n.Iter, Reason: n.Text})
	case protocol.BackingOff:
		ev := &BackoffEvent{Type: "backoff", Restarts: n.Stuck, Iteration: n.Iter, Pause: n.Pause.Seconds(), Silence: n.Silence.Seconds()}
		if g.several() {
			ev.Of = g.ranks
		}
		g.event(ev)
	case protocol.FallingBack:
		if g.several() { // Recovery says what comes of it
			g.out.Warn(fmt.Sprintf("checkpoint %d of %s is passed over: %s", n.Checkpoint, g.name(), n.Text))
			return
		}
		g.fellBack = fmt.Sprintf("checkpoint %d: %s", n.Checkpoint, n.Text)
	case protocol.Restarting:
		if g.several() {
			return // Recovery says it for all groups
		}
		g.outages.restarts(g.id, nil, len(g.ranks), g.outages.lost(g.id, n.Iter))
		g.event(&RestartEvent{Type: "restart", Ranks: len(g.ranks), From: n.From, Iteration: n.Iter,
			Generation: n.Gen, Unusable: g.fellBack})
		g.fellBack = ""
	}
}

// stopIfFull ends the job, if that is asked for when the storage is full.
func (d *driver) stopIfFull(err error) {
	if !d.stopOnFull || d.full != nil || !errors.Is(err, durable.ErrStorageFull) {
		return
	}
	d.full = fmt.Errorf("job %s was stopped: %w", d.job.Name(), err)
	d.helpers.Go(func() {
		d.post(func() {
			d.request(protocol.Request{Stop: true, Now: true}, func(protocol.Answer, *CheckpointEvent, error) {})
		})
	})
}

// tell reports a committed checkpoint. The manifest cannot tell how long its
// own commit took; this does.
func (g *group) tell(n protocol.Notice) {
	m := g.taken
	ev := describeCheckpoint(m.Summary())
	ev.Job = g.job.Name()
	ev.Latency.Storage += n.Commit.Seconds()
	ev.Latency.Total += n.Commit.Seconds()
	ev.Pause = max(ev.Pause, n.Pause.Seconds())
	g.result.Checkpoints++
	g.result.addLog(m.Log)
	g.result.last = m.Number
	if len(g.requests) > 0 {
		g.asked[ev.Number] = ev
	}
	g.event(ev)
}

// jobDigest combines the digests of all ranks, in order.
func jobDigest(ranks []doneReport) string {
	h := blake3.New()
	for rank, r := range ranks {
		fmt.Fprintf(h, "%d %s\n", rank, r.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}
