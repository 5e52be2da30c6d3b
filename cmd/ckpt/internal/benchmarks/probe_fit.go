package benchmarks

import (
	"context"
	"errors"
	"math"

	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// off is the logarithm of measured by predicted.
func (p *probe) off() float64 { return math.Log(p.Median / p.Predicted) }

// fit returns the description that fits the probes best, with the misfit of those that were
// held out, and enters what it gives for each probe that writes.
func (r *probed) fit(ctx context.Context, h tune.Host) (*pfs.System, error) {
	f := &fitter{ctx: ctx, res: r, base: r.start(h)}
	for i := range r.Probes {
		if p := &r.Probes[i]; r.fits(p) {
			f.probes = append(f.probes, p)
		}
	}
	if len(f.probes) < fewest {
		return nil, errors.New("too few probes were measured for a fit: give them more time")
	}
	if err := f.search(); err != nil {
		return nil, err
	}
	s := f.system(f.at)
	var off []float64
	for i := range r.Probes {
		p := &r.Probes[i]
		if p.Kind != probeWrite || p.Direct != r.Direct {
			continue
		}
		var err error
		if p.Predicted, err = simulate(ctx, s, p); err != nil {
			return nil, err
		}
		if p.HeldOut {
			off = append(off, p.off())
		}
	}
	s.Misfit = pfs.Misfit{Scatter: scatter(off), Count: len(off), Writers: r.crowd()}
	s.Metadata.Rename, s.Metadata.SyncDir = pfs.Duration(r.each(probeRename, 1)), pfs.Duration(max(0, r.each(probeSyncDir, 1)-r.each(probeCreate, 1)))
	if s.Host.Stream > 4*s.Targets.Rate {
		s.Host.Stream = 0 // no probe met a limit
	}
	s.Unknown = r.Unknown
	return s, nil
}

// crowd is the largest number of writers of a probe.
func (r *probed) crowd() (most int) {
	for i := range r.Probes {
		most = max(most, r.Probes[i].Writers)
	}
	return most
}

// scatter is the root of the mean square: the standard deviation about no deviation.
func scatter(off []float64) float64 {
	if len(off) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range off {
		sum += v * v
	}
	return math.Sqrt(sum / float64(len(off)))
}

// each returns the time per file of the probe of a kind with the fewest, or most, writers.
func (r *probed) each(k probeKind, writers int) float64 {
	for i := range r.Probes {
		if p := &r.Probes[i]; p.Kind == k && p.Writers == writers {
			return p.Median / float64(p.Requests*p.Writers)
		}
	}
	return 0
}

// start is what the probes say by themselves, before the fit. The creation of many files
// is fitted from there: where a file is written at once, its creation costs less.
func (r *probed) start(h tune.Host) *pfs.System {
	s := &pfs.System{Host: pfs.Host{Processors: h.Processors, Copy: pfs.Rate(h.Copy), OneHost: true,
		Gather: pfs.Gather{Rate: pfs.Rate(h.Pull), Parallel: pfs.Rate(h.PullAll), Latency: pfs.Duration(h.PullDelay)}},
		RPC: plan.WriteBytes, InFlight: depth}
	s.Targets.Count, s.Servers.Count = 1, 1
	s.Servers.ReadAhead.After, s.Targets.Stragglers.Factor, s.Locks.Kind = 2, 1, pfs.NoLocks
	if !r.Direct {
		s.Host.Dirty = pfs.Bytes(r.Most)
	}
	// Creations of several writers wait for each other: what one writer takes longer for
	// is the way there and back.
	one, many := r.each(probeCreate, 1), r.each(probeCreate, 8)
	if many > 0 {
		s.Metadata.Creates = 1 / many
	}
	s.Metadata.Latency = pfs.Duration(max(0, one-many))
	return s
}

// The parameters of the fit, which are searched by their logarithm.
const (
	fitRate = iota
	fitStream
	fitPerRequest
	fitLatency
	fitSync
	fitSharing4
	fitSharing16
	fitSharingMost
	fitCreates
)

// A fitter searches for the parameters.
type fitter struct {
	ctx    context.Context
	res    *probed
	base   *pfs.System
	probes []*probe
	at     []float64
}

// system returns the description with the parameters.
func (f *fitter) system(at []float64) *pfs.System {
	s := *f.base
	e := func(k int) float64 { return math.Exp(at[k]) }
	s.Targets.Rate, s.Targets.ReadRate, s.Host.Stream = pfs.Rate(e(fitRate)), pfs.Rate(e(fitRate)), pfs.Rate(e(fitStream))
	s.Targets.PerRequest, s.Host.Latency, s.Sync = pfs.Duration(e(fitPerRequest)), pfs.Duration(e(fitLatency)), pfs.Duration(e(fitSync))
	s.Metadata.Creates *= e(fitCreates)
	s.Targets.Sharing = []pfs.Sharing{{Writers: 1, Factor: 1}, {Writers: 4, Factor: e(fitSharing4)}, {Writers: usualWriters, Factor: e(fitSharing16)}}
	if most := f.res.crowd(); most > usualWriters {
		s.Targets.Sharing = append(s.Targets.Sharing, pfs.Sharing{Writers: most, Factor: e(fitSharingMost)})
	}
	return &s
}

// search finds the parameters.
func (f *fitter) search() error {
	fastest := 0.0
	for _, p := range f.probes {
		fastest = max(fastest, float64(p.Bytes())/p.Median)
	}
	f.at = []float64{fitRate: math.Log(fastest), fitStream: math.Log(fastest), fitPerRequest: math.Log(20e-6), fitLatency: math.Log(50e-6),
		fitSync: math.Log(1e-3), fitCreates: 0}
	_, err := tune.Descend(f.at, f.loss)
	return err
}

// loss sums what the probes are off by. Factors that no probe decides stay where they are.
func (f *fitter) loss(at []float64) (float64, error) {
	s, sum := f.system(at), 0.0
	for _, p := range f.probes {
		seconds, err := simulate(f.ctx, s, p)
		if err != nil {
			return 0, err
		}
		sum += tune.Robust(math.Log(p.Median / seconds))
	}
	for _, x := range at[fitSharing4:] {
		sum += doubtOfFactors * x * x
	}
	return sum, nil
}

// doubtOfFactors is what a factor adds to the loss: one disturbed probe does not decide
// it.
const doubtOfFactors = 0.1

// simulate carries a probe that writes out in virtual time.
func simulate(ctx context.Context, s *pfs.System, p *probe) (seconds float64, err error) {
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
		c := &probeWriter{sim: sim, sync: float64(s.Sync), probe: p, client: sim.Client(0), file: file, base: base, end: &seconds}
		sim.At(ready, c.step)
	}
	err = sim.Run(ctx)
	return max(seconds, 1e-6), err
}

// A probeWriter is one of a probe in virtual time.
type probeWriter struct {
	sim           *pfs.Sim
	sync          float64
	probe         *probe
	client        *pfs.Client
	file          *pfs.File
	base          int64
	begun, flying int
	end           *float64 // of the last writer
}

// step begins as many requests as may be under way, and syncs after the last.
func (w *probeWriter) step() {
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
