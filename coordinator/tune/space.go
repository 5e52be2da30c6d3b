package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/image/pfs"
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
	if s.space.Parts && s.sys.Objects() {
		list = append(list, s.partsOf)
	}
	if s.space.Stripes && !s.sys.Objects() {
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
		// Numbers that lie close to each other take as long.
		if !slices.ContainsFunc(numbers, func(m int) bool { return m > 8 && 2*n < 3*m && 2*m < 3*n }) {
			numbers = append(numbers, n)
		}
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
	targets := s.c.targets(s.sys)
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
// for itself does without.
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

// why says what an option relieves in comparison with the default: the part of the time
// that shrinks most, and where the option itself spends it.
func why(was, is *Option, objective Objective) string {
	if was.key() == is.key() {
		return "the default; " + waits(&is.Forecast)
	}
	a, b := &was.Forecast, &is.Forecast
	var parts []string
	if objective == Bytes || float64(b.Bytes) < 0.95*float64(a.Bytes) {
		parts = append(parts, change("stored bytes", float64(a.Bytes), float64(b.Bytes)))
	}
	if is.Async && !was.Async {
		parts = append(parts, fmt.Sprintf("the application waits for a copy of its memory, %s, not for the storage", seconds(b.Copy)))
	}
	if name, from, to := mostRelieved(a, b); name != "" {
		parts = append(parts, fmt.Sprintf("%s %s in place of %s", name, seconds(to), seconds(from)))
	}
	parts = append(parts, waits(b))
	return strings.Join(parts, "; ")
}

// waits says what a checkpoint waits for most.
func waits(f *Forecast) string {
	if f.Bottleneck == "" {
		return "nothing is waited for"
	}
	return "most time: " + f.Bottleneck
}

// A phase of a forecast with its name.
type phase struct {
	name string
	of   func(*Forecast) float64
}

// phases are compared between options, by what the slowest writer spends in them.
var phases = []phase{
	{"waiting for locks", func(f *Forecast) float64 { return f.Job.Phases.LockWait.Max }},
	{"creating files", func(f *Forecast) float64 { return f.Job.Phases.Create.Max }},
	{"packing", func(f *Forecast) float64 { return f.Packing }},
	{"gathering", func(f *Forecast) float64 { return f.Job.Phases.Gather.Max }},
	{"writing", func(f *Forecast) float64 { return f.Job.Phases.Write.Max }},
	{"making durable", func(f *Forecast) float64 { return f.Job.Phases.Sync.Max }},
	{"waiting for a turn", func(f *Forecast) float64 { return f.Job.Phases.Wait.Max }},
}

// mostRelieved returns the phase that loses most seconds; none if none loses a fiftieth of
// the latency.
func mostRelieved(a, b *Forecast) (name string, from, to float64) {
	most := a.Latency.Value / 50
	for _, p := range phases {
		if lost := p.of(a) - p.of(b); lost > most {
			most, name, from, to = lost, p.name, p.of(a), p.of(b)
		}
	}
	return name, from, to
}

func change(name string, from, to float64) string {
	if from <= 0 {
		return name
	}
	return fmt.Sprintf("%s %+.0f %%", name, 100*(to/from-1))
}

// seconds writes a time with three digits.
func seconds(s float64) string {
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s < 1000:
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.0f s", math.Round(s))
}

// The codecs that a search tries, the cheapest first. Auto chooses among them.
var codecs = []string{none, "s2", "zstd", "gzip"}

const (
	none = "none"
	auto = "auto"
)

// A speed is a codec's: bytes of memory that a processor packs and unpacks in a second, and
// what is left of them.
type speed struct{ rate, ratio, unpack float64 }

// usual are the speeds of codecs that a description does not have, on the data of live
// solvers and a processor of 2.6 GHz (docs/CODECS.md). Without a codec it is digests and
// checksums.
var usual = map[string]speed{none: {1.5e9, 1, 5.5e9}, "s2": {0.8e9, 0.73, 2.3e9}, "zstd": {0.3e9, 0.69, 1.7e9}, "gzip": {0.15e9, 0.69, 0.17e9}}

// speedOf returns the speed of a codec on the processors of a system.
func speedOf(sys *pfs.System, codec string) speed {
	s := usual[codec]
	known, ok := sys.Codecs[codec]
	if !ok {
		return s
	}
	if known.Pack > 0 {
		s.rate = float64(known.Pack)
	}
	if known.Unpack > 0 {
		s.unpack = float64(known.Unpack)
	}
	if known.Ratio > 0 && codec != none {
		s.ratio = known.Ratio
	}
	return s
}

// looked returns how long one processor looks at what a rank stores: for zeros, and with
// Incremental for what has changed. Without, the checksums are made while the bytes are
// written.
func (c *Case) looked(sys *pfs.System, read int64) float64 {
	if !c.Incremental {
		return 0
	}
	return float64(read) / speedOf(sys, none).rate
}

// packing returns the seconds of one processor that each rank needs for its memory, by its
// position.
func (c *Case) packing(sys *pfs.System, l *load, codec string) []float64 {
	list := make([]float64, len(l.sources))
	for i := range list {
		switch {
		case c.Packing != nil:
			list[i] = c.Packing(l.sources[i].Rank)
		case c.Memory != nil:
		default:
			list[i] = c.looked(sys, l.read[i])
			if codec != none && !c.Whole {
				list[i] += float64(l.offered[i]) / speedOf(sys, codec).rate
			}
		}
	}
	return list
}

// The rounds in which a rank packs: of so many chunks of memory (docs/FORMAT.md).
const (
	chunksAlone    = 4
	chunksTogether = 16
)

// rounds is how many rounds the rank with the most memory packs in.
func (c *Case) rounds(l *load, s *plan.Settings) float64 {
	if c.Memory != nil || c.Packing != nil {
		return 1
	}
	chunks := int64(chunksTogether)
	if s.Layout == plan.PerRank {
		chunks = chunksAlone
	}
	most := int64(1)
	for _, n := range l.read {
		most = max(most, n)
	}
	return math.Ceil(float64(most) / float64(chunks*plan.WriteBytes))
}

// A host is where ranks share processors.
type hosts struct {
	of    []int // by position of the rank
	count int
}

func hostsOf(sys *pfs.System, l *load) hosts {
	h := hosts{of: make([]int, len(l.sources))}
	if sys.Host.OneHost {
		h.count = 1
		return h
	}
	index := make(map[int]int)
	for i := range l.sources {
		n, ok := index[l.sources[i].Node]
		if !ok {
			n = len(index)
			index[l.sources[i].Node] = n
		}
		h.of[i] = n
	}
	h.count = len(index)
	return h
}

// slowest returns the longest time that a host needs for work of its ranks, each of which
// uses one processor at a time.
func (h *hosts) slowest(sys *pfs.System, seconds func(i int) float64) float64 {
	sums, longest := make([]float64, h.count), make([]float64, h.count)
	for i, host := range h.of {
		s := seconds(i)
		sums[host] += s
		longest[host] = max(longest[host], s)
	}
	worst := 0.0
	for i := range sums {
		worst = max(worst, longest[i], sums[i]/float64(max(1, sys.Host.Processors)))
	}
	return worst
}
