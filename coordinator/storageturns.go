package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/turns"
	"ckpt/image"
	"ckpt/image/container"
)

// A TurnsEvent says whether the run takes turns with other jobs on the storage of the
// store, when that is known first and when it changes.
type TurnsEvent struct {
	Type string `json:"type"` // "storage_turns"
	// Unit is the directory whose controller grants them, empty if bytes pass without.
	Unit    string `json:"storage_unit,omitempty"`
	Started bool   `json:"controller_started,omitempty"` // by this run
	Reason  string `json:"reason,omitempty"`             // why bytes pass without
}

// A turnTaker takes the turns of the coordinator itself, and knows whether the ranks get
// theirs. Its fields belong to the driver's loop, but for the client.
type turnTaker struct {
	client  *turns.Client // nil: the run takes no turns; set before the ranks start
	starts  bool          // a controller is being started again
	without string        // why bytes pass without turns, as the user was told; empty if they do not
}

// openTurns finds the controller of the storage, or has one started, and tells the user
// what was found. Without one the job runs as any other.
func (d *driver) openTurns(ctx context.Context) {
	if d.spec.StorageTurns == job.NoTurns {
		return
	}
	d.turns.client = turns.OfJob(d.spec, d.job)
	ev := &TurnsEvent{Type: "storage_turns"}
	unit, started, err := d.controller(ctx)
	ev.Unit, ev.Started = unit, started
	if err != nil {
		ev.Unit, ev.Reason = "", err.Error()
		d.turns.without = ev.Reason
	}
	d.Event(ev)
	// The connection has a controller stay that ends when it is idle.
	d.turns.client.Begin(turns.Burst{Kind: turns.Checkpoint}).End()
}

// controller finds the controller of the storage, and starts it where the job is to.
func (d *driver) controller(ctx context.Context) (unit string, started bool, err error) {
	unit, err = liveController(ctx, d.job)
	if !errors.Is(err, turns.ErrNone) || d.spec.StorageTurns != job.AutoTurns || d.startTurns == nil {
		return unit, false, err
	}
	if err := d.startTurns(ctx, d.store); err != nil {
		return "", false, fmt.Errorf("the controller could not be started: %w", err)
	}
	unit, err = liveController(ctx, d.job)
	return unit, err == nil, err
}

// liveController returns the directory of the controller that answers for a job.
func liveController(ctx context.Context, j *image.Job) (unit string, err error) {
	info, err := turns.Find(j.FS(), j.StoreDir())
	if err != nil {
		return "", err
	}
	_, err = turns.Ask(ctx, j.StoreDir())
	return info.Dir, err
}

// AgainTurns starts the controller again, if it has ended, before a checkpoint is written.
// Nothing waits for it: without one, bytes pass.
func (d *driver) AgainTurns() {
	if d.spec.StorageTurns != job.AutoTurns || d.startTurns == nil || d.turns.without == "" || d.turns.starts {
		return
	}
	d.turns.starts = true
	d.Go(func() {
		defer d.Post(func() { d.turns.starts = false })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-d.done:
				cancel()
			case <-ctx.Done():
			}
		}()
		_, _, _ = d.controller(ctx) // the next checkpoint tells
	})
}

// hasTurns takes why bytes of a rank passed without turns, empty if they did not. The user
// is told when that changes.
func (d *driver) hasTurns(passed string) {
	if d.turns.client == nil || (passed == "") == (d.turns.without == "") {
		return
	}
	d.turns.without = passed
	ev := &TurnsEvent{Type: "storage_turns", Reason: passed}
	if passed == "" {
		ev.Unit = d.store
		if info, err := turns.Find(d.job.FS(), d.store); err == nil {
			ev.Unit = info.Dir
		}
	}
	d.Event(ev)
}

// holdTurn asks for a turn that lasts until the checkpoint is committed. Otherwise the turn
// would end with the last write of a rank, and the commit, which reads a little of each file,
// would stand in the queue of the jobs that come next.
func (g *group) holdTurn(number int) {
	g.turn.End()
	whole := g.expect
	if whole == 0 {
		whole, _, _ = g.spec.Memory() // zero, if that is not known
	}
	b := turns.Burst{Kind: turns.Checkpoint, File: container.FormatNumber(number) + "/" + container.ManifestName, Whole: whole}
	g.turn = g.d.turns.client.Begin(b)
}

// commitPatience is for how long a commit waits for a turn that was lost to others.
const commitPatience = time.Second

// keepTurn keeps the turn until it ends, as if something moved all the time, and returns for
// how long it waited for it.
func keepTurn(t *turns.Turn) time.Duration {
	if t == nil {
		return 0
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), commitPatience)
	defer cancel()
	_ = t.Await(ctx, 0) // without the turn the commit is slower, and no worse
	if took := time.Since(began); took >= time.Millisecond {
		return took
	}
	return 0 // it had the turn
}
