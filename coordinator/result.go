package coordinator

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// A Result is how a run of a job ended.
type Result struct {
	Type        string   `json:"type"` // "result"
	Job         string   `json:"job"`
	App         string   `json:"app"`
	NP          int      `json:"np"`
	Mode        job.Mode `json:"mode"`
	Iterations  int      `json:"iterations"`
	Outcome     string   `json:"outcome"`          // completed, stopped or failed
	Digest      string   `json:"digest,omitempty"` // of the final state, if completed
	Residual    *float64 `json:"residual"`         // null if it is not a finite number
	Checkpoints int      `json:"checkpoints"`      // committed in this run
	Lost        int      `json:"checkpoints_lost"` // aborted in this run
	// Full counts those of Lost that did not fit into the storage.
	Full     int `json:"checkpoints_lost_full,omitempty"`
	Removed  int `json:"checkpoints_removed,omitempty"` // by this run, as Spec.Keep asks
	Failures int `json:"failures"`                      // ranks of a node that died at once count once
	// Of each failure that was recovered from: the ranks restarted, the iterations
	// that these repeat, together, and the seconds until they computed again.
	Restarts []int     `json:"restarts"`
	WorkLost []int     `json:"work_lost"`
	Recovery []float64 `json:"recovery_s"`
	// Of the message logs of all ranks; see CheckpointEvent.
	LogBytes    int64   `json:"log_bytes"`
	LogFsyncs   int64   `json:"log_fsyncs"`
	LogSeconds  float64 `json:"log_s"`
	Wall        float64 `json:"wall_s"`
	Interrupted bool    `json:"interrupted,omitempty"`
	// Requeue says that the run was stopped for others to continue it: a signal of a batch
	// system or its limit of time.
	Requeue bool `json:"requeue,omitempty"`
	// ProgramStatus is the exit status of the command of a program, nil if it did not end by
	// itself.
	ProgramStatus *int `json:"program_status,omitempty"`

	// Last is the newest checkpoint of this run, 0 if it has none.
	Last int `json:"-"`

	began   bool // ranks have computed
	several bool // groups
}

func (r *Result) addLog(l *image.LogStats) {
	if l != nil {
		r.LogBytes += l.Bytes
		r.LogFsyncs += l.Fsyncs
		r.LogSeconds += l.Seconds
	}
}

// CanRestart reports whether the job can be continued: from a checkpoint or, if it
// has several groups, also from their logs or the beginning.
func (r *Result) CanRestart() bool { return r.several || r.Last > 0 }

// jobDigest combines the digests of all ranks, in order. If ranks hold arrays together, it
// is of these, and does not depend on the number of ranks.
func jobDigest(ranks []wire.DoneReport) string {
	h := blake3.New()
	if len(ranks[0].Fields) > 0 {
		for i, f := range ranks[0].Fields {
			var sum [2]uint64
			for _, r := range ranks {
				if i < len(r.Fields) {
					sum[0] += r.Fields[i].Sum[0]
					sum[1] += r.Fields[i].Sum[1]
				}
			}
			fmt.Fprintf(h, "%s %016x%016x\n", f.Name, sum[0], sum[1])
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	for rank, r := range ranks {
		fmt.Fprintf(h, "%d %s\n", rank, r.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}
