package job

import (
	"encoding/json"

	"ckpt/image"
	"ckpt/zones"
)

// DescribeCheckpoint describes a committed checkpoint as its manifest tells.
func DescribeCheckpoint(s image.Summary) *CheckpointEvent {
	var log image.LogStats
	if s.Log != nil {
		log = *s.Log
	}
	return &CheckpointEvent{Type: "checkpoint", Job: s.Job, Number: s.Number, Iteration: int(s.Iteration), Ranks: s.Ranks, Of: s.Of,
		LogBytes: log.Bytes, LogFsyncs: log.Fsyncs, LogSeconds: log.Seconds,
		Zones: s.Bytes, Memory: s.Memory, StoredBytes: s.StoredBytes, Files: s.Files, Latency: s.Latency, Pause: s.Pause, TurnWait: s.TurnWait}
}

// A CheckpointEvent describes a committed checkpoint. Times are in seconds,
// sizes in bytes.
type CheckpointEvent struct {
	Type        string       `json:"type"` // "checkpoint"
	Job         string       `json:"job"`
	Number      int          `json:"number"`
	Iteration   int          `json:"iteration"`
	Ranks       int          `json:"ranks"`
	Of          []int        `json:"of,omitempty"`     // which ranks, unless all
	Zones       zones.Sizes  `json:"zones"`            // of an image of each rank, added up
	Memory      *zones.Sizes `json:"memory,omitempty"` // with the segment once for each node, the library once
	StoredBytes int64        `json:"stored_bytes"`     // added to the store
	Files       int          `json:"files"`            // added to the store, the manifest included
	// StorageLevel is local or protected if it went to directories of the nodes, and is
	// not in the store yet.
	StorageLevel string        `json:"storage_level,omitempty"`
	Latency      image.Latency `json:"latency_s"`
	Pause        float64       `json:"pause_s"` // how long the application stood still
	// TurnWait is for how long its writes waited for other jobs on the same storage: a part of
	// the total latency beside the three, and of the pause if the application waited for
	// the writes.
	TurnWait float64 `json:"turn_wait_s,omitempty"`
	// Of the messages logged since the checkpoint before: bytes, fsyncs, and the
	// seconds that the ranks spent in these, together.
	LogBytes   int64   `json:"log_bytes,omitempty"`
	LogFsyncs  int64   `json:"log_fsyncs,omitempty"`
	LogSeconds float64 `json:"log_s,omitempty"`
}

// Costs returns what the checkpoint itself has cost: its latency and its pause without the
// wait for other jobs. Async says that the application computed while it was written.
func (e *CheckpointEvent) Costs(async bool) (latency, pause float64) {
	latency, pause = max(0, e.Latency.Total-e.TurnWait), e.Pause
	if !async {
		pause = max(0, pause-e.TurnWait)
	}
	return latency, pause
}

// UnmarshalJSON also reads lines of earlier versions, whose zones are in the field
// bytes.
func (e *CheckpointEvent) UnmarshalJSON(b []byte) error {
	type plain CheckpointEvent
	old := struct {
		*plain
		Bytes *zones.Sizes `json:"bytes"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(b, &old); err != nil {
		return err
	}
	if old.Bytes != nil {
		e.Zones = *old.Bytes
	}
	return nil
}
