package job

import (
	"bytes"
	"fmt"
	"path/filepath"
	"time"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/iotrace"
)

// TracePath returns where the trace of a checkpoint of job is kept: what its ranks
// and its coordinator did to write it.
func TracePath(job *image.Job, number int) string {
	return filepath.Join(job.Dir(), "traces", fmt.Sprintf("%04d.trace", number))
}

// DropTrace removes it. Nothing depends on it.
func DropTrace(job *image.Job, number int) {
	path := TracePath(job, number)
	if durable.Remove(job.FS(), path) == nil {
		_ = job.FS().Remove(filepath.Dir(path)) // if it is empty
	}
}

// A Recording is the trace of one process for one checkpoint, in memory.
type Recording struct {
	buf bytes.Buffer
	rec *iotrace.Recorder
}

func NewRecording(job string) *Recording {
	r := new(Recording)
	// Microseconds, so that all ranks count from whole ones.
	now := time.Now()
	r.rec = iotrace.NewRecorder(&r.buf, iotrace.Meta{Job: job, Source: "ckpt",
		Origin: now.Add(-time.Duration(now.Nanosecond() % 1000)), Tick: time.Microsecond})
	return r
}

func (r *Recording) OfRank(rank, node, number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(container.TraceRank(rank, node)), Checkpoint: number}
}

// OfCoordinator is of what the coordinator writes beside the ranks.
func (r *Recording) OfCoordinator(number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(iotrace.Rank{Rank: iotrace.None, Node: "coordinator"}), Checkpoint: number}
}

func (r *Recording) End() ([]byte, error) {
	err := r.rec.Close()
	return r.buf.Bytes(), err
}
