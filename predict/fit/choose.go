package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Errors of the laws where they were checked, as relative standard deviation. Block
// sizes are whole numbers of grid points, which no smooth law follows (SP.B jumps by
// 14 % from 25 to 36 processes). Fits to few points borrow this error, as if it came
// from lawPriorPoints points of their own. TestPriors recomputes it.
const (
	lawPrior       = 0.035
	lawPriorPoints = 4
	// lawDrift is the additional error of a law for every factor e outside its points.
	lawDrift = 0.03
	// indistinct is the ratio of leave-one-out errors below which points cannot
	// tell laws apart.
	indistinct = 1.5
)

// exactLaw is the smallest leave-one-out error: 0 says that there is none.
const exactLaw = 1e-9

// A LawSet has the laws that a series of measurements supports, with their weights.
type LawSet struct {
	Fits []*LawFit `json:"laws"`
	// Low and High are the range of p, N the number of points.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"`
	// Misfit is the largest relative error among the points, if no law describes them.
	Misfit float64 `json:"misfit,omitempty"`

	points []Point
	once   sync.Once
	shapes *shapeSet
}

// ChooseLaws fits the laws that the points support. It keeps laws whose leave-one-out
// error is within a factor of the best. Their AICc gives their weights (Akaike
// weights). If there are too few points for it, the weights are equal: the mean is
// predicted, and the disagreement widens the interval. The mean of the two volume and
// surface laws fitted to BT.D at 16, 25 and 36 processes errs less at 324 than either
// law.
func ChooseLaws(points []Point) (*LawSet, error) {
	n := Distinct(points)
	if n < 2 {
		return nil, Refuse("measure another process count, or describe the application by a workload spec, which needs one point",
			"%d process count(s) cannot fix the 2 parameters of a law", n)
	}
	s := &LawSet{N: len(points), points: points}
	s.Low, s.High = Span(points)
	s.consider(falling(), points)
	if n > 2 || s.misses(points) > farLaw {
		s.consider(weak(), points)
	}
	if len(s.Fits) == 0 {
		return nil, Refuse("check the measurements", "no law fits the points")
	}
	if s.Misfit = s.misses(points); s.Misfit <= farLaw {
		s.Misfit = 0
	}
	return s, nil
}

// farLaw is the relative error from which on laws do not describe a measurement. Block
// sizes move a measurement by 14 % (SP.B from 25 to 36 processes).
const farLaw = 0.2

// consider adds the laws that the points support, and weighs all again.
func (s *LawSet) consider(laws []Law, points []Point) {
	n := Distinct(points)
	for _, l := range laws {
		if n < l.needs() || l.floor() && s.High < minFloorSpan*s.Low {
			continue
		}
		f, err := fitLaw(l, points)
		if err != nil || (l.floor() || l == Rising) && f.Coef[len(f.Coef)-1] == 0 {
			continue // without its last term it equals the law before it
		}
		f.score(points)
		s.Fits = append(s.Fits, f)
	}
	s.weigh()
}

// misses returns the largest relative error of the weighted laws among the points.
func (s *LawSet) misses(points []Point) (worst float64) {
	if len(s.Fits) == 0 {
		return math.Inf(1)
	}
	for _, pt := range points {
		worst = max(worst, math.Abs(s.at(pt.P)/pt.MiB-1))
	}
	return worst
}

// OneLaw is a set of one law, chosen by the user.
func OneLaw(l Law, points []Point) (*LawSet, error) {
	f, err := fitLaw(l, points)
	if err != nil {
		return nil, err
	}
	f.score(points)
	f.Weight = 1
	s := &LawSet{Fits: []*LawFit{f}, N: len(points)}
	s.Low, s.High = Span(points)
	return s, nil
}

// score computes LOO and AICc.
func (f *LawFit) score(points []Point) {
	n, k := float64(len(points)), float64(f.K+1) // the variance is a parameter, too
	if n-k-1 > 0 {
		f.AICc = n*math.Log(max(f.RSS, 1e-12)/n) + 2*k + 2*k*(k+1)/(n-k-1)
	}
	sum, count := 0.0, 0
	for i, left := range points {
		rest := slices.Delete(slices.Clone(points), i, i+1)
		if Distinct(rest) < f.Law.params() {
			return
		}
		g, err := f.Refit(rest)
		if err != nil {
			return
		}
		e := g.At(left.P)/left.MiB - 1
		sum, count = sum+e*e, count+1
	}
	f.LOO = max(math.Sqrt(sum/float64(count)), exactLaw)
}

func (s *LawSet) weigh() {
	best := math.Inf(1)
	for _, f := range s.Fits {
		if f.LOO > 0 {
			best = min(best, f.LOO)
		}
	}
	keep := func(f *LawFit) bool { return math.IsInf(best, 1) || f.LOO > 0 && f.LOO <= indistinct*best }
	byAICc, lowest := true, math.Inf(1)
	for _, f := range s.Fits {
		if keep(f) {
			byAICc = byAICc && f.AICc != 0
			lowest = min(lowest, f.AICc)
		}
	}
	sum := 0.0
	for _, f := range s.Fits {
		switch {
		case !keep(f):
			f.Weight = 0
		case byAICc:
			f.Weight = math.Exp(-(f.AICc - lowest) / 2)
		default:
			f.Weight = 1
		}
		sum += f.Weight
	}
	for _, f := range s.Fits {
		f.Weight /= sum
	}
}

// Predict evaluates the set at p, in MiB.
func (s *LawSet) Predict(p float64) Estimate {
	mean := s.at(p)
	if s.points == nil {
		return s.confined(p, mean)
	}
	// The value comes from the laws chosen by left-out error, the interval from all
	// laws that the points permit, and never narrower than where the points end.
	s.once.Do(func() { s.shapes = fitShapes(s.points) })
	low, high := s.sides(p, mean)
	if edge := min(max(p, s.Low), s.High); edge != p {
		l, h := s.sides(edge, s.at(edge))
		low, high = max(low, l), max(high, h)
	}
	return Estimate{mean, mean / low, mean * high, Beyond(p, s.Low, s.High)}
}

// at is the weighted mean of the laws.
func (s *LawSet) at(p float64) (mean float64) {
	for _, f := range s.Fits {
		mean += f.Weight * f.At(p)
	}
	return mean
}

// sides are the factors by which the size at p may be smaller and larger than a value.
func (s *LawSet) sides(p, value float64) (below, above float64) {
	b := s.shapes.predict(p)
	return max(1, value/math.Exp(b.quantile(0.025))), max(1, math.Exp(b.quantile(0.975))/value)
}

// confined is the prediction of laws that the user chose.
func (s *LawSet) confined(p, mean float64) Estimate {
	var spread, disagree, rss, k float64
	for _, f := range s.Fits {
		spread += f.Weight * f.spread(p)
		d := f.At(p)/mean - 1
		disagree += f.Weight * d * d
		rss += f.Weight * f.RSS
		k += f.Weight * float64(f.K)
	}
	dof := max(0, float64(s.N)-k) + lawPriorPoints
	variance := (lawPriorPoints*lawPrior*lawPrior + rss) / dof
	factor := Beyond(p, s.Low, s.High)
	drift := lawDrift * math.Log(factor)
	relative := math.Sqrt(variance*(1+spread) + disagree + drift*drift)
	return Around(mean, Student(math.Round(dof))*relative*mean, factor)
}

// String names the laws in the mean, heaviest first.
func (s *LawSet) String() string {
	fits := slices.Clone(s.Fits)
	slices.SortStableFunc(fits, func(a, b *LawFit) int { return int(math.Copysign(1, b.Weight-a.Weight)) })
	var names []string
	for _, f := range fits {
		if f.Weight >= 0.05 {
			name := string(f.Law)
			if f.Law == Thesis {
				name = fmt.Sprintf("thesis %.5g·p^%.3f", f.Coef[0], f.Exponent)
			}
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		return "mean of " + strings.Join(names, ", ")
	}
	return strings.Join(names, "")
}

// A shape is a law without its size: how the data zone of a process depends on the number
// of processes, relative to the smallest number that was measured.
type shape struct {
	prior float64
	at    func(x float64) float64 // of p relative to the smallest measured
}

// shapes are the hypotheses about an application whose structure is not known, with what
// is assumed of them before measurements. Each law has several: a volume with a surface
// of no, some or most of the size, a table of a rank that is small or large.
var shapes = func() []shape {
	var out []shape
	add := func(prior float64, list ...func(x float64) float64) {
		for _, at := range list {
			out = append(out, shape{prior / float64(len(list)), at})
		}
	}
	for _, exponent := range []float64{-2. / 3, -1. / 2} {
		var plain, floors []func(x float64) float64
		for _, surface := range []float64{0, 0.04, 0.08, 0.13, 0.19, 0.26, 0.35, 0.5, 0.7, 1} {
			at := func(x float64) float64 { return (1-surface)/x + surface*math.Pow(x, exponent) }
			plain = append(plain, at)
			if surface > 0.4 {
				continue
			}
			for _, floor := range []float64{0.001, 0.003, 0.007, 0.015, 0.03, 0.07, 0.2} {
				floors = append(floors, func(x float64) float64 { return (1-floor)*at(x) + floor })
			}
		}
		add(0.15, plain...)
		add(0.12, floors...)
	}
	var powers, rising []func(x float64) float64
	for e := -1.2; e < -0.05; e += 0.1 {
		powers = append(powers, func(x float64) float64 { return math.Pow(x, e) })
	}
	add(0.03, powers...)
	add(0.22, func(float64) float64 { return 1 })
	for slope := 0.003; slope < 1.5; slope *= 1.3 {
		rising = append(rising, func(x float64) float64 { return 1 + slope*(x-1) })
	}
	add(0.22, rising...)
	return out
}()

// A shapeFit is one shape under one assumption about noise.
type shapeFit struct {
	at                  func(x float64) float64
	weight, mean, noise float64 // mean is the logarithm of the size
	n                   float64
}

// A shapeSet is what all shapes together say of a series.
type shapeSet struct {
	low  float64
	fits []shapeFit
}

// fitShapes weighs every shape under every assumption about noise.
func fitShapes(points []Point) *shapeSet {
	s := &shapeSet{}
	s.low, _ = Span(points)
	n := float64(len(points))
	var logs []float64
	for _, sh := range shapes {
		sum, squares := 0.0, 0.0
		for _, pt := range points {
			r := math.Log(pt.MiB / sh.at(pt.P/s.low))
			sum, squares = sum+r, squares+r*r
		}
		mean := sum / n
		squares = max(0, squares-n*mean*mean)
		for _, noise := range noiseLevels {
			s.fits = append(s.fits, shapeFit{sh.at, 0, mean, noise.sd, n})
			logs = append(logs, math.Log(sh.prior*noise.prior)-(n-1)*math.Log(noise.sd)-squares/(2*noise.sd*noise.sd))
		}
	}
	for i, w := range shares(logs) {
		s.fits[i].weight = w
	}
	s.fits = slices.DeleteFunc(s.fits, func(f shapeFit) bool { return f.weight == 0 })
	return s
}

// predict returns the logarithm of the size at p.
func (s *shapeSet) predict(p float64) blend {
	out := make(blend, 0, len(s.fits))
	for _, f := range s.fits {
		out = append(out, bell{f.weight, f.mean + math.Log(f.at(p/s.low)), f.noise * math.Sqrt(1+1/f.n)})
	}
	return out
}
