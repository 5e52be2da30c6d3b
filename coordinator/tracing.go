package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/iotrace"
)

// keepTrace keeps what the coordinator and the ranks have recorded. A trace that
// cannot be kept is no loss for the job.
func (d *driver) keepTrace(m *image.Manifest, own *job.Recording, bodies [][]byte) {
	if err := d.writeTrace(m, own, bodies); err != nil {
		d.log.Debug("trace", "checkpoint", m.Number, "error", err)
	}
}

func (d *driver) writeTrace(m *image.Manifest, own *job.Recording, bodies [][]byte) error {
	b, err := own.End()
	if err != nil {
		return err
	}
	parts := [][]byte{b}
	for _, body := range bodies {
		var w wire.WriteReport
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
	path := job.TracePath(d.job, m.Number)
	if err := d.job.FS().Mkdir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var out bytes.Buffer
	if err := iotrace.WriteTrace(&out, all); err != nil {
		return err
	}
	return durable.ReplaceUnsynced(d.job.FS(), path, out.Bytes())
}
