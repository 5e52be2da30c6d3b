package dmtcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/family"
)

// A taking is a checkpoint from the order to write to its commit.
type taking struct {
	number  int
	last    bool // the job stops after it
	raw     bool // DMTCP is writing
	aborted bool
	set     *rawSet // once DMTCP has written it: the state of the job names it as pending
	cancel  context.CancelFunc
	died    atomic.Int64 // the process that has died while DMTCP was writing; 0: none
}

// take takes a checkpoint.
func (a *agent) take(number int, last bool) {
	ctx, cancel := context.WithCancel(a.ctx)
	t := &taking{number: number, last: last, raw: true, cancel: cancel}
	a.taking = t
	e := a.e
	if err := a.checkSpace(); err != nil {
		a.failed(t, err)
		return
	}
	e.mu.Lock()
	e.state.Sets++
	set := &rawSet{Name: fmt.Sprintf("%s%d", setPrefix, e.state.Sets), Number: number, From: e.from}
	e.mu.Unlock()
	a.watch(func() int64 { return e.dir.written(liveName) })
	a.help(func() {
		files, err := a.write(t, set)
		a.do(func() { a.wrote(ctx, t, set, files, err) })
	})
}

// watchWriters ends a checkpoint while DMTCP writes it if a process of the program has died and
// nothing more is written: the others, and DMTCP, would wait for it for ever. A process that ended
// by itself before it was to write keeps nobody waiting.
func (a *agent) watchWriters(ctx context.Context, t *taking, list []family.Process, end func()) {
	var died time.Time
	written, since := int64(-1), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollEvery):
		}
		gone := slices.IndexFunc(list, func(p family.Process) bool { return !p.Alive() })
		if gone < 0 {
			continue
		}
		if died.IsZero() {
			died = time.Now()
		}
		if now := a.e.dir.written(liveName); now != written {
			written, since = now, time.Now()
		}
		if time.Since(since) >= a.e.opt.Settle {
			a.lost(died)
			t.died.Store(int64(list[gone].PID))
			end()
			return
		}
	}
}

// captured says that DMTCP has written the images, and that the program computes again.
func (a *agent) captured(t *taking, peers []family.Process) {
	t.raw, a.resuming = false, true
	a.link.Send(protocol.Captured{Number: t.number})
	a.help(func() { a.watchResumed(peers) })
}

// wrote stores a set that is whole, while the program computes on. After the last one the
// program ends.
func (a *agent) wrote(ctx context.Context, t *taking, set *rawSet, files *dmtcp.Set, err error) {
	e := a.e
	if err == nil && t.aborted {
		err = errors.New("aborted")
	}
	if err == nil {
		e.mu.Lock()
		set.of, set.before, e.state.Pending = t, e.state.Pending, set
		if err = e.state.write(e.Job); err != nil {
			e.state.Pending = set.before
		} else {
			t.set = set
		}
		e.mu.Unlock()
	}
	if err != nil {
		if derr := e.dir.discard(set.Name); derr != nil {
			e.Warn(derr.Error())
		}
		a.failed(t, err)
		return
	}
	if t.last && !(a.ended && a.root == nil) {
		a.endProgram()
	}
	var stored atomic.Int64
	a.watch(stored.Load)
	a.help(func() {
		m, err := a.store(ctx, set, files, func(n int64) { stored.Add(n) })
		a.do(func() { a.stored(t, m, err) })
	})
}

// stored tells that the store has all files of a checkpoint, which is to be committed.
func (a *agent) stored(t *taking, m *image.Manifest, err error) {
	if err == nil && t.aborted {
		err = errors.New("aborted")
	}
	if err != nil {
		a.failed(t, err)
		return
	}
	a.e.mu.Lock()
	a.e.written[t.number] = m
	a.e.mu.Unlock()
	a.link.Send(protocol.Written{Number: t.number})
}

// failed tells that there will be no checkpoint. The files of the last one stay for the
// next run, if DMTCP has written them.
func (a *agent) failed(t *taking, err error) {
	e := a.e
	t.cancel()
	if t.set != nil && !t.last {
		e.mu.Lock()
		e.forget(t.set)
		e.mu.Unlock()
	}
	a.taking = nil
	switch {
	case t.last && t.set != nil:
		e.driver.StopWithout(t.number, fmt.Errorf("%w; its images are in %s, and the next run stores them", err, e.dir.path(t.set.Name)))
		a.quit = true
		return
	case t.aborted:
		a.link.Send(protocol.Aborted{Number: t.number})
	case t.raw && a.program.ended(): // which tells all
	case t.raw && t.died.Load() > 0:
		a.fail(fmt.Sprintf("lost its process %d while DMTCP wrote the images", t.died.Load()))
		return
	default:
		a.link.Send(protocol.WriteFailed{Number: t.number, Text: err.Error(), Body: wire.EncodeError(err)})
	}
	a.goOn()
}

// settled takes the news that a checkpoint was committed, or aborted. The program has ended
// for the last one: its images are all that there is.
func (a *agent) settled(number int, taken bool) {
	if t := a.taking; t != nil && t.number == number && !t.raw {
		if !taken && t.last && t.set != nil {
			a.failed(t, errors.New("the checkpoint was not committed"))
			return
		}
		a.progressed = a.progressed || taken
		t.cancel()
		a.taking = nil
		a.goOn()
	}
}

// goOn does what has waited for a checkpoint.
func (a *agent) goOn() {
	if a.ended {
		a.finish()
		return
	}
	a.hold()
}
