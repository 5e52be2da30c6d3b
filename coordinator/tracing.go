package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/iotrace"
)

// TracePath returns where the trace of a checkpoint of job is kept: what its ranks
// and its coordinator did to write it.
func TracePath(job *image.Job, number int) string {
	return filepath.Join(job.Dir(), "traces", fmt.Sprintf("%04d.trace", number))
}

// dropTrace removes it. Nothing depends on it.
func dropTrace(job *image.Job, number int) {
	if err := os.Remove(TracePath(job, number)); err == nil || errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(filepath.Dir(TracePath(job, number))) // if it is empty
	}
}

// A recording is the trace of one process for one checkpoint, in memory.
type recording struct {
	buf bytes.Buffer
	rec *iotrace.Recorder
}

func newRecording(job string) *recording {
	r := new(recording)
	// Microseconds, so that all ranks count from whole ones.
	now := time.Now()
	r.rec = iotrace.NewRecorder(&r.buf, iotrace.Meta{Job: job, Source: "ckpt",
		Origin: now.Add(-time.Duration(now.Nanosecond() % 1000)), Tick: time.Microsecond})
	return r
}

func (r *recording) of(rank, node, number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(container.TraceRank(rank, node)), Checkpoint: number}
}

// ofCoordinator is of what the coordinator writes beside the ranks.
func (r *recording) ofCoordinator(number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(iotrace.Rank{Rank: iotrace.None, Node: "coordinator"}), Checkpoint: number}
}

func (r *recording) end() ([]byte, error) {
	err := r.rec.Close()
	return r.buf.Bytes(), err
}

// keepTrace keeps what the coordinator and the ranks have recorded. A trace that
// cannot be kept is no loss for the job.
func (d *driver) keepTrace(m *image.Manifest, own *recording, bodies [][]byte) {
	if err := d.writeTrace(m, own, bodies); err != nil {
		d.log.Debug("trace", "checkpoint", m.Number, "error", err)
	}
}

func (d *driver) writeTrace(m *image.Manifest, own *recording, bodies [][]byte) error {
	b, err := own.end()
	if err != nil {
		return err
	}
	parts := [][]byte{b}
	for _, body := range bodies {
		var w writeReport
		if err := json.Unmarshal(body, &w); err != nil {
			return err
		}
		parts = append(parts, w.Trace)
	}
	var traces []*iotrace.Trace
	for _, b := range parts {
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
	path := TracePath(d.job, m.Number)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var out bytes.Buffer
	if err := iotrace.WriteTrace(&out, all); err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, out.Bytes(), 0o600); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, path)
}
