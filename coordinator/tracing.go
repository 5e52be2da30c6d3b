package coordinator

import (
	"encoding/json"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
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
	return job.WriteTrace(d.job, m.Number, parts)
}
