package coordinator

import (
	"ckpt/coordinator/job"
)

// A RecoveryEvent says what a failure cost in a job of several groups.
type RecoveryEvent struct {
	Type       string  `json:"type"`   // "recovery"
	Failed     []int   `json:"failed"` // groups
	RolledBack []int   `json:"rolled_back"`
	From       []int   `json:"from"`       // their checkpoints, 0 the beginning
	Ranks      int     `json:"ranks"`      // restarted
	Iterations []int   `json:"iterations"` // lost, by group
	Seconds    float64 `json:"decided_s"`  // from the failure to the decision
}

// An Observer is told what happens to a job while it runs. Its methods are
// called from one goroutine at a time, except Warn.
type Observer interface {
	// Event takes a *StartEvent, *CheckpointEvent, *AbortedEvent,
	// *FailureEvent, *BackoffEvent, *RestartEvent or *ProgressEvent.
	Event(any)
	// Warn takes what went wrong without harming the job.
	Warn(text string)
}

// A StartEvent says that all ranks compute.
type StartEvent struct {
	Type        string      `json:"type"` // "start"
	Job         string      `json:"job"`
	App         string      `json:"app"`
	NP          int         `json:"np"`
	Mapping     job.Mapping `json:"mapping"`
	Iterations  int         `json:"iterations"`
	Incarnation int         `json:"generation"`
	From        int         `json:"from"`      // checkpoint, 0 for the beginning
	Iteration   int         `json:"iteration"` // completed
	// Of several groups, the checkpoint of each; From is the oldest of them. The
	// groups start one after the other: the event is of the first.
	Line []int `json:"line,omitempty"`
}

// An AbortedEvent says that a checkpoint was aborted; the job continues.
type AbortedEvent struct {
	Type   string `json:"type"` // "checkpoint_lost"
	Number int    `json:"number"`
	Rank   int    `json:"rank"` // -1 if no rank is behind it
	Reason string `json:"reason"`
}

// A FailureEvent says that a rank died.
type FailureEvent struct {
	Type      string `json:"type"` // "failure"
	Rank      int    `json:"rank"` // -1 if no rank is behind it
	Node      int    `json:"node"`
	Iteration int    `json:"iteration"` // about where it was
	Reason    string `json:"reason"`
}

// A RestartEvent says that ranks are being restarted.
type RestartEvent struct {
	Type        string `json:"type"` // "restart"
	Ranks       int    `json:"ranks"`
	From        int    `json:"from"`      // checkpoint, 0 for the beginning
	Iteration   int    `json:"iteration"` // of that checkpoint
	Incarnation int    `json:"generation"`
	Unusable    string `json:"unusable,omitempty"` // why a newer checkpoint was not taken
}

// A BackoffEvent says that restarts in a row got no further than the one before them:
// the next comes after a pause, and silent ranks are waited for longer.
type BackoffEvent struct {
	Type      string  `json:"type"`         // "backoff"
	Of        []int   `json:"of,omitempty"` // which ranks, unless all
	Restarts  int     `json:"restarts"`     // that got no further
	Iteration int     `json:"iteration"`    // that the last of them reached
	Pause     float64 `json:"pause_s"`
	Silence   float64 `json:"silence_s"` // after which a rank is declared dead from now on
}

// A ProgressEvent says how far the slowest rank is. It comes a few times per
// second at most.
type ProgressEvent struct{ Iteration, Iterations int }
