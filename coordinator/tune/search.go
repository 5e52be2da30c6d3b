// Package tune predicts how long a checkpoint takes on a storage that package pfs
// describes, and finds the settings that suit it.
//
//	f, err := tune.Predict(ctx, system, c)                 // seconds, phases, the bottleneck
//	choice, err := tune.Search(ctx, system, c, tune.Pause) // the best settings, and why
//
// The plan of the checkpoint is the one that the ranks would carry out; pfs carries it
// out in virtual time. So nodes share what they share on the storage: a server, a
// router, the processors of a host.
//
//	latency = coordination + management + storage
//
// Coordination and management come from the description's service. Storage is the
// simulation: files are created, extents packed, gathered, written and made durable. Of
// several rounds the first is packed before anything is written, and the others while
// the round before is written. With Async the application continues once its memory is
// copied, and the pause is coordination and the copy.
//
// An Adapter follows a job that runs. Where its checkpoints disagree with their forecasts,
// it scales the description by what was measured, and looks for a better way.
//
// # Promises
//
//   - A forecast is a function of its input, and of the seed.
//   - Search never chooses what it predicts to be worse than the default, nor what
//     exceeds the limit of memory.
//   - The interval of a forecast holds what the description missed of probes that were
//     kept apart, and the doubt about the stored bytes.
package tune

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/image/pfs"
	"ckpt/image/plan"

	"golang.org/x/sync/errgroup"
)

// An Objective is what a search makes as small as it can.
type Objective string

// The objectives.
const (
	Pause   Objective = "pause"
	Latency Objective = "latency"
	Bytes   Objective = "bytes"
)

// ParseObjective reads one.
func ParseObjective(text string) (Objective, error) {
	switch o := Objective(text); o {
	case Pause, Latency, Bytes:
		return o, nil
	}
	return "", fmt.Errorf("objective %q is unknown (want pause, latency or bytes)", text)
}

// of returns what is compared first, and what decides between equals.
func (o Objective) of(f *Forecast) (first, second float64) {
	switch o {
	case Latency:
		return f.Latency.Value, f.Pause.Value
	case Bytes:
		return float64(f.Bytes), f.Latency.Value
	}
	return f.Pause.Value, f.Latency.Value
}

// An Option is one way to write, and what it is predicted to take.
type Option struct {
	Settings plan.Settings // as they were given: a zero number means the default
	Codec    string
	Async    bool
	Parts    Parts // zero: as the storage is described
	Forecast Forecast
	// Why says what it relieves, in comparison with the default.
	Why string
}

// A Choice is what a search has found.
type Choice struct {
	Objective Objective
	Default   Option
	Best      Option
	// Ranking has all options that were predicted, the best first. Options that exceed
	// the limit of memory are left out.
	Ranking []Option
	// Gain is by what factor the best is better than the default: 1 if it is the default.
	Gain float64
}

// A Space says what a search may change. The zero value keeps everything.
type Space struct {
	Codec, Buffer, Aggregators, Layout, Stripes, Async, Parts bool
}

// Everything lets a search change everything. Start is what a job may begin with: files are striped
// as their directory is. Between has what may change between two checkpoints: memory for copies is
// taken when ranks start.
var (
	Everything = Space{true, true, true, true, true, true, true}
	Start      = Space{Codec: true, Buffer: true, Aggregators: true, Layout: true, Async: true}
	Between    = Space{Codec: true, Buffer: true, Aggregators: true, Layout: true}
)

// SpaceOf is the part of a space in which a job is tuned. Other codecs make the checkpoints on its
// nodes slower, where a job has some, and what they leave of a program's memory is not known.
func SpaceOf(r *job.Resolved, s Space, objective Objective) Space {
	s.Codec = s.Codec && r.Program == nil && (r.Tier == nil || objective == Bytes)
	s.Async = s.Async && r.Tier == nil
	return s
}

// margin is by how much an option must be better than the default before it replaces it:
// a part of what the description misses, within bounds.
func margin(sys *pfs.System) float64 {
	const least, most = 0.02, 0.25
	return min(most, max(least, sys.Misfit.Scatter/2))
}

// Search finds the settings that make the objective of a case least. The settings of the
// case are the default with which all others are compared.
func Search(ctx context.Context, sys *pfs.System, c Case, objective Objective) (Choice, error) {
	return SearchIn(ctx, sys, c, objective, Everything)
}

// SearchIn is Search in a part of the space.
func SearchIn(ctx context.Context, sys *pfs.System, c Case, objective Objective, space Space) (Choice, error) {
	s := search{sys: sys, c: c, objective: objective, space: space, seen: make(map[string]int)}
	s.c.simulated, s.c.rough = &simulations{}, true
	start := Option{Settings: c.Settings, Codec: cmp.Or(c.Codec, none), Async: c.Async}
	if err := s.try(ctx, []Option{start}); err != nil {
		return Choice{}, err
	}
	if len(s.options) == 0 {
		return Choice{}, &LimitError{Limit: c.Limit, Need: s.need}
	}
	s.assumed = s.options[0].Forecast.Codec
	seeds := s.seeds(start)
	if err := s.try(ctx, seeds); err != nil {
		return Choice{}, err
	}
	for _, seed := range seeds {
		if err := s.descend(ctx, seed); err != nil {
			return Choice{}, err
		}
	}
	if err := s.finish(ctx); err != nil {
		return Choice{}, err
	}
	if err := s.closely(ctx); err != nil {
		return Choice{}, err
	}
	found := s.choice()
	return found, found.Best.Forecast.Full()
}

// closely predicts the default, the best options and the best of each way to write once more,
// where their times are rough ones, until those that come first stay.
func (s *search) closely(ctx context.Context) error {
	const first, rounds = 3, 4
	for range rounds {
		list := s.leading(first)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for _, o := range list {
			g.Go(func() (err error) {
				c := s.c
				c.Settings, c.Codec, c.Async, c.assumed, c.rough = o.Settings, o.Codec, o.Async, o.Forecast.Codec, false
				if o.Forecast, err = Predict(gctx, o.Parts.On(s.sys), c); o.Forecast.full != nil {
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil || len(list) == 0 {
			return err
		}
	}
	return nil
}

// leading are the options with rough times among the default, so many of the best, and the best
// of each way to write.
func (s *search) leading(first int) (list []*Option) {
	ways := make(map[string]bool)
	for i, k := range s.order() {
		o := &s.options[k]
		way := fmt.Sprint(o.Settings.Layout, o.Settings.Strategy)
		if o.Forecast.rough && (k == 0 || i < first || !ways[way]) {
			list = append(list, o)
		}
		ways[way] = true
	}
	return list
}

// A LimitError says that the default takes more memory of a node than is allowed.
type LimitError struct{ Limit, Need int64 }

func (e *LimitError) Error() string {
	return fmt.Sprintf("the settings need %d bytes of a node for buffers and copies, the limit is %d", e.Need, e.Limit)
}

// A search has tried some options.
type search struct {
	need      int64  // bytes of a node that the default takes
	assumed   string // the codec that auto chooses for the default
	sys       *pfs.System
	c         Case
	objective Objective
	space     Space
	options   []Option       // the first is the default
	seen      map[string]int // index into options by key, -1: not possible
}

// Same reports whether both write in the same way.
func (o *Option) Same(other *Option) bool { return o.key() == other.key() }

func (o *Option) key() string {
	return fmt.Sprintf("%+v %s %t %v", o.Settings, o.Codec, o.Async, o.Parts)
}

// try predicts the options that are new. Those that are impossible, or exceed the limit
// of memory, are left out; an error about the default is one.
func (s *search) try(ctx context.Context, list []Option) error {
	var fresh []Option
	for _, o := range list {
		if _, ok := s.seen[o.key()]; !ok {
			s.seen[o.key()] = -1
			fresh = append(fresh, o)
		}
	}
	failed := make([]error, len(fresh))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range fresh {
		g.Go(func() error {
			c := s.c
			c.Settings, c.Codec, c.Async, c.assumed = fresh[i].Settings, fresh[i].Codec, fresh[i].Async, s.assumed
			fresh[i].Forecast, failed[i] = Predict(gctx, fresh[i].Parts.On(s.sys), c)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, o := range fresh {
		if failed[i] != nil {
			if len(s.options) > 0 {
				continue // these settings do not suit the job
			}
			if o.Forecast.full == nil {
				return failed[i]
			} // others may fit where the default does not
		}
		if s.c.Limit > 0 && o.Forecast.Buffers > s.c.Limit {
			if s.need == 0 {
				s.need = o.Forecast.Buffers
			}
			continue
		}
		s.seen[o.key()] = len(s.options)
		s.options = append(s.options, o)
	}
	return nil
}

// better reports whether a is better than b.
func (s *search) better(a, b *Option) bool { return s.compare(a, b) < 0 }

// compare orders options: by the objective, by what decides between equals, by how many
// settings differ from the default, by the memory they take, and in the end by their text,
// so that the order is always the same. Differences below a two-hundredth do not count.
func (s *search) compare(a, b *Option) int {
	a1, a2 := s.objective.of(&a.Forecast)
	b1, b2 := s.objective.of(&b.Forecast)
	return cmp.Or(compareFull(a, b), compareRoughly(a1, b1), compareRoughly(a2, b2), cmp.Compare(s.changes(a), s.changes(b)),
		cmp.Compare(a.Forecast.Buffers, b.Forecast.Buffers), cmp.Compare(a.key(), b.key()))
}

// compareFull puts what does not fit last.
func compareFull(a, b *Option) int {
	rank := func(o *Option) int {
		if o.Forecast.full != nil {
			return 1
		}
		return 0
	}
	return cmp.Compare(rank(a), rank(b))
}

func compareRoughly(a, b float64) int {
	const bands = 200
	return cmp.Compare(roughly(a, bands), roughly(b, bands))
}

// changes counts the settings of an option that differ from the default.
func (s *search) changes(o *Option) int {
	d, n := &s.options[0], 0
	for _, same := range []bool{o.Settings.Layout == d.Settings.Layout, o.Settings.Strategy == d.Settings.Strategy,
		o.Settings.Aggregators == d.Settings.Aggregators, o.Settings.Buffer == d.Settings.Buffer, o.Settings.StripeSize == d.Settings.StripeSize,
		o.Settings.StripeCount == d.Settings.StripeCount, o.Settings.P3 == d.Settings.P3, o.Settings.P4 == d.Settings.P4,
		o.Codec == d.Codec, o.Async == d.Async, o.Parts == d.Parts} {
		if !same {
			n++
		}
	}
	return n
}

// descend improves a seed, one setting after the other. A seed that comes near the best
// found so far has a second pass.
func (s *search) descend(ctx context.Context, seed Option) error {
	at := s.seen[seed.key()]
	if at < 0 {
		return nil
	}
	const passes, near = 2, 1.25
	for range passes {
		before := at
		for _, axis := range s.axes() {
			list := axis(s.options[at])
			if err := s.try(ctx, list); err != nil {
				return err
			}
			for i := range list {
				if k := s.seen[list[i].key()]; k >= 0 && s.better(&s.options[k], &s.options[at]) {
					at = k
				}
			}
		}
		is, _ := s.objective.of(&s.options[at].Forecast)
		best, _ := s.objective.of(&s.options[s.order()[0]].Forecast)
		if at == before || is > near*best {
			return nil
		}
	}
	return nil
}

// finish tries what goes with the best options found: the other codecs, and Async. Those
// with auto are predicted again, with a codec of their own.
func (s *search) finish(ctx context.Context) error {
	const most = 4
	order := s.order()
	s.assumed = ""
	var list []Option
	for _, k := range order[:min(most, len(order))] {
		if o := &s.options[k]; o.Codec == auto && k > 0 {
			c := s.c
			c.Settings, c.Codec, c.Async = o.Settings, o.Codec, o.Async
			var err error
			if o.Forecast, err = Predict(ctx, o.Parts.On(s.sys), c); err != nil && o.Forecast.full == nil {
				return err
			}
		}
		for _, o := range s.codecsOf(s.options[k]) {
			list = append(list, o)
			list = append(list, s.asyncOf(o)...)
		}
		list = append(list, s.asyncOf(s.options[k])...)
	}
	return s.try(ctx, list)
}

// order returns the options, the best first.
func (s *search) order() []int {
	order := make([]int, len(s.options))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return s.compare(&s.options[a], &s.options[b]) })
	return order
}

// choice ranks the options.
func (s *search) choice() Choice {
	c := Choice{Objective: s.objective, Default: s.options[0], Gain: 1}
	c.Default.Why = why(&c.Default, &c.Default, s.objective)
	for _, k := range s.order() {
		o := s.options[k]
		o.Why = why(&c.Default, &o, s.objective)
		c.Ranking = append(c.Ranking, o)
	}
	c.Best = c.Default
	was, _ := s.objective.of(&c.Default.Forecast)
	is, _ := s.objective.of(&c.Ranking[0].Forecast)
	if is < was*(1-margin(s.sys)) || compareFull(&c.Ranking[0], &c.Default) < 0 {
		c.Best = c.Ranking[0]
		c.Gain = was / is
	}
	return c
}
