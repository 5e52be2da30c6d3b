package coordinator

import (
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
)

// A backlog is what waits for room in the store.
type backlog struct {
	lines []*job.OutputEvent // of outputs, to be put out when they are there
	owed  *protocol.Collect  // what is not needed, and not noted to be so; may be nil
	tried time.Duration      // when that was last tried again
	told  []string           // to the user, of what waits
}

// notes are what a job keeps beside its checkpoints.
type notes struct {
	baseline job.Baseline
	output   job.Output
	backlog  backlog
}
