package interval

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// An Estimated number has an interval that holds the true one in 95 of 100 cases.
type Estimated struct {
	Value float64 `json:"estimate"`
	Low   float64 `json:"estimate_low"`
	High  float64 `json:"estimate_high"`
}

// FailureStats is what a failure log tells. Times are in seconds.
type FailureStats struct {
	Form     string  `json:"log_form"`
	Records  int     `json:"record_count"`
	Skipped  int     `json:"skipped_records"`
	Failures int     `json:"failure_count"` // records that begin within a minute are one
	Span     float64 `json:"observed_s"`
	// MTBF is of the machine. Shape is of the Weibull distribution of the times between
	// failures: below 1 they cluster. It ends at MostShape: gaps that are all but equal
	// bound it from below only.
	MTBF  Estimated `json:"machine_mtbf"`
	Shape Estimated `json:"weibull_shape"`
	// Trend compares the times of the failures with a constant rate.
	Trend  FailureTrend  `json:"failure_trend"`
	Repair *RepairTimes  `json:"repair_times"`  // null if the log has no ends
	Nodes  *FailingNodes `json:"failing_nodes"` // null if the log names no nodes
	Kinds  []KindCount   `json:"failure_kind_list"`
}

// A FailureTrend is Laplace's test: U is normal if the rate is constant. Share is how often a
// constant rate shows as much, with times between failures that vary as these do (Lewis and
// Robinson).
type FailureTrend struct {
	U     float64 `json:"laplace_u"`
	Share float64 `json:"laplace_share"`
	Older float64 `json:"older_mtbf_s"` // of the older half of the failures, and of the newer
	Newer float64 `json:"newer_mtbf_s"`
}

// Clear says that the rate is not constant.
func (t *FailureTrend) Clear() bool { return t.Share < 0.05 }

// RepairTimes are the times from the start to the end of a record. Max is the longest of the
// log, and estimates nothing.
type RepairTimes struct {
	Count    int       `json:"count"`
	Median   Estimated `json:"repair_median"`
	Mean     float64   `json:"repair_mean_s"`
	MeanLow  float64   `json:"repair_mean_low_s"`
	MeanHigh float64   `json:"repair_mean_high_s"`
	P95      float64   `json:"repair_p95_s"`
	P95Low   float64   `json:"repair_p95_low_s"`
	P95High  float64   `json:"repair_p95_high_s"`
	Max      float64   `json:"max_s"`
}

// FailingNodes tells how the failures are spread over the nodes.
type FailingNodes struct {
	Machine int `json:"machine_nodes"` // 0 if not known
	Failed  int `json:"failed_nodes"`
	// Worst nodes have a quarter of the failures of the log or more: their share. Both are
	// counted, and estimate nothing.
	Worst int     `json:"worst_nodes"`
	Share float64 `json:"worst_share"`
	// Offenders fail more often than chance explains, at a level of 5 % for all nodes
	// together. Without is the MTBF of the machine without them, null if there is none.
	Offenders []NodeCount `json:"offender_list"`
	Without   *float64    `json:"other_mtbf_s"`
	// WithoutLow and WithoutHigh are the ends of its interval.
	WithoutLow  *float64 `json:"other_mtbf_low_s"`
	WithoutHigh *float64 `json:"other_mtbf_high_s"`
}

// A NodeCount is how often a node failed.
type NodeCount struct {
	Node  string `json:"name"`
	Count int    `json:"count"`
}

// A KindCount is how many records have a kind.
type KindCount struct {
	Kind  string `json:"failure_kind"`
	Count int    `json:"count"`
}

// Together is the time within which records are one failure, in seconds.
const Together = 60

// Stats analyses a log. Nodes, if not 0, is the number of nodes of the machine.
func (l *FailureLog) Stats(nodes int) (*FailureStats, error) {
	starts := l.starts(nil)
	if len(starts) < leastFailures {
		return nil, outOfRange("number of failures", len(starts), "tell no rate: records that begin within a minute are one failure", "give a log with 3 or more")
	}
	gaps := differences(starts)
	s := &FailureStats{Form: l.Form, Records: len(l.Failures), Skipped: l.Skipped, Failures: len(starts), Span: l.To - l.From, Kinds: l.kinds()}
	s.Shape = weibullShape(gaps)
	s.MTBF = meanGap(gaps, s.Shape)
	s.Trend = trend(starts, gaps)
	s.Repair = l.repairs()
	if nodes == 0 {
		nodes = l.Nodes
	}
	s.Nodes = l.nodes(nodes)
	return s, nil
}

// Period is after how many seconds the log may begin again. Where it ends with a failure, a gap of
// the mean length comes before the first.
func (l *FailureLog) Period() float64 {
	starts, span := l.starts(nil), l.To-l.From
	last := len(starts) - 1
	if gap := l.Failures[0].Start - l.From + l.To - l.Failures[len(l.Failures)-1].Start; gap > 0 || last < 1 {
		return span
	}
	return span + (starts[last]-starts[0])/float64(last)
}

// starts are the times of failures, those that are together once. Without are nodes to leave
// out.
func (l *FailureLog) starts(without []NodeCount) (out []float64) {
	for _, f := range l.Failures {
		if slices.ContainsFunc(without, func(n NodeCount) bool { return n.Node == f.Node }) {
			continue
		}
		if n := len(out); n == 0 || f.Start-out[n-1] > Together {
			out = append(out, f.Start)
		}
	}
	return out
}

func differences(starts []float64) (gaps []float64) {
	for i := 1; i < len(starts); i++ {
		gaps = append(gaps, starts[i]-starts[i-1])
	}
	return gaps
}

// MostShape is the largest shape that is looked for.
const MostShape = 100

// weibullShape is the most likely shape of a Weibull distribution, with the interval of its
// profile likelihood. The bound of the likelihood ratio is that of an F distribution, which
// keeps the interval honest for few gaps.
func weibullShape(gaps []float64) Estimated {
	n, logs := float64(len(gaps)), make([]float64, len(gaps))
	top, sum := math.Inf(-1), 0.0
	for i, x := range gaps {
		logs[i] = math.Log(x)
		top, sum = max(top, logs[i]), sum+logs[i]
	}
	// profile is the log likelihood of a shape with its best scale, but for a constant, and
	// its slope.
	profile := func(k float64) (l, slope float64) {
		powers, weighted := 0.0, 0.0
		for _, x := range logs {
			p := math.Exp(k * (x - top))
			powers, weighted = powers+p, weighted+p*x
		}
		return n*math.Log(k) - n*(k*top+math.Log(powers/n)) + k*sum, n/k + sum - n*weighted/powers
	}
	const lowest, highest = 0.01, MostShape
	best := bisection(lowest, highest, func(k float64) bool { _, slope := profile(k); return slope > 0 })
	at, _ := profile(best)
	bound := distuv.F{D1: 1, D2: max(1, n-1)}.Quantile(0.95) / 2
	below := func(k float64) bool { l, _ := profile(k); return at-l > bound }
	return Estimated{best, bisection(lowest, best, below), bisection(best, highest, func(k float64) bool { return !below(k) })}
}

// bisection finds where a condition that holds at the low end ceases to, on a logarithmic scale.
func bisection(low, high float64, holds func(float64) bool) float64 {
	for range 60 {
		if mid := math.Sqrt(low * high); holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Sqrt(low * high)
}

// meanGap is the mean time between failures. The mean of Weibull gaps has about a gamma
// distribution of the same variance, which is exact for exponential ones. The shape is taken
// where the interval is wider: a quarter of the way to the low end of its own interval, or 1
// if that is in the interval and lower than the most likely one.
func meanGap(gaps []float64, shape Estimated) Estimated {
	n, mean := float64(len(gaps)), stat.Mean(gaps, nil)
	k := math.Sqrt(shape.Value * math.Sqrt(shape.Value*shape.Low))
	if shape.Low <= 1 && shape.Value >= 1 {
		k = 1
	}
	k = min(10, max(0.2, k))
	spread := math.Gamma(1+2/k)/math.Pow(math.Gamma(1+1/k), 2) - 1 // variance over the squared mean
	g := distuv.Gamma{Alpha: n / spread, Beta: n / spread}
	return Estimated{mean, mean / g.Quantile(0.975), mean / g.Quantile(0.025)}
}

// trend is Laplace's test of the failures between the first and the last.
func trend(starts, gaps []float64) FailureTrend {
	first, last := starts[0], starts[len(starts)-1]
	inner := starts[1 : len(starts)-1]
	n := float64(len(inner))
	t := FailureTrend{Share: 1, U: (stat.Mean(inner, nil) - (first+last)/2) / (last - first) * math.Sqrt(12*n)}
	if spread := stat.StdDev(gaps, nil) / stat.Mean(gaps, nil); spread > 0 {
		t.Share = math.Erfc(math.Abs(t.U) / spread / math.Sqrt2)
	}
	half := len(gaps) / 2
	t.Older, t.Newer = stat.Mean(gaps[:half], nil), stat.Mean(gaps[half:], nil)
	return t
}

// repairs sums up the times of repair.
func (l *FailureLog) repairs() *RepairTimes {
	var list []float64
	for _, f := range l.Failures {
		if !math.IsNaN(f.End) {
			list = append(list, f.End-f.Start)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	r := &RepairTimes{Count: len(list), Median: MedianOf(list), Mean: stat.Mean(list, nil), P95: stat.Quantile(0.95, stat.Empirical, list, nil), Max: list[len(list)-1]}
	mean, p95 := repairFactors(list)
	r.MeanLow, r.MeanHigh = r.Mean/mean, r.Mean*mean
	r.P95Low, r.P95High = r.P95/p95, r.P95*p95
	return r
}

// Before any repair is seen, the logarithm of a time of repair has usualRepair as standard
// deviation, worth so many repairs. Times of repair are close to log-normal (Schroeder and
// Gibson 2010).
const (
	usualRepair  = 1.2
	repairsWorth = 2
)

// repairFactors are the factors of the 95 % intervals of the mean and of the 95th percentile of
// log-normal times (Cox's method for the mean).
func repairFactors(list []float64) (mean, p95 float64) {
	logs := make([]float64, len(list))
	for i, x := range list {
		logs[i] = math.Log(max(1, x))
	}
	n, centre, sum := float64(len(logs)), stat.Mean(logs, nil), 0.0
	for _, x := range logs {
		sum += (x - centre) * (x - centre)
	}
	dof := n - 1 + repairsWorth
	variance := (repairsWorth*usualRepair*usualRepair + sum) / dof
	t := distuv.StudentsT{Sigma: 1, Nu: dof}.Quantile(0.975)
	// The variance of a percentile that is read off a sample, for a normal distribution.
	const ofP95 = 4.5
	mean = math.Exp(t * math.Sqrt(variance/n+variance*variance/(2*dof)))
	return mean, math.Exp(t * math.Sqrt(variance*ofP95/n))
}

// MedianOf is the median of sorted numbers. Its interval is from one of them to another, as a
// binomial distribution says; of fewer than six it is all of them, and holds less than 95 %.
func MedianOf(sorted []float64) Estimated {
	n := len(sorted)
	e := Estimated{Value: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1]}
	b := distuv.Binomial{N: float64(n), P: 0.5}
	for k := 0; k < n/2 && b.CDF(float64(k)) <= 0.025; k++ {
		e.Low, e.High = sorted[k], sorted[n-1-k]
	}
	return e
}

// nodes tells how the failures are spread over so many nodes.
func (l *FailureLog) nodes(machine int) *FailingNodes {
	by, last := map[string]int{}, map[string]float64{}
	for _, f := range l.Failures {
		// As of the machine, records of a node that begin together are one failure.
		if before, seen := last[f.Node]; f.Node != "" && (!seen || f.Start-before > Together) {
			by[f.Node]++
			last[f.Node] = f.Start
		}
	}
	if len(by) == 0 {
		return nil
	}
	list := make([]NodeCount, 0, len(by))
	all := 0
	for node, count := range by {
		list, all = append(list, NodeCount{node, count}), all+count
	}
	slices.SortFunc(list, func(a, b NodeCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Node, b.Node)) })
	f := &FailingNodes{Machine: machine, Failed: len(by), Offenders: []NodeCount{}}
	for sum := 0; 4*sum < all; f.Worst++ {
		sum += list[f.Worst].Count
		f.Share = float64(sum) / float64(all)
	}
	n := float64(max(machine, len(by)))
	chance := distuv.Poisson{Lambda: float64(all) / n}
	for _, node := range list {
		if 1-chance.CDF(float64(node.Count-1)) >= 0.05/n {
			break
		}
		f.Offenders = append(f.Offenders, node)
	}
	if rest := l.starts(f.Offenders); len(f.Offenders) > 0 && len(rest) >= leastFailures {
		gaps := differences(rest)
		mtbf := meanGap(gaps, weibullShape(gaps))
		f.Without, f.WithoutLow, f.WithoutHigh = &mtbf.Value, &mtbf.Low, &mtbf.High
	}
	return f
}

func (l *FailureLog) kinds() []KindCount {
	by := map[string]int{}
	for _, f := range l.Failures {
		if f.Kind != "" {
			by[f.Kind]++
		}
	}
	list := make([]KindCount, 0, len(by))
	for kind, count := range by {
		list = append(list, KindCount{kind, count})
	}
	slices.SortFunc(list, func(a, b KindCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind)) })
	return list
}

// Spares is how many nodes must stand by so that a job with a share of the machine's nodes finds
// one for each that is in repair, in 95 of 100 cases; the interval has the doubt about the rate
// and about the mean repair.
func (s *FailureStats) Spares(share float64) Estimated {
	inRepair := float64(s.Records) / float64(s.Failures) * share * s.Repair.Mean / s.MTBF.Value
	of := func(factor float64) float64 {
		busy := distuv.Poisson{Lambda: inRepair * factor}
		n := 0.0
		for busy.CDF(n) < 0.95 {
			n++
		}
		return n
	}
	repair := s.Repair
	low := math.Hypot(math.Log(s.MTBF.High/s.MTBF.Value), logRatio(repair.Mean, repair.MeanLow))
	high := math.Hypot(math.Log(s.MTBF.Value/s.MTBF.Low), logRatio(repair.MeanHigh, repair.Mean))
	return Estimated{of(1), of(math.Exp(-low)), of(math.Exp(high))}
}

// logRatio is the logarithm of a/b; 0 for times of 0.
func logRatio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return math.Log(a / b)
}
