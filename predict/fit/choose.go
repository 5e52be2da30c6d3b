package fit

import (
	"encoding/json"
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
	// tell a structure from laws.
	indistinct = 1.5
)

// exactLaw is the smallest leave-one-out error: 0 says that there is none.
const exactLaw = 1e-9

// A LawSet has the laws that a series of measurements supports, with their weights. It
// predicts from the measurements alone: its laws only describe it.
type LawSet struct {
	Fits []*LawFit `json:"laws"`
	// Low and High are the range of p, N the number of points.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"`
	// Misfit is the largest relative error among the points, if no law describes them.
	Misfit float64 `json:"misfit,omitempty"`

	points   []Point // nil for a law that the user chose
	prior    priors
	average  sync.Once
	describe sync.Once
	laws     *average
}

// ChooseLaws averages the laws that the points of a data zone support.
func ChooseLaws(points []Point) (*LawSet, error) { return chooseLaws(points, dataPriors) }

// ChooseFileLaws averages the laws of whole files, which have all zones.
func ChooseFileLaws(points []Point) (*LawSet, error) { return chooseLaws(points, filePriors) }

func chooseLaws(points []Point, prior priors) (*LawSet, error) {
	if n := Distinct(points); n < 2 {
		return nil, Refuse("measure another process count, or describe the application by a workload spec, which needs one point",
			"%d process count(s) cannot fix the 2 parameters of a law", n)
	}
	s := &LawSet{}
	s.of(points, prior)
	return s, nil
}

// of has the set predict from points.
func (s *LawSet) of(points []Point, prior priors) {
	s.points, s.prior, s.N = points, prior, len(points)
	s.Low, s.High = Span(points)
}

// farLaw is the relative error from which on laws do not describe a measurement. Block
// sizes move a measurement by 14 % (SP.B from 25 to 36 processes).
const farLaw = 0.2

// leastWeight is the weight from which on a law is worth a line.
const leastWeight = 0.005

// averaged averages the laws when a prediction first needs them: a model has series that
// no command asks for.
func (s *LawSet) averaged() *average {
	s.average.Do(func() {
		if s.points == nil {
			return
		}
		samples := make([]sample, len(s.points))
		for i, pt := range s.points {
			samples[i] = sample{n: 1, p: pt.P, mib: pt.MiB}
		}
		s.laws = averageLaws(samples, families, s.prior)
	})
	return s.laws
}

// described fits each law by itself and sees how far they miss: for those who want to see
// the laws, and not for a prediction.
func (s *LawSet) described() *LawSet {
	s.describe.Do(func() {
		if s.averaged() != nil {
			s.Misfit, s.Fits = s.misses(), s.fits()
		}
	})
	return s
}

// Laws are the laws in the average, the heaviest first.
func (s *LawSet) Laws() []*LawFit { return s.described().Fits }

// Misses returns the largest relative error among the points, if no law describes them.
func (s *LawSet) Misses() float64 { return s.described().Misfit }

func (s *LawSet) misses() (worst float64) {
	for _, pt := range s.points {
		worst = max(worst, math.Abs(s.laws.middle(1, pt.P)/pt.MiB-1))
	}
	if worst <= farLaw {
		return 0
	}
	return worst
}

// fits are the laws with a share, each fitted by itself.
func (s *LawSet) fits() (fits []*LawFit) {
	sum := 0.0
	laws, share := s.laws.shares()
	for _, l := range laws {
		if share[l] < leastWeight && len(fits) > 0 {
			continue
		}
		f, err := fitLaw(l, s.points)
		if err != nil { // too few points: the likeliest of the curves through them
			if f, err = fitLaw(l, s.laws.likeliest(l)); err != nil {
				continue
			}
		}
		f.score(s.points)
		f.Weight = share[l]
		sum += f.Weight
		fits = append(fits, f)
	}
	for _, f := range fits {
		f.Weight /= sum
	}
	return fits
}

// MarshalJSON writes the laws, for which a set has to know them.
func (s *LawSet) MarshalJSON() ([]byte, error) {
	type plain LawSet
	return json.Marshal((*plain)(s.described()))
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
		g, err := fitLaw(f.Law, rest)
		if err != nil {
			return
		}
		e := g.At(left.P)/left.MiB - 1
		sum, count = sum+e*e, count+1
	}
	f.LOO = max(math.Sqrt(sum/float64(count)), exactLaw)
}

// Predict evaluates the set at p, in MiB. Its interval is never narrower than where the
// points end.
func (s *LawSet) Predict(p float64) Estimate {
	laws, factor := s.averaged(), Beyond(p, s.Low, s.High)
	if laws == nil {
		return s.confined(p)
	}
	e := laws.estimate("", 1, p, factor)
	if edge := min(max(p, s.Low), s.High); edge != p {
		at := laws.estimate("", 1, edge, 1)
		e.Low, e.High = min(e.Low, e.Value*at.Low/at.Value), max(e.High, e.Value*at.High/at.Value)
	}
	if s.prior.ofSums() {
		e = sumDoubt(e)
	}
	return e
}

// Whole files are sums of zones that grow in more ways than laws say. Drawn machines of all kinds
// of zones (TestDrawnLaws) show by how much more their intervals have to reach, in logarithms:
// sumScale times as far, and sumDrift for each factor e of extrapolation, more for further ones.
const (
	sumScale = 1.2
	sumDrift = 0.14
)

func sumDoubt(e Estimate) Estimate {
	beyond := math.Log(e.Extrapolation)
	drift := sumDrift * beyond * (0.4 + 0.75*beyond)
	e.Low = e.Value / math.Exp(math.Hypot(sumScale*math.Log(e.Value/e.Low), drift))
	e.High = e.Value * math.Exp(math.Hypot(sumScale*math.Log(e.High/e.Value), drift))
	return e
}

// confined is the prediction of laws that the user chose.
func (s *LawSet) confined(p float64) Estimate {
	mean := 0.0
	for _, f := range s.Fits {
		mean += f.Weight * f.At(p)
	}
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
	fits := slices.Clone(s.Laws())
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
