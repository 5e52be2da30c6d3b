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

// TracePath is the trace of a checkpoint: what ranks and coordinator did to write it.
func TracePath(job *image.Job, number int) string {
	return filepath.Join(job.Dir(), "traces", fmt.Sprintf("%04d.trace", number))
}

// RestartTracePath is the trace of the last restart: what the ranks read.
func RestartTracePath(job *image.Job) string {
	return filepath.Join(job.Dir(), "traces", "restart.trace")
}

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

func (r *Recording) OfCoordinator(number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(iotrace.Rank{Rank: iotrace.None, Node: "coordinator"}), Checkpoint: number}
}

// Waited records that all ranks have waited since then for a slot on the nodes.
func (r *Recording) Waited(job *image.Job, number int, since time.Time) {
	r.OfCoordinator(number).Waited(ManifestPath(job, number), since, time.Now())
}

func (r *Recording) End() ([]byte, error) {
	err := r.rec.Close()
	return r.buf.Bytes(), err
}

// WriteTrace merges the recordings of all processes into a trace, TracePath or RestartTracePath.
func WriteTrace(job *image.Job, path string, recordings [][]byte) error {
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
	if err := job.FS().Mkdir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var out bytes.Buffer
	if err := iotrace.WriteTrace(&out, all); err != nil {
		return err
	}
	return durable.ReplaceUnsynced(job.FS(), path, out.Bytes())
}
