// Package levels keeps the versions of a group: checkpoints in the directories of the nodes
// first, and in the store. A [Level] embeds the next one and overrides what it does itself;
// the last one, the store, is the driver's.
package levels

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
)

// A Level keeps versions: checkpoints of a group. A version is placed on the first level of
// the group that takes it, and drains to the next; the last level is the store. A level
// embeds the next one, and overrides what it does itself: prepare, place, commit and abort of
// a version, and where it is found, repaired and removed. All is done in the driver's loop.
type Level interface {
	// Prepare makes room for a version, Place orders the ranks to write it, Commit makes it
	// exist, Abort removes it. An error of Prepare aborts the version.
	Prepare(number int) error
	Place(protocol.Write)
	Commit(protocol.Checkpoint, *image.Manifest, error)
	Abort()
	// InStore tells each level of a version that was committed in the store without it, and
	// Aborted of one that the protocol has aborted, since a rank or a level failed.
	InStore(number int)
	Aborted(number int, err error)
	// Versions are those that this level has and the store may lack. Find returns what looks
	// for one, outside of the loop; Found tells where its ranks read it. Reads returns the job
	// through which one is read, outside of the loop; Leave leaves those after a number aside, since
	// the group goes back to it, and waits until no copy of one comes into the store any more: the
	// driver removes there what comes after the number, and would wait for the store as well.
	Versions() map[int]*image.Manifest
	Reads(number int) (*image.Job, *image.Manifest, error)
	Leave(after int)
	Find(number int) func() (Finding, error)
	Found(Finding)
	Attendant
	Facts() Facts
}

// An Attendant does what a level has to do as ranks come and go.
type Attendant interface {
	// Served says where ranks serve the level to others, by rank. Close ends what is left
	// when the run has ended.
	Served() []wire.Served
	Close()
	// Begin starts the ranks of an incarnation on a checkpoint; Hear takes a message of a
	// rank, and returns what is left to do with it, nil for nothing; Computing repairs and
	// drains while the ranks compute.
	Begin(from int)
	Hear(rank int, msg protocol.Message) protocol.Message
	Computing()
	// Gone tells that the ranks have ended, and whether nothing may touch the store now;
	// Unreached that no process is left, and which nodes are to lose their directories.
	Gone() (apart bool)
	Unreached(lose []int)
	// MayLeave reports whether ranks may leave at the end; LetGo lets those leave that had to
	// stay, and Drain moves what is only here to the next level once all have.
	MayLeave() bool
	LetGo()
	Drain()
}

// Facts are what the driver tells of a level, and plans with.
type Facts struct {
	UnderWay int     // version that is being written, or 0
	Busy     bool    // something is being written to the store
	Keep     int     // how many checkpoints the store is to keep, 0 all,
	Of       []int   // and of which
	Held     []int   // checkpoints that next stores have yet to get
	Next     int     // number that the next version may have; 0: any that store and nodes lack
	Lag      float64 // seconds from a commit until the last version was in the store
	Remedy   string  // if versions do not fit; empty: free space in the store
	Behind   bool    // the run writes its journal beside the loop, which waits for no store
}

// A Finding is where a checkpoint to be restored was found.
type Finding struct {
	Manifest      *image.Manifest
	Local, Stored bool
	Lost          []int   // nodes that should have it and have not
	Wrong         []error // of the directories of nodes
	Passed        error   // why it is not read from the nodes
}

// A Setting is the group and the run that a level is of.
type Setting struct {
	ID      int   // of the group
	Ranks   []int // of the group, ascending
	Spec    *job.Resolved
	Job     *image.Job
	Silence time.Duration // after which a rank counts as dead
	Listen  string        // address for ranks of other hosts; empty without
	Token   string        // of the run
}

// A Group is what a level asks of its group, and of the driver. All but Go and Post are
// called in the driver's loop.
type Group interface {
	Loop
	Ranks
	// Committed takes over a version that exists on a level of nodes, and may be passing: on its
	// way to the store. Failed says that one could not be made, Stored that one has come into the
	// store, Passed that one has left the nodes and the store lacks it.
	Committed(cp protocol.Checkpoint, m *image.Manifest, state string, passing bool)
	Failed(number int, err error)
	Stored(Copied)
	// Durable notes that a version is safe in the store, and tells what was at risk until then.
	Durable(number int) job.Risk
	Passed(number int)
	// Postponed notes since when a version that is begun has waited for a slot.
	Postponed(number int, since time.Time)
	// Library returns the library zone in the store, which it writes if it must.
	Library(number int) (*container.File, error)
	// Way is how the ranks write what is begun now; nil: as the description says.
	Way(number int) *job.Way
	// Thin removes what the store need not keep. AgainTurns has the storage's controller
	// started again, if the job asked for one that has ended; Turns is its client, or nil.
	Thin()
	AgainTurns()
	Turns() *turns.Client
}

// A Loop is the driver's: it does one thing after the other.
type Loop interface {
	// Post has the loop do something, and Go starts what goes on beside it.
	Post(func())
	Go(func())
	// Await does what is posted while busy, and Interruptible while do goes on. An interrupt
	// ends both.
	Await(busy func() bool)
	Interruptible(do func(context.Context) error) error
	// Over reports whether the run ends, and End how. Fail ends it.
	Over() bool
	End() End
	Fail(error)
	// Event tells the user and the journal, Warn the user.
	Event(any)
	Warn(string)
}

// An End is how a run ends.
type End struct {
	Broken    bool // of an error of the driver
	Failed    bool // the job failed
	Completed bool
	Hurried   bool // somebody has interrupted it twice
}

// Ranks are the ranks of a group.
type Ranks interface {
	Life() Life
	Send(rank int, m protocol.Message)
	// Later passes an event to the protocol when the loop has done what it is at.
	Later(protocol.Event)
	Order(rank int) wire.WriteOrder
	Leads(rank int) bool
	Host(rank int) Host
	// SomeGone reports whether a rank has ended, or gives no sign of life.
	SomeGone() bool
	// Examine checks the checkpoint that the ranks begin with, and Welcome lets them in.
	Examine(number int)
	Welcome()
}

// A Life is the incarnation of a group.
type Life struct {
	Incarnation int
	From        int  // checkpoint that it is to begin with
	Restored    int  // checkpoint that it has begun with
	Started     bool // all ranks compute, or did
	Computed    bool // some incarnation of this run has
}

// A Host is where a rank runs.
type Host struct {
	ID, Name string
	Remote   bool
}

// Copied is a version that a level has copied into the store.
type Copied struct {
	Manifest *image.Manifest // as the store has it
	Full     bool            // it refers to no other
	Bytes    int64
	// Seconds is how long that took beside the wait for turns; 0: the storage had no part in it.
	Seconds float64
	Passed  string // why bytes passed without turns
}

// A LevelEvent says that a checkpoint has come to another level of storage: local or
// protected (on the nodes), draining, stored, reclaimed (not on the nodes any more), or next.
type LevelEvent struct {
	Type   string      `json:"type"` // "storage_level"
	Number int         `json:"number"`
	Level  nodes.State `json:"storage_level"`
	Store  string      `json:"next_store,omitempty"` // with next
	// With draining, what is to be copied; with stored and next, what was, and in which time.
	Bytes   int64   `json:"bytes,omitempty"`
	Seconds float64 `json:"copy_s,omitempty"`
	// TurnWait is the part of that in which the copy waited for other jobs.
	TurnWait float64 `json:"turn_wait_s,omitempty"`
	job.Risk
}

// A WaitsEvent says that a checkpoint waits for a slot on the nodes, and which ones have
// them.
type WaitsEvent struct {
	Type   string `json:"type"` // "waits"
	Number int    `json:"number"`
	For    []int  `json:"waits_for"`
}

// A SourcesEvent says where ranks that were restarted have found their parts of a
// checkpoint.
type SourcesEvent struct {
	Type   string `json:"type"` // "recovered"
	Number int    `json:"number"`
	Local  int    `json:"local_ranks"`   // ranks whose node had the part
	Copied int    `json:"copied_ranks"`  // another node had a copy
	Built  int    `json:"rebuilt_ranks"` // from parities
	Stored int    `json:"stored_ranks"`  // the store had it
}

// A RedundancyEvent says that what protects a checkpoint was restored after a node was
// lost.
type RedundancyEvent struct {
	Type    string  `json:"type"` // "scrubbed"
	Number  int     `json:"number"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"scrub_s"`
}

// tell tells that a version has come to another level, and notes it for those who look into
// the store only.
func (t *Tier) tell(number int, state nodes.State, bytes int64) {
	t.tellCopied(&LevelEvent{Number: number, Level: state, Bytes: bytes})
}

// tellCopied is tell, with what a copy took.
func (t *Tier) tellCopied(ev *LevelEvent) {
	ev.Type = "storage_level"
	t.g.Event(ev)
	t.record.keep(t.describe())
}

// A TierRun is what a journal tells of checkpoints that went to nodes first. Times are in
// seconds.
type TierRun struct {
	Pauses   []float64     // of checkpoints on the nodes, oldest first
	Drains   []float64     // times of copying one into the store
	Failures []TierFailure // that the job was restarted after
}

// A TierFailure says where the ranks found their parts of a checkpoint after a failure, and how
// long the restart took. If restarts failed, too, it has the furthest level that one of them
// needed.
type TierFailure struct {
	Local, Copied, Rebuilt, Stored int // ranks
	RestartS                       float64
}

// NeedsStore says that the nodes lacked parts of the checkpoint.
func (f *TierFailure) NeedsStore() bool { return f.Stored > 0 }

// NeedsNodes says that some ranks found their parts on other nodes.
func (f *TierFailure) NeedsNodes() bool { return f.Stored == 0 && f.Copied+f.Rebuilt > 0 }

// MeasureTier reads what the journal of a job tells of its nodes, as far as it is sound.
func MeasureTier(j *image.Job) (*TierRun, error) {
	r := &tierReader{}
	err := job.ReadJournal(j, 0, r.line)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return &r.run, err
}

type tierReader struct {
	run TierRun
	// found is where ranks found their parts since the last restart that succeeded.
	found *TierFailure
}

type tierLine struct {
	Type    string  `json:"type"`
	Level   string  `json:"storage_level"`
	Pause   float64 `json:"pause_s"`
	Copy    float64 `json:"copy_s"`
	Waited  float64 `json:"turn_wait_s"`
	Local   int     `json:"local_ranks"`
	Copied  int     `json:"copied_ranks"`
	Rebuilt int     `json:"rebuilt_ranks"`
	Stored  int     `json:"stored_ranks"`
	Failed  bool    `json:"after_failure"`
	Restart float64 `json:"restart_s"`
}

func (r *tierReader) line(line []byte) {
	var ev tierLine
	if json.Unmarshal(line, &ev) != nil {
		return
	}
	switch ev.Type {
	case "start":
		r.found = nil // a run that ended before its ranks computed tells of no failure
	case "checkpoint":
		if ev.Level != "" && ev.Pause > 0 {
			r.run.Pauses = append(r.run.Pauses, ev.Pause)
		}
	case "storage_level":
		if ev.Level == "stored" && ev.Copy > 0 {
			r.run.Drains = append(r.run.Drains, max(0, ev.Copy-ev.Waited))
		}
	case "recovered":
		found := &TierFailure{Local: ev.Local, Copied: ev.Copied, Rebuilt: ev.Rebuilt, Stored: ev.Stored}
		if r.found == nil || found.NeedsStore() || found.NeedsNodes() && !r.found.NeedsStore() {
			r.found = found
		}
	case "restarted":
		if r.found != nil && ev.Failed {
			r.found.RestartS = max(0, ev.Restart-ev.Waited)
			r.run.Failures = append(r.run.Failures, *r.found)
		}
		r.found = nil
	}
}
