package tune

import (
	"math"
	"slices"

	"ckpt/image/plan"
)

// seeds are where searches begin: the default, and each layout and strategy.
func (s *search) seeds(start Option) []Option {
	list := []Option{start}
	if !s.space.Layout {
		return list
	}
	for _, way := range []struct {
		layout   plan.Layout
		strategy plan.Strategy
	}{{plan.PerRank, plan.TwoPhase}, {plan.Aggregated, plan.TwoPhase}, {plan.Aggregated, plan.Static}, {plan.Shared, plan.TwoPhase},
		{plan.Shared, plan.Dynamic}, {plan.Shared, plan.Individual}} {
		o := start
		o.Settings.Layout, o.Settings.Strategy = way.layout, way.strategy
		o.Settings.P4 = false
		if way.layout == plan.Shared && way.strategy == plan.TwoPhase {
			o.Settings.Aggregators = plan.Auto
		} else {
			o.Settings.Aggregators = 0
		}
		list = append(list, o)
	}
	return list
}

// axes are the settings that a descent changes one by one: each gives the neighbours of an
// option.
func (s *search) axes() []func(Option) []Option {
	var list []func(Option) []Option
	if s.space.Aggregators {
		list = append(list, s.aggregatorsOf)
	}
	if s.space.Stripes {
		list = append(list, s.stripesOf)
	}
	if s.space.Layout {
		list = append(list, manyOf)
	}
	if s.space.Buffer {
		list = append(list, buffersOf)
	}
	if s.space.Codec {
		list = append(list, s.codecsOf)
	}
	return list
}

// aggregatorsOf varies the number of aggregators, where there are any.
func (s *search) aggregatorsOf(o Option) []Option {
	if o.Forecast.Settings.Strategy == plan.Individual && o.Forecast.Settings.Layout != plan.Aggregated {
		return nil
	}
	nodes := len(s.c.Mapping)
	np := s.ranks()
	numbers := []int{1, nodes, 2 * nodes, 4 * nodes, np / 2, np}
	for n := 2; n < np; n *= 4 {
		numbers = append(numbers, n)
	}
	if o.Settings.Layout == plan.Shared && o.Settings.Strategy == plan.TwoPhase {
		numbers = append(numbers, plan.Auto, o.Forecast.Settings.StripeCount)
	}
	slices.Sort(numbers)
	var list []Option
	for _, n := range slices.Compact(numbers) {
		if n == 0 || n > np {
			continue
		}
		x := o
		x.Settings.Aggregators = n
		list = append(list, x)
	}
	return list
}

// stripesOf varies how a file is striped. The layout per rank has no stripes of its own,
// but its files lie on targets too.
func (s *search) stripesOf(o Option) []Option {
	var list []Option
	targets := max(1, s.sys.Targets.Count)
	counts := []int{1, 4, targets / 2, targets, 2 * targets}
	slices.Sort(counts)
	for _, n := range slices.Compact(counts) {
		if n < 1 || n > min(2000, max(targets, 1)) {
			continue
		}
		x := o
		x.Settings.StripeCount, x.Settings.FirstOST = n, 0
		list = append(list, x)
	}
	if o.Settings.Layout != plan.Shared {
		return list
	}
	for _, size := range []int64{1 << 20, 4 << 20} {
		x := o
		x.Settings.StripeSize = size
		x.Settings.Buffer = max(x.Settings.Buffer, size)
		list = append(list, x)
	}
	return list
}

// manyOf is the other value of P4, where it has an effect.
func manyOf(o Option) []Option {
	if o.Settings.Layout != plan.Shared || o.Settings.Strategy != plan.TwoPhase {
		return nil
	}
	o.Settings.P4, o.Settings.Aggregators = !o.Settings.P4, plan.Auto
	return []Option{o}
}

// buffersOf varies the buffer of aggregators, and whether there are two. A rank that writes
// for itself fills none.
func buffersOf(o Option) []Option {
	var list []Option
	if o.Forecast.Settings.Strategy == plan.Individual {
		return nil
	}
	for _, mib := range []int64{4, 8, 16, 32, 64} {
		x := o
		x.Settings.Buffer = mib << 20
		if x.Settings.Layout == plan.Shared && x.Settings.Buffer < x.Settings.StripeSize {
			continue
		}
		list = append(list, x)
	}
	x := o
	x.Settings.P3 = !o.Settings.P3
	return append(list, x)
}

// codecsOf varies the codec.
func (s *search) codecsOf(o Option) []Option {
	if !s.space.Codec {
		return nil
	}
	var list []Option
	for _, codec := range codecs {
		x := o
		x.Codec = codec
		list = append(list, x)
	}
	return list
}

// asyncOf is the other value of Async.
func (s *search) asyncOf(o Option) []Option {
	if !s.space.Async {
		return nil
	}
	o.Async = !o.Async
	return []Option{o}
}

// ranks is how many ranks the case has.
func (s *search) ranks() int { return s.c.ranks() }

// roughly gives numbers within about one part in so many the same value.
func roughly(v, parts float64) float64 {
	if v <= 0 {
		return math.Inf(-1)
	}
	return math.Round(math.Log(v) * parts)
}
