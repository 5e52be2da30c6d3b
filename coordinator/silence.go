package coordinator

import (
	"fmt"
	"time"
)

// tellSigns tells the protocol, before it looks for silent ranks, when each rank gave its
// last sign of life, however late the loop takes its messages.
func (d *driver) tellSigns(now time.Duration) {
	if at, ok := d.machine.Deadline(); !ok || now < at {
		return
	}
	for rank, m := range d.members {
		if m == nil || m.link == nil {
			continue
		}
		at := time.Duration(m.signs.heard.Load())
		if now-at >= d.limits.Silence/2 && m.proc.PID() > 0 && d.excused(m.proc.PID()) {
			d.excuse(rank, m, now-at)
			at = now
		}
		d.machine.Heard(rank, at)
	}
}

// excuse tells the user, once, of a silent rank that is not declared dead.
func (d *driver) excuse(rank int, m *member, silent time.Duration) {
	if silent < d.limits.Silence || m.excused {
		return
	}
	m.excused = true
	d.out.Warn(fmt.Sprintf("rank %d has given no sign of life for %v; its process waits for a disk, and is not declared dead",
		rank, silent.Round(time.Second/10)))
}
