package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// A Seconds is a predicted time with its 95 % interval.
type Seconds struct{ Value, Low, High float64 }

// A Forecast is what a checkpoint is predicted to take.
type Forecast struct {
	Settings plan.Settings // as they take effect
	Codec    string        // that was simulated: of auto the best
	// Coordination, Management and Storage add up to Latency. Pause is how long the
	// application stands still.
	Coordination, Management, Storage float64
	Latency, Pause                    Seconds
	// Packing is how long the slowest host packs, Copy how long it copies memory with
	// Async.
	Packing, Copy float64
	Bytes         int64 // stored, the library included
	Files         int
	// Requests are what a storage of objects is asked for, Bill what that and keeping the bytes
	// costs; nil without connections, or without prices, in the description.
	Requests *pfs.Requests
	Bill     *pfs.Bill
	Buffers  int64 // bytes of buffers and copies of the node that has most
	// Bottleneck names the kind of resource that the checkpoint waits for longest.
	Bottleneck string
	Job        pfs.JobResult // of the files of the ranks
	Use        []pfs.ResourceUse

	full  *FullError // a target lacks space
	rough bool       // of one run with very large requests
	off   float64    // share of the storage's time that an extrapolation took off
}

// Predict predicts a checkpoint on a system.
func Predict(ctx context.Context, sys *pfs.System, c Case) (Forecast, error) {
	if err := c.check(); err != nil {
		return Forecast{}, err
	}
	switch c.Codec {
	case "":
		return c.predict(ctx, sys, none)
	case auto:
		return c.predictAuto(ctx, sys)
	}
	return c.predict(ctx, sys, c.Codec)
}

// predictAuto predicts that auto does as well as the best codec that it tries.
func (c *Case) predictAuto(ctx context.Context, sys *pfs.System) (best Forecast, err error) {
	tried := []string{none, "s2", "zstd"}
	if c.assumed != "" {
		tried = []string{c.assumed}
	}
	for i, codec := range tried {
		f, err := c.predict(ctx, sys, codec)
		if err != nil {
			return f, err
		}
		if i == 0 || f.Latency.Value < best.Latency.Value {
			best = f
		}
	}
	return best, nil
}

func (c *Case) predict(ctx context.Context, sys *pfs.System, codec string) (Forecast, error) {
	l, err := c.load(codec, speedOf(sys, codec).ratio)
	if err != nil {
		return Forecast{}, err
	}
	k := c.coarseness(sys, l, &c.Settings)
	rough := c.rough && k > 1
	if rough {
		k *= roughFactor
	}
	p, err := l.coarser(k).plan(c.Settings)
	if err != nil {
		return Forecast{}, err
	}
	if sys.Objects() && p.Settings.Layout != plan.PerRank {
		return Forecast{}, oneWriter(sys, &p.Settings)
	}
	f := Forecast{rough: rough, Settings: p.Settings, Codec: codec, Bytes: l.bytes() + c.Library, Files: len(p.Files)}
	if err := c.price(sys, p, k, &f); err != nil {
		return f, err
	}
	packing, rounds := c.packing(sys, l, codec), c.rounds(l, &p.Settings)
	h := hostsOf(sys, l)
	f.Packing = h.slowest(sys, func(i int) float64 { return packing[i] })
	if err := c.simulated.of(simulation{p.Settings, codec, k, Parts{sys.RPC, sys.Connections.Count}}, &f, func() error {
		return c.simulate(ctx, sys, l, p, packing, rounds, k, &f)
	}); err != nil {
		return f, err
	}
	// The other rounds are packed while bytes are written.
	if written := max(0, f.Storage-f.Packing/rounds); f.Packing+written/rounds > f.Storage {
		f.Storage, f.Bottleneck = f.Packing+written/rounds, "processor"
	}
	whole := *c
	if k > 1 {
		whole.Doubt = math.Hypot(math.Hypot(c.Doubt, coarseDoubtOf(&p.Settings)), f.off)
	}
	whole.serve(sys, &f, p, l, &h)
	return f, f.fits(sys, c.Targets)
}

// fits refuses a checkpoint of which one target may get more than the fullest one has free: file
// systems deal files to targets as they like.
func (f *Forecast) fits(sys *pfs.System, chosen []int) error {
	number, free, ok := sys.Targets.Fullest(chosen)
	if !ok || f.Job.MostOnTarget <= free {
		return nil
	}
	f.full = &FullError{System: sys.Name, Target: number, Free: free, Need: f.Job.MostOnTarget, Same: len(sys.Targets.Free) == 1}
	for i := range sys.Targets.Count {
		if chosen == nil || slices.Contains(chosen, i) {
			f.full.All += int64(sys.Targets.Free[min(i, len(sys.Targets.Free)-1)])
		}
	}
	return f.full
}

// Full says that a target lacks space for it; nil where all have enough.
func (f *Forecast) Full() error {
	if f.full == nil {
		return nil
	}
	return f.full
}

// A FullError says that a target has too little free space, in bytes, whatever is free elsewhere.
type FullError struct {
	System          string
	Target          int
	Free, Need, All int64
	Same            bool // on all targets
}

func (e *FullError) Error() string {
	which := fmt.Sprintf("target %d of %s has", e.Target, e.System)
	if e.Same {
		which = fmt.Sprintf("each target of %s has", e.System)
	}
	return fmt.Sprintf("%s %s free, and the checkpoint puts %s on a target: it fails there, although %s are free in all",
		which, gib(e.Free), gib(e.Need), gib(e.All))
}

func gib(bytes int64) string { return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30)) }

// Hint says what helps.
func (e *FullError) Hint() string {
	return "spread each file over more targets, leave this one out (lfs setstripe -o LIST, or -p POOL, on the directory), or free space there"
}

func (e *FullError) Unwrap() error { return durable.ErrStorageFull }

// jobs are what is written: by the ranks, and beside them the library, of which a request stands
// for k.
func (c *Case) jobs(p *plan.Plan, packing []float64, rounds, k float64) ([]pfs.Job, error) {
	underWay := int(min(depth, max(1, p.Settings.Buffer/plan.WriteBytes)))
	if c.OneStream {
		underWay = 1
	}
	jobs := []pfs.Job{{Plan: p, Sync: true, Depth: underWay, Targets: c.Targets,
		Pack: func(rank int) float64 { return packing[rank] / rounds }}}
	if c.Library == 0 {
		return jobs, nil
	}
	bytes := zones.PageRound(int64(float64(c.Library) / k))
	library, err := (&load{sources: []plan.Source{{Pieces: []plan.Piece{{Bytes: bytes}}}}}).plan(plan.Defaults())
	if err != nil {
		return nil, err
	}
	return append(jobs, pfs.Job{Plan: library, Sync: true, Depth: depth, Targets: c.Targets}), nil
}

// depth is how many writes of a file a rank has under way (image/container).
const depth = 4

// serve adds what ckpt itself takes, and the pause.
func (c *Case) serve(sys *pfs.System, f *Forecast, p *plan.Plan, l *load, h *hosts) {
	f.Coordination = sys.Service.Coordination.Of(len(l.sources), f.Files)
	f.Management = sys.Service.Management.Of(len(l.sources), f.Files)
	latency := f.Coordination + f.Management + f.Storage
	factor := intervalOf(sys, c.Doubt, len(p.Writers))
	f.Latency = Seconds{latency, latency / factor, latency * factor}
	f.Pause = f.Latency
	f.Buffers = c.buffers(sys, p, l)
	if !c.Async {
		return
	}
	rate := float64(sys.Host.Copy)
	if rate <= 0 {
		rate = usualCopy
	}
	f.Copy = h.slowest(sys, func(i int) float64 { return float64(l.copied[i]) / rate })
	if pause := f.Coordination + f.Copy; pause < latency {
		f.Pause = Seconds{pause, pause / factor, pause * factor}
	}
}

// usualCopy is how fast a processor copies memory, in bytes per second.
const usualCopy = 3e9

// buffers returns the memory that the node with the most of it needs.
func (c *Case) buffers(sys *pfs.System, p *plan.Plan, l *load) int64 {
	nodes := make(map[int]int64)
	if c.Async {
		for i, s := range l.sources {
			nodes[s.Node] += l.read[i]
		}
	}
	one := p.Settings.Buffer
	if p.Settings.P3 && p.Settings.Strategy != plan.Individual {
		one *= 2
	}
	if sys.Objects() {
		one = partMemory(sys.RPC, sys.Connections.Count)
	}
	for _, w := range p.Writers {
		nodes[w.Node] += one
	}
	most := int64(0)
	for _, n := range nodes {
		most = max(most, n)
	}
	return most
}

// Doubt that no probe has measured: the standard deviation of the logarithm of a time, and
// how many probes it is worth.
const (
	priorScatter = 0.2
	priorProbes  = 2
)

// writersDoubt is what a factor of e more writers than any probe had adds to that deviation.
const writersDoubt = 0.2

// intervalOf is the factor of the 95 % interval of a time: the misfit of the description,
// the doubt about the bytes, and about writers beyond those that were measured.
func intervalOf(sys *pfs.System, doubt float64, writers int) float64 {
	if most := sys.Misfit.Writers; most > 0 && writers > most {
		doubt = math.Hypot(doubt, writersDoubt*math.Log(float64(writers)/float64(most)))
	}
	n := float64(sys.Misfit.Count)
	variance := (priorProbes*priorScatter*priorScatter + n*sys.Misfit.Scatter*sys.Misfit.Scatter) / (priorProbes + n)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: priorProbes + n}.Quantile(0.975)
	return math.Exp(t * math.Sqrt(variance*(1+1/(priorProbes+n))+doubt*doubt))
}
