package tune

import (
	"context"
	"math"
	"sync"

	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/zones"
)

// A forecast simulates at most so many requests, if a file then still has enough of them. In a
// shared file ranks then meet at other stripes: coarseDoubt is the standard deviation of the
// logarithm of its time that comes from that (TestCoarse).
const (
	mostRequests  = 30_000
	mostGathers   = 200_000
	leastRounds   = 8                  // of an aggregator
	leastPart     = 16 * plan.PageSize // of a rank
	leastRequests = 2                  // of a rank
	leastStripes  = 4                  // of a file on each of its targets
	manyStripes   = 16                 // of all files on each target
	coarseDoubt   = 0.1
	coarseStatic  = 0.23 // the same with static aggregators
)

// coarseDoubtOf is the doubt about a coarse simulation: aggregators of a shared file, and static
// ones, meet at other stripes than in one of all requests.
func coarseDoubtOf(s *plan.Settings) float64 {
	switch {
	case s.Layout == plan.Shared:
		return coarseDoubt
	case s.Layout == plan.Aggregated && s.Strategy == plan.Static:
		return coarseStatic
	}
	return 0
}

// coarseness is how many requests one stands for in the simulation of a load.
func (c *Case) coarseness(sys *pfs.System, l *load, s *plan.Settings) float64 {
	request := float64(sys.RPC)
	if request == 0 {
		request = 1 << 20
	}
	all, least := float64(l.bytes()), 0.0
	for i := range l.sources {
		bytes := 0.0
		for _, p := range l.sources[i].Pieces {
			bytes += float64(p.Bytes)
		}
		if least == 0 || bytes < least {
			least = bytes
		}
	}
	k := min(all/request/mostRequests, least/request/leastRequests)
	if s.Layout == plan.PerRank && s.StripeCount > 1 {
		// Each file is on all of its targets, or so many files are there that each target has
		// its part of them.
		stripes := least / float64(s.StripeSize)
		k = min(k, max(stripes/(float64(s.StripeCount)*leastStripes), stripes*float64(len(l.sources))/(manyStripes*float64(c.targets(sys)))))
	}
	if s.Strategy == plan.Static && s.Layout != plan.PerRank {
		k = max(k, coarseGathers(l, s, all, least))
	}
	if k < 2 {
		return 1
	}
	return k
}

// coarseGathers is how many rounds one stands for with static aggregators: every rank gives a
// part of each round of its aggregator, so that parts are more than requests.
func coarseGathers(l *load, s *plan.Settings, all, least float64) float64 {
	nodes := map[int]bool{}
	for i := range l.sources {
		nodes[l.sources[i].Node] = true
	}
	writers := s.Aggregators
	if writers <= 0 {
		writers = len(nodes)
	}
	rounds := all / float64(writers) / float64(max(s.Buffer, plan.WriteBytes))
	return min(rounds*float64(len(l.sources))/mostGathers, rounds/leastRounds, least/leastPart)
}

// roughFactor is how many times larger requests are where a search compares many options, and
// looks closely at the best of them alone.
const roughFactor = 2

// An extrapolation takes off at most mostOff of the time, after at most mostHalvings runs with
// half as large requests each: beyond that, time does not grow in proportion to the requests.
const (
	mostOff      = 0.1
	mostHalvings = 2
)

// simulate runs a plan in virtual time. Where each request stands for k, the time of a second
// run with half as many requests tells how much the first and the last ones of a rank take too
// much, which grows with k, and takes it off (Richardson's extrapolation).
func (c *Case) simulate(ctx context.Context, sys *pfs.System, l *load, p *plan.Plan, packing []float64, rounds, k float64, f *Forecast) error {
	run := func(p *plan.Plan, k float64) (float64, error) {
		jobs, err := c.jobs(p, packing, rounds, k)
		if err != nil {
			return 0, err
		}
		r, err := pfs.Run(ctx, sys.Coarser(k), jobs, pfs.Options{Seed: c.Seed, Background: c.Background})
		if err != nil {
			return 0, err
		}
		longest := 0.0
		for i := range r.Jobs {
			longest = max(longest, r.Jobs[i].Seconds)
		}
		if f.Use == nil || longest < f.Storage {
			f.Job, f.Use, f.Bottleneck, f.Storage = r.Jobs[0], r.Use, r.Jobs[0].Bottleneck, longest
			f.Job.LockWaits = int64(float64(f.Job.LockWaits) * k)
			f.Job.MostOnTarget = int64(float64(f.Job.MostOnTarget) * k)
		}
		return longest, nil
	}
	again := func(k float64) (float64, error) {
		p, err := l.coarser(k).plan(c.Settings)
		if err != nil {
			return 0, err
		}
		return run(p, k)
	}
	longest, err := run(p, k)
	if err != nil || k == 1 || f.rough || p.Settings.Layout == plan.Shared {
		return err
	}
	twice, err := again(2 * k)
	for i := 0; err == nil && twice > (1+mostOff)*longest && i < mostHalvings && k >= 2; i++ {
		k, twice = k/2, longest
		longest, err = again(k)
	}
	if err != nil {
		return err
	}
	off := min(mostOff*longest, max(0, twice-longest))
	f.Storage, f.off = longest-off, off/longest
	return nil
}

// coarser is the load with a k-th of the bytes.
func (l *load) coarser(k float64) *load {
	if k == 1 {
		return l
	}
	out := &load{sources: make([]plan.Source, len(l.sources))}
	for i, s := range l.sources {
		pieces := make([]plan.Piece, len(s.Pieces))
		for j, p := range s.Pieces {
			p.Bytes = max(plan.PageSize, zones.PageRound(int64(float64(p.Bytes)/k)))
			pieces[j] = p
		}
		out.sources[i] = plan.Source{Rank: s.Rank, Node: s.Node, Pieces: pieces}
	}
	return out
}

// A simulation is what tells the forecasts of one search apart as far as storage goes: settings
// as they take effect, and the codec. Copies of the memory and the name auto change nothing.
type simulation struct {
	settings plan.Settings
	codec    string
	k        float64 // requests that one stands for
	parts    Parts   // of a storage of objects
}

// A simulations keeps what a search has simulated.
type simulations struct {
	mu   sync.Mutex
	done map[simulation]Forecast
}

// of fills a forecast in from an equal simulation, or runs it.
func (s *simulations) of(key simulation, f *Forecast, run func() error) error {
	if s == nil {
		return run()
	}
	s.mu.Lock()
	was, ok := s.done[key]
	s.mu.Unlock()
	if ok {
		f.Job, f.Use, f.Bottleneck, f.Storage, f.off = was.Job, was.Use, was.Bottleneck, was.Storage, was.off
		return nil
	}
	if err := run(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = map[simulation]Forecast{}
	}
	s.done[key] = *f
	return nil
}

// The first and the last step of a search.
const (
	firstStep = 0.7
	lastStep  = 0.01
)

// Descend changes the parameters by a step, one after the other, as long as one of them
// makes the loss smaller. It halves the step when no step does, and returns when the step is
// smaller than lastStep. It changes at. An error of loss ends it.
func Descend(at []float64, loss func([]float64) (float64, error)) (least float64, err error) {
	if least, err = loss(at); err != nil {
		return least, err
	}
	for step := firstStep; step > lastStep; {
		better := false
		for k := range at {
			was := at[k]
			for _, by := range []float64{step, -step} {
				at[k] = was + by
				l, err := loss(at)
				if err != nil {
					return least, err
				}
				if l < least-1e-9 {
					least, better = l, true
					break
				}
				at[k] = was
			}
		}
		if !better {
			step /= 2
		}
	}
	return least, nil
}

// Robust is a loss that is quadratic up to a fifth and linear beyond: one wild value does
// not move a fit far.
func Robust(x float64) float64 {
	const knee = 0.2
	if x = math.Abs(x); x <= knee {
		return x * x / 2
	}
	return knee * (x - knee/2)
}
