package levels

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/wording"
)

// Directories are what the nodes of a run keep, shared by all its groups. Their fields belong
// to the driver's loop, as those of a Tier do.
type Directories struct {
	nodes  *nodes.Tier
	record *recordKeeper
	ways   *nodeWays    // to nodes on several hosts; nil: all are on this one
	had    *Inventory   // when the run began; may be nil
	told   map[int]bool // nodes of which a warning says what is wrong with them
	bypass bypass
	tiers  []*Tier // of the groups
	alone  []int   // checkpoints that only nodes have when the run is over
}

func newDirectories(on *nodes.Tier, j *image.Job, ways *nodeWays, had *Inventory) *Directories {
	return &Directories{nodes: on, record: newRecordKeeper(j), ways: ways, had: had, told: map[int]bool{}}
}

// A Tier keeps the versions of a group in the directories of the nodes, where its checkpoints
// go first. Nothing that the ranks wait for touches the store.
type Tier struct {
	Level // the next one
	Setting
	*Directories
	g       Group
	ledger  *nodes.Ledger
	kept    map[int]*image.Manifest // that have a slot, and are committed
	leaving bool                    // ranks are to leave, and have not been told

	attempt attempt
	refusal refusal
	taking  int       // the last version that the nodes were to take
	copying *copying  // into the store; nil if nothing is
	last    float64   // seconds that the last one took
	alarmed bool      // the user knows that the store fails
	timer   bool      // a drain is tried again later
	met     []meeting // by rank of the job

	reclaiming map[int]bool
	scrubs     *scrubbing
	lost       map[int]bool // nodes whose directories have been lost, and not been made whole
	sources    map[nodes.Source]int
	passed     int // files that restarting ranks passed over
}

// An attempt is a version that is being written.
type attempt struct {
	number int             // of it, or 0
	past   bool            // it goes past the nodes, into the store
	begun  bool            // it has a slot
	ready  bool            // its directories are made
	order  *protocol.Write // that is kept back
	waits  bool            // for a slot
	since  time.Time       // when it began to
}

func newTier(set Setting, g Group, next Level, on *Directories) *Tier {
	t := &Tier{Level: next, Setting: set, Directories: on, g: g, ledger: nodes.NewLedger(on.nodes.Setting()), kept: map[int]*image.Manifest{},
		reclaiming: map[int]bool{}, lost: map[int]bool{}, sources: map[nodes.Source]int{}}
	on.tiers = append(on.tiers, t)
	return t
}

// beside has something done beside the loop, and its end heard in the loop.
func (t *Tier) beside(do func() error, then func(error)) {
	t.g.Go(func() {
		err := do()
		t.g.Post(func() { then(err) })
	})
}

// Prepare makes room for a version on the nodes, as soon as there is a slot.
func (t *Tier) Prepare(number int) error {
	t.attempt = attempt{number: number}
	if t.pass() {
		return t.goPast()
	}
	t.slot()
	return nil
}

// slot gives the version that is to be written a slot, or has it wait.
func (t *Tier) slot() {
	a := &t.attempt
	if a.number == 0 || a.begun || a.past || t.g.Over() { // then no slot is worth trying again for
		return
	}
	if a.begun = t.ledger.Begin(a.number, t.ID); !a.begun {
		t.reclaim()
		if len(t.reclaiming) > 0 {
			t.limit()
		} else if !a.waits {
			t.wait()
		}
		return
	}
	number := a.number
	t.taking = number
	t.limit()
	t.beside(func() error {
		errs := make([]error, len(t.nodes.Nodes()))
		for node := range errs {
			errs[node] = t.nodes.Prepare(node, number)
		}
		return errors.Join(errs...)
	}, func(err error) {
		if t.attempt.number != number || t.attempt.past {
			return
		}
		if err != nil {
			t.failing(err)
			t.passBy()
			return
		}
		t.attempt.ready = true
		t.write()
	})
}

// wait tells that a version waits until an earlier one is in the store.
func (t *Tier) wait() {
	a := &t.attempt
	a.waits, a.since = true, time.Now()
	var taken []int
	if n, ok := t.ledger.Draining(); ok {
		taken = append(taken, n)
	} else {
		for _, e := range t.ledger.Entries() {
			taken = append(taken, e.Number)
		}
	}
	t.g.Event(&WaitsEvent{Type: "waits", Number: a.number, For: taken})
	t.g.Later(protocol.Postponed{Number: a.number})
}

// Versions are those that the nodes have.
func (t *Tier) Versions() map[int]*image.Manifest { return t.kept }

// Place keeps the order to write back until the version has its directories.
func (t *Tier) Place(w protocol.Write) {
	if t.attempt.past {
		t.Level.Place(w)
		return
	}
	t.attempt.order = &w
	t.write()
}

// write sends the order to write that was kept back, once all is there that it needs.
func (t *Tier) write() {
	a := &t.attempt
	if a.order == nil || !a.ready {
		return
	}
	w := *a.order
	a.order = nil
	way := t.g.Way(a.number)
	for _, rank := range t.Ranks {
		o := t.g.Order(rank)
		o.Way = way
		o.Local, o.Rank = true, t.Job.FilePath(nodes.RankFile(a.number, rank))
		w.Body = job.Encode(o)
		t.g.Send(rank, w)
	}
	if a.waits {
		t.g.Postponed(a.number, a.since)
		t.g.Later(protocol.Ordered{Number: a.number})
	}
}

// Abort removes what there is of the version that was being written, and frees its slot.
func (t *Tier) Abort() {
	t.Level.Abort()
	number, begun := t.attempt.number, t.attempt.begun
	t.attempt = attempt{}
	if number == 0 || !begun {
		return
	}
	t.beside(func() error { return t.nodes.Discard(number) }, func(err error) { t.discarded(number, err) })
}

func (t *Tier) discarded(number int, err error) {
	if err != nil && !unreachable(err) { // else it goes when the next is prepared
		t.g.Warn(job.NotRemoved + err.Error())
	}
	t.ledger.Aborted(number)
	t.slot()
}

// committed notes a version that exists on the nodes.
func (t *Tier) committed(m *image.Manifest) nodes.State {
	t.kept[m.Number] = m
	clear(t.lost)
	t.refusal.aborted, t.refusal.left = 0, 0
	return t.ledger.Commit(m.Number)
}

// tellCommitted tells of it, after the ranks have been told to compute.
func (t *Tier) tellCommitted(m *image.Manifest, state nodes.State) {
	t.tell(m.Number, state, 0)
	t.next()
}

// reclaim frees the slots that are not needed any more. While ranks may be reading a
// version, none goes.
func (t *Tier) reclaim() {
	if !t.g.Life().Started {
		return
	}
	for _, n := range t.ledger.Reclaimable() {
		t.remove(n)
	}
}

// remove takes a version away from the nodes.
func (t *Tier) remove(number int) {
	if t.reclaiming[number] {
		return
	}
	t.reclaiming[number] = true
	var scrubs *scrubbing
	if t.scrubs != nil && t.scrubs.number == number {
		scrubs = t.scrubs
	}
	t.beside(func() error {
		scrubs.end() // else it would bring the version back
		return t.nodes.Reclaim(number)
	}, func(err error) {
		if err != nil {
			if !unreachable(err) {
				t.failing(err)
			}
			time.AfterFunc(reclaimPause, func() { t.g.Post(func() { t.removed(number) }) })
			return
		}
		t.reclaimed(number)
		t.tell(number, nodes.Reclaimed, 0)
		t.removed(number)
	})
}

// reclaimed notes that a version has left the nodes.
func (t *Tier) reclaimed(number int) {
	if t.ledger.State(number) != nodes.Stored {
		t.g.Passed(number)
	}
	t.ledger.Reclaimed(number)
	delete(t.kept, number)
}

// reclaimPause is how long to wait after a version could not be removed.
const reclaimPause = time.Second

// removed goes on after a version was removed, or is to be removed again.
func (t *Tier) removed(number int) {
	delete(t.reclaiming, number)
	t.slot()
}

// next begins what can be done behind the computation.
func (t *Tier) next() {
	t.reclaim()
	if t.copying != nil || !t.g.Life().Started || t.g.Over() {
		return
	}
	now := time.Now()
	if n, ok := t.ledger.NextDrain(now); ok {
		t.copy(n)
		return
	}
	if again := t.ledger.Retry(); again.After(now) && !t.timer {
		t.timer = true
		time.AfterFunc(again.Sub(now), func() {
			t.g.Post(func() {
				t.timer = false
				t.next()
			})
		})
	}
}

// storedBytes is the length of the files of a version.
func storedBytes(m *image.Manifest) int64 {
	n := int64(0)
	for _, f := range m.Files {
		n += f.Bytes - f.Holes
	}
	return n
}

// notStored says what a user has to know of versions that only the nodes have.
func (t *Tier) notStored(numbers []int, err error) string {
	name := t.Job.Name()
	why, which, is, it := "", fmt.Sprintf("checkpoint %d", numbers[0]), "is", "it"
	if err != nil {
		why = ": " + err.Error()
	}
	if len(numbers) > 1 {
		which, is, it = fmt.Sprintf("the newest checkpoints of %d groups", len(numbers)), "are", "them"
	}
	restart, stores := wording.Sprintf("{restart %s}", name), ", and stores "+it
	if t.g.End().Completed {
		restart = wording.Sprintf("{restart %s} {again}", name)
	}
	if t.nodes.Setting().Drain.Mode == nodes.DrainNone {
		stores = ""
	}
	return fmt.Sprintf("%s of job %s %s on the nodes only, not in the store%s; %s continues from %s while the directories of the nodes are there%s",
		which, name, is, why, restart, it, stores)
}

// Commit makes a version exist on the nodes.
func (t *Tier) Commit(cp protocol.Checkpoint, m *image.Manifest, err error) {
	past := t.attempt.past
	t.attempt = attempt{}
	if past {
		t.Level.Commit(cp, m, err)
		return
	}
	if err == nil {
		m.Tier = t.nodes.Describe(nil)
		m.Tier.Parities, err = paritiesOf(cp)
	}
	t.beside(func() error {
		if err == nil {
			err = t.nodes.Commit(context.Background(), m)
		}
		if err != nil {
			_ = t.nodes.Discard(cp.Number) // what is left of it is removed with the next of its slot
		}
		return err
	}, func(err error) {
		if err != nil {
			t.ledger.Aborted(cp.Number)
			t.g.Failed(cp.Number, err)
			return
		}
		state := t.committed(m)
		t.g.Committed(cp, m, string(state), t.nodes.Setting().Drain.Mode != nodes.DrainNone)
		t.tellCommitted(m, state)
	})
}

// paritiesOf collects the parities that the ranks of a set report alike.
func paritiesOf(cp protocol.Checkpoint) ([]image.Parity, error) {
	var list []image.Parity
	for _, body := range cp.Bodies {
		var w wire.WriteReport
		if err := json.Unmarshal(body, &w); err != nil {
			return nil, err
		}
		for _, p := range w.Parities {
			i := slices.IndexFunc(list, func(o image.Parity) bool { return o.Path == p.Path })
			if i < 0 {
				list = append(list, p)
			} else if list[i] != p {
				return nil, fmt.Errorf("ranks do not agree on %s", p.Path)
			}
		}
	}
	slices.SortFunc(list, func(a, b image.Parity) int { return cmp.Compare(a.Path, b.Path) })
	return list, nil
}
