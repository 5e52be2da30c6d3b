package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Slots is how many versions a node has room for: one that is there, perhaps being
// drained, and one that is being written.
const Slots = 2

// The pauses between attempts to drain, after the store has failed.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// PauseAfter returns how long to wait with another attempt after so many have failed.
func PauseAfter(failures int) time.Duration { return min(firstPause<<min(failures, 10), lastPause) }

// A Ledger decides what happens to versions, from what has happened to them. It knows no
// files, no nodes and no clock. It is used by one goroutine.
//
// A group of ranks that takes checkpoints apart from the others has slots of its own, as
// its files take room of their own. A job without groups is group 0.
type Ledger struct {
	period   int // one version of so many of a group is drained; 0: no version
	strength int // how many nodes may be lost
	entries  []*entry
	waiting  map[int]bool // groups whose next version was told to wait
	since    map[int]int  // versions of a group since the last that was to be drained
	passed   map[int]int  // the newest version of a group that went into the store without a slot
	failures int          // of drains, since the last that succeeded
	again    time.Time    // when the next drain may begin, after a failure
}

// An entry is a version with a slot.
type entry struct {
	Entry
	due  bool         // to be drained
	left bool         // the job has gone back behind it
	lost map[int]bool // nodes, since it was protected
}

// An Entry says how far a version has come.
type Entry struct {
	Number, Group int
	State         State
}

// NewLedger returns one without versions.
func NewLedger(s Setting) *Ledger {
	return &Ledger{period: s.Drain.period(), strength: s.Protect.Strength(),
		waiting: make(map[int]bool), since: make(map[int]int), passed: make(map[int]int)}
}

// Adopt enters a version that the nodes have from an earlier run, oldest first. One that
// is not in the store is as one that was committed now.
func (l *Ledger) Adopt(number, group int, stored bool) {
	l.enter(number, group)
	if l.Commit(number); stored {
		l.Drained(number)
	}
}

// Begin gives a new version a slot. It reports false if all slots of its group are taken:
// the checkpoint waits, until one is reclaimed, and is to be begun again.
func (l *Ledger) Begin(number, group int) bool {
	if len(l.of(group)) >= Slots {
		l.waiting[group] = true
		return false
	}
	l.enter(number, group)
	delete(l.waiting, group)
	return true
}

func (l *Ledger) enter(number, group int) {
	if l.find(number) != nil {
		panic(fmt.Sprintf("nodes: version %d has begun before", number))
	}
	e := &entry{Entry: Entry{Number: number, Group: group, State: Filling}, lost: make(map[int]bool)}
	l.entries = append(l.entries, e)
	slices.SortFunc(l.entries, func(a, b *entry) int { return cmp.Compare(a.Number, b.Number) })
}

// find returns the entry of a version; nil if it has no slot.
func (l *Ledger) find(number int) *entry {
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.Number == number })
	if i < 0 {
		return nil
	}
	return l.entries[i]
}

// of returns the versions of a group, oldest first.
func (l *Ledger) of(group int) []*entry {
	var list []*entry
	for _, e := range l.entries {
		if e.Group == group {
			list = append(list, e)
		}
	}
	return list
}

// Aborted frees the slot of a version that was discarded, or of one that has been lost.
func (l *Ledger) Aborted(number int) { l.remove(number) }

// Reclaimed frees the slot of a version whose files have gone.
func (l *Ledger) Reclaimed(number int) { l.remove(number) }

func (l *Ledger) remove(number int) {
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool { return e.Number == number })
}

// Commit says that a version exists: Tier.Commit has returned, so it is as safe as its
// protection makes it. It returns its state.
func (l *Ledger) Commit(number int) State {
	e := l.find(number)
	if e == nil || e.State != Filling {
		return Reclaimed
	}
	e.State = l.settled()
	l.since[e.Group]++
	e.due = l.period > 0 && l.since[e.Group] >= l.period
	return e.State
}

// settled is the state of a version that is committed and not in the store.
func (l *Ledger) settled() State {
	if l.strength > 0 {
		return Protected
	}
	return Local
}

// committed reports whether a version exists.
func (e *entry) committed() bool { return e.State != Filling && !e.left }

// Leave sets a version aside that the job has gone back behind. It has its slot until it is
// reclaimed.
func (l *Ledger) Leave(number int) {
	if e := l.find(number); e != nil {
		e.left, e.due = true, false
	}
}

// newest reports whether a version is the newest that exists of its group.
func (l *Ledger) newest(e *entry) bool {
	return !slices.ContainsFunc(l.of(e.Group), func(o *entry) bool { return o.committed() && o.Number > e.Number })
}

// NextDrain returns the version to be drained now, and counts it as draining. One is
// drained at a time, the newest first: it is what a restart would take. The answer is
// false while no version waits, or the store has failed and the pause is not over.
func (l *Ledger) NextDrain(now time.Time) (number int, ok bool) {
	if now.Before(l.again) {
		return 0, false
	}
	var next *entry
	for _, e := range l.entries {
		if e.State == Draining {
			return 0, false
		}
		if l.toDrain(e) {
			next = e
		}
	}
	if next == nil {
		return 0, false
	}
	next.State = Draining
	l.since[next.Group] = 0
	for _, e := range l.of(next.Group) {
		if e.committed() && e.Number > next.Number {
			l.since[next.Group]++
		}
	}
	return next.Number, true
}

// toDrain reports whether a version should be drained. One that is older than what the
// store has already is not worth it.
func (l *Ledger) toDrain(e *entry) bool {
	return (e.State == Local || e.State == Protected) && !l.gone(e) && e.due && !l.surpassed(e)
}

// PassedBy says that a version went into the store without a slot: those before it need not
// go there any more.
func (l *Ledger) PassedBy(number, group int) { l.passed[group] = number }

// surpassed reports whether a newer version of the group is in the store.
func (l *Ledger) surpassed(e *entry) bool {
	return e.Number < l.passed[e.Group] || slices.ContainsFunc(l.of(e.Group), func(o *entry) bool { return o.Number > e.Number && o.State == Stored && !o.left })
}

// Drained says that a version is in the store.
func (l *Ledger) Drained(number int) {
	l.failures, l.again = 0, time.Time{}
	if e := l.find(number); e != nil && e.State != Filling {
		e.State, e.due = Stored, false
		if l.newest(e) {
			l.since[e.Group] = 0
		}
	}
}

// DrainFailed says that a drain has failed, and returns how long the next one has to wait:
// longer each time, up to a minute.
func (l *Ledger) DrainFailed(number int, now time.Time) time.Duration {
	pause := PauseAfter(l.failures)
	l.failures++
	l.again = now.Add(pause)
	if e := l.find(number); e != nil && e.State == Draining {
		e.State, e.due = l.settled(), !e.left
		l.since[e.Group] += l.period // it is the turn of the next version, too
	}
	return pause
}

// Retry returns when a drain that has failed may be tried again; the zero time if the
// store has not failed.
func (l *Ledger) Retry() time.Time { return l.again }

// Draining returns the version that is being drained, if one is.
func (l *Ledger) Draining() (number int, ok bool) {
	for _, e := range l.entries {
		if e.State == Draining {
			return e.Number, true
		}
	}
	return 0, false
}

// NodeLost says that the directory of a node is lost, and with it what it held of all
// versions. A version that is not in the store has lost some of its protection until
// Restored, or is gone.
func (l *Ledger) NodeLost(node int) {
	for _, e := range l.entries {
		e.lost[node] = true
	}
}

// Restored says that a version is whole again, with all that protects it.
func (l *Ledger) Restored(number int) {
	if e := l.find(number); e != nil {
		clear(e.lost)
	}
}

// gone reports whether a version has lost more nodes than its protection allows.
func (l *Ledger) gone(e *entry) bool { return len(e.lost) > l.strength }

// Reclaimable lists the versions whose slots should become free, oldest first: those that
// the job has left. The newest other one of a group stays, for a restart is fastest from it.
// Of the others, those go that are in the store, or need not be; and one that the store did
// not take if a newer one waits for its slot.
func (l *Ledger) Reclaimable() []int {
	var list []int
	for _, e := range l.entries {
		if e.left && e.State != Draining || e.committed() && !l.newest(e) && l.mayGo(e) {
			list = append(list, e.Number)
		}
	}
	return list
}

// mayGo reports whether a version may go that is not the newest of its group.
func (l *Ledger) mayGo(e *entry) bool {
	switch {
	case e.State == Stored:
		return true
	case e.State == Draining:
		return false
	}
	return !l.toDrain(e) || l.waiting[e.Group]
}

// Entries lists the versions that have a slot, oldest first.
func (l *Ledger) Entries() []Entry {
	list := make([]Entry, 0, len(l.entries))
	for _, e := range l.entries {
		list = append(list, e.Entry)
	}
	return list
}

// Unstored returns the newest version that exists and that the store lacks; false if the
// store has it or a newer one.
func (l *Ledger) Unstored() (number int, ok bool) {
	for _, e := range slices.Backward(l.entries) {
		if e.committed() {
			return e.Number, e.State != Stored && !l.surpassed(e)
		}
	}
	return 0, false
}

// State returns how far a version has come: Reclaimed if it has no slot any more.
func (l *Ledger) State(number int) State {
	if e := l.find(number); e != nil {
		return e.State
	}
	return Reclaimed
}

// StateOf returns the state of a version that is committed on nodes and not in the store.
func StateOf(s Scheme) State {
	if s.Strength() > 0 {
		return Protected
	}
	return Local
}
