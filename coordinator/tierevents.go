package coordinator

import "ckpt/image/nodes"

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
