package levels

import (
	"ckpt/coordinator/job"
	"ckpt/image"
	"encoding/json"
	"errors"
	"io/fs"
)

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
