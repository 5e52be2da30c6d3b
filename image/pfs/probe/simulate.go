package probe

import (
	"context"

	"ckpt/image/pfs"
)

// simulate carries a probe that writes out in virtual time.
func simulate(ctx context.Context, s *pfs.System, p *Probe) (seconds float64, err error) {
	sim := pfs.NewSim(s, pfs.Options{})
	var file *pfs.File
	ready := float64(s.Metadata.Latency)
	if s.Metadata.Opens > 0 {
		ready += float64(p.Writers) / s.Metadata.Opens
	}
	for w := range p.Writers {
		base := int64(w) * int64(p.Requests) * p.Request
		if !p.Shared {
			file, base = nil, 0
			ready = float64(s.Metadata.Latency)
			if s.Metadata.Creates > 0 {
				ready += float64(w+1) / s.Metadata.Creates
			}
		}
		if file == nil {
			file = sim.File(pfs.FileSpec{StripeSize: 1 << 20, StripeCount: 1})
		}
		c := &writer{sim: sim, sync: float64(s.Sync), probe: p, client: sim.Client(0), file: file, base: base, end: &seconds}
		sim.At(ready, c.step)
	}
	err = sim.Run(ctx)
	return max(seconds, 1e-6), err
}

// A writer is one of a probe in virtual time.
type writer struct {
	sim           *pfs.Sim
	sync          float64
	probe         *Probe
	client        *pfs.Client
	file          *pfs.File
	base          int64
	begun, flying int
	end           *float64 // of the last writer
}

// step begins as many requests as may be under way, and syncs after the last.
func (w *writer) step() {
	for w.flying < w.probe.Depth && w.begun < w.probe.Requests {
		at := w.base + int64(w.begun)*w.probe.Request
		w.begun++
		w.flying++
		w.client.Write(w.file, at, w.probe.Request, func() {
			w.flying--
			w.step()
		})
	}
	if w.flying == 0 && w.begun == w.probe.Requests {
		w.begun++
		w.client.Flush(func() {
			w.client.Drain(w.sync, func() { *w.end = max(*w.end, w.sim.Now()) })
		})
	}
}
