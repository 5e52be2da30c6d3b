package levels

import (
	"encoding/json"
	"errors"
	"io/fs"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
)

// A LevelEvent says that a checkpoint has come to another level of storage: local or
// protected (on the nodes), draining, stored, or reclaimed (not on the nodes any more).
type LevelEvent struct {
	Type   string      `json:"type"` // "storage_level"
	Number int         `json:"number"`
	Level  nodes.State `json:"storage_level"`
	// With draining, what is to be copied; with stored, what was, and in which time.
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
