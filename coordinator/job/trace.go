package job

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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

// NewRecording begins a recording.
func NewRecording(job string) *Recording {
	r := new(Recording)
	// Microseconds, so that all ranks count from whole ones.
	now := time.Now()
	r.rec = iotrace.NewRecorder(&r.buf, iotrace.Meta{Job: job, Source: "ckpt",
		Origin: now.Add(-time.Duration(now.Nanosecond() % 1000)), Tick: time.Microsecond})
	return r
}

// OfRank records what a rank writes for a checkpoint.
func (r *Recording) OfRank(rank, node, number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(container.TraceRank(rank, node)), Checkpoint: number}
}

// OfCoordinator records what the coordinator writes beside the ranks.
func (r *Recording) OfCoordinator(number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(iotrace.Rank{Rank: iotrace.None, Node: "coordinator"}), Checkpoint: number}
}

// Waited records that all ranks have waited, since some time until now, for a slot on the
// nodes before they could write a checkpoint.
func (r *Recording) Waited(job *image.Job, number int, since time.Time) {
	r.OfCoordinator(number).Waited(ManifestPath(job, number), since, time.Now())
}

// End returns the recording, as an events file.
func (r *Recording) End() ([]byte, error) {
	err := r.rec.Close()
	return r.buf.Bytes(), err
}

// WriteTrace merges the recordings of all processes into the trace of a checkpoint. An
// empty recording is left out.
func WriteTrace(job *image.Job, number int, recordings [][]byte) error {
	var traces []*iotrace.Trace
	for _, b := range recordings {
		if len(b) == 0 {
			continue
		}
		t, _, err := iotrace.Import(bytes.NewReader(b), iotrace.Options{})
		if err != nil {
			return err
		}
		t.Sort()
		traces = append(traces, t)
	}
	all, err := iotrace.Merge(traces...)
	if err != nil {
		return err
	}
	path := TracePath(job, number)
	if err := job.FS().Mkdir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var out bytes.Buffer
	if err := iotrace.WriteTrace(&out, all); err != nil {
		return err
	}
	return durable.ReplaceUnsynced(job.FS(), path, out.Bytes())
}
