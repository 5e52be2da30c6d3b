package levels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/nodes"
)

// A bypass is the way of checkpoints past the nodes: into the store at once, while a node
// cannot use its directory. It ends when all nodes take versions again.
type bypass struct {
	on    bool
	tries int // that have failed since it is on
}

// A refusal is what a group knows of versions that the nodes did not take.
type refusal struct {
	aborted int   // in a row
	left    int   // versions that go past the nodes even when the bypass has ended
	stored  []int // that went past the nodes of a job which does not store all its versions
}

// failing notes that a node failed, and has checkpoints go to the store until all work.
func (t *Tier) failing(err error) {
	if t.bypass.on || t.g.Over() {
		return
	}
	t.bypass.on, t.bypass.tries = true, max(0, t.refusal.aborted-1)
	t.g.Warn(fmt.Sprintf("checkpoints go to the store until all nodes can keep them again: %v", err))
	t.tryNodes()
	for _, of := range t.tiers {
		if a := &of.attempt; a.number > 0 && !a.begun && !a.past {
			of.passBy() // it waits for a slot
		}
	}
}

// refused notes that the nodes did not take a version, which was aborted. The next one goes
// to the store, and more the more often that happens: the nodes may seem to work.
func (t *Tier) refused(err error) {
	t.refusal.left = 1 << min(t.refusal.aborted, 5)
	t.refusal.aborted++
	t.failing(err)
}

// pass reports whether the version that is to be written goes past the nodes.
func (t *Tier) pass() bool {
	if t.refusal.left > 0 {
		t.refusal.left--
		return true
	}
	return t.bypass.on
}

// passBy has the version that is to be written go to the store at once, and aborts it if
// that does not take it.
func (t *Tier) passBy() {
	number := t.attempt.number
	if err := t.goPast(); err != nil {
		t.g.Failed(number, err)
	}
}

// goPast prepares the version that is to be written in the store instead.
func (t *Tier) goPast() error {
	was := t.attempt
	if was.begun {
		t.ledger.Aborted(was.number)
		t.g.Go(func() { _ = t.nodes.Discard(was.number) }) // else it goes when the nodes work again
	}
	t.attempt, t.taking = attempt{number: was.number, past: true}, 0
	if err := t.Level.Prepare(was.number); err != nil || was.order == nil {
		return err
	}
	t.Level.Place(*was.order)
	if was.waits {
		t.g.Later(protocol.Ordered{Number: was.number})
	}
	return nil
}

// errNoAnswer says that the directories of the nodes block those who use them.
var errNoAnswer = errors.New("the directory of a node does not answer")

// limit has the version that is to be written go past the nodes if these do not make room
// for it within the time in which a rank has to give a sign of life.
func (t *Tier) limit() {
	number := t.attempt.number
	time.AfterFunc(t.Silence, func() {
		t.g.Post(func() {
			a := &t.attempt
			if a.number != number || a.ready || a.past || t.g.Over() || !a.begun && len(t.reclaiming) == 0 {
				return
			}
			t.failing(errNoAnswer)
			if !t.attempt.past {
				t.passBy()
			}
		})
	})
}

// InStore notes a version that never was on the nodes. Of those that were, this level knows.
func (t *Tier) InStore(number int) {
	t.Level.InStore(number)
	if t.kept[number] != nil {
		return
	}
	t.ledger.PassedBy(number, t.ID)
	if t.nodes.Setting().Drain.Mode != nodes.DrainBehind && t.Spec.Keep == 0 && !t.Spec.Several() {
		t.refusal.stored = append(t.refusal.stored, number)
		t.g.Thin()
	}
	t.next()
}

// Aborted notes a version that the nodes were to take.
func (t *Tier) Aborted(number int, err error) {
	t.Level.Aborted(number, err)
	if t.taking == number {
		t.refused(err)
	}
}

// tryNodes finds out, after a pause, whether all nodes work again.
func (t *Tier) tryNodes() {
	pause := time.Duration(0)
	if t.bypass.tries > 0 {
		pause = nodes.PauseAfter(t.bypass.tries - 1)
	}
	t.bypass.tries++
	time.AfterFunc(pause, func() {
		t.g.Post(func() {
			if t.g.Over() {
				return
			}
			keep := map[int]bool{}
			for _, of := range t.tiers {
				keep[of.attempt.number] = true
				for _, e := range of.ledger.Entries() {
					keep[e.Number] = true
				}
			}
			newest := t.newestVersion()
			t.beside(func() error { return t.nodes.Regain(newest, keep) }, t.tried)
		})
	})
}

// tried ends the bypass if all nodes work.
func (t *Tier) tried(err error) {
	if err != nil {
		t.tryNodes()
		return
	}
	t.bypass.on = false
	clear(t.told)
	t.g.Warn("all nodes can keep checkpoints again")
	for _, of := range t.tiers {
		of.next()
	}
}

// A scrubbing restores what protects a version, after a node was lost.
type scrubbing struct {
	number int
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of it goes on
}

// end ends it, and waits for that; nil is over.
func (s *scrubbing) end() {
	if s != nil {
		s.cancel()
		<-s.done
	}
}

// scrub restores what protects the version that the ranks have read, if some of it was
// lost, while they compute. All have found their parts.
func (t *Tier) scrub() {
	if len(t.lost) > 0 || t.sources[nodes.FromLocal] < len(t.Ranks) {
		t.protect(t.kept[t.g.Life().Restored])
	}
}

// shareLoss tells the other groups which nodes have lost what they kept for them, now that
// these have directories again. Those that compute restore what protects their newest version.
func (t *Tier) shareLoss(lost []int) {
	for _, of := range t.tiers {
		if of == t || len(lost) == 0 {
			continue
		}
		for _, node := range lost {
			of.lost[node] = true
			of.ledger.NodeLost(node)
		}
		if of.g.Life().Started {
			of.protect(of.newestVersion())
		}
	}
}

// protect restores what protects a version, which may be nil.
func (t *Tier) protect(m *image.Manifest) {
	if m == nil || t.nodes.Setting().Protect.Kind() == nodes.None || t.g.Over() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	was, s := t.scrubs, &scrubbing{number: m.Number, cancel: cancel, done: make(chan struct{})}
	t.scrubs = s
	began := time.Now()
	t.g.Go(func() {
		was.end()
		found, err := t.nodes.Scrub(ctx, m, nil)
		cancel()
		t.g.Post(func() {
			if err == nil {
				t.scrubbed(m, found, time.Since(began))
			}
		})
		close(s.done)
	})
}

// scrubbed tells what has become of it.
func (t *Tier) scrubbed(m *image.Manifest, found []nodes.Finding, took time.Duration) {
	var bytes int64
	for _, f := range found {
		if f.Condition == nodes.Sound {
			continue
		}
		if !f.Restored {
			t.g.Warn(fmt.Sprintf("checkpoint %d is less protected than it was: %v", m.Number, f.Err))
			return
		}
		bytes += lengthOf(m, f.Path)
	}
	clear(t.lost)
	t.ledger.Restored(m.Number)
	t.g.Event(&RedundancyEvent{Type: "scrubbed", Number: m.Number, Bytes: bytes, Seconds: took.Seconds()})
	t.next()
}

// lengthOf returns the length of a file of a version.
func lengthOf(m *image.Manifest, path string) int64 {
	for _, f := range m.Files {
		if f.Path == path {
			return f.Bytes
		}
	}
	if i := slices.IndexFunc(m.Tier.Parities, func(p image.Parity) bool { return p.Path == path }); i >= 0 {
		return m.Tier.Parities[i].Bytes
	}
	return 0 // a manifest
}
