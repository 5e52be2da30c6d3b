package fit

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// A term is one coefficient of a hypothesis, with what is assumed of it before
// measurements: a normal distribution, of which only low to high is possible.
type term struct{ mean, sd, low, high float64 }

// inside is the probability that a normal number lies where the term may be.
func (t term) inside(mean, sd float64) float64 {
	if sd == 0 {
		return 1
	}
	below := func(v float64) float64 { return math.Erfc((mean-v)/(sd*math.Sqrt2)) / 2 }
	return below(t.high) - below(t.low)
}

// A regression is a hypothesis fitted to measurements: a sum of terms times known
// columns, and errors with a known covariance.
type regression struct {
	terms   []term
	columns [][]float64
	weights *mat.VecDense // inverse covariance times residuals
	inverse *mat.Cholesky
	// evidence is the logarithm of the likelihood of the measurements.
	evidence float64
	bounds   []bound
}

var errRegression = errors.New("the measurements contradict each other")

// regress fits terms to values. columns has one row for each value; covariance is that of
// the errors of two values.
func regress(terms []term, columns [][]float64, values []float64, covariance func(i, j int) float64) (*regression, error) {
	n := len(values)
	k, residual := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		at := values[i]
		for t, c := range terms {
			at -= c.mean * columns[i][t]
		}
		residual.SetVec(i, at)
		for j := i; j < n; j++ {
			v := covariance(i, j)
			for t, c := range terms {
				v += c.sd * c.sd * columns[i][t] * columns[j][t]
			}
			k.SetSym(i, j, v)
		}
	}
	r := &regression{terms: terms, columns: columns, weights: mat.NewVecDense(n, nil), inverse: &mat.Cholesky{}}
	if !r.inverse.Factorize(k) || r.inverse.SolveVecTo(r.weights, residual) != nil {
		return nil, errRegression
	}
	r.evidence = -(mat.Dot(residual, r.weights) + r.inverse.LogDet() + float64(n)*math.Log(2*math.Pi)) / 2
	r.possible()
	if math.IsNaN(r.evidence) {
		return nil, errRegression
	}
	return r, nil
}

// possible lowers the evidence by the share of the terms that cannot be, such as a
// negative constant or a share above 1, and bounds what is left.
func (r *regression) possible() {
	for t, c := range r.terms {
		if c.sd == 0 {
			continue
		}
		row := make([]float64, len(r.terms))
		row[t] = 1
		cross, solved := r.cross(row, nil)
		mean, variance := c.mean+mat.Dot(cross, r.weights), c.sd*c.sd-mat.Dot(cross, solved)
		if !(variance > 1e-12*c.sd*c.sd) {
			continue
		}
		sd := math.Sqrt(variance)
		inside := c.inside(mean, sd)
		r.evidence += math.Log(max(1e-300, inside)) - math.Log(c.inside(c.mean, c.sd))
		if inside > 1-1e-6 || inside < 1e-12 {
			continue
		}
		shift, narrow := c.cut(mean, sd, inside)
		r.bounds = append(r.bounds, bound{row, solved, variance, shift, narrow})
	}
}

// A bound says how much a term shifts, and how much of its variance is left, where part
// of its distribution is impossible.
type bound struct {
	row                     []float64
	solved                  *mat.VecDense
	variance, shift, narrow float64
}

// cut returns the shift of the mean, and the change of the variance, of a normal number of
// which only what lies inside is possible.
func (t term) cut(mean, sd, inside float64) (shift, change float64) {
	edge := func(v float64) (z, density float64) {
		z = (v - mean) / sd
		return z, math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	}
	a, fa := edge(t.low)
	b, fb := edge(t.high)
	m := (fa - fb) / inside
	return sd * m, sd * sd * ((a*fa-b*fb)/inside - m*m)
}

// cross returns the covariances of a row with the measurements, and them divided by the
// covariance of the measurements.
func (r *regression) cross(row []float64, covariance func(i int) float64) (cross, solved *mat.VecDense) {
	n := r.weights.Len()
	cross, solved = mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		v := 0.0
		if covariance != nil {
			v = covariance(i)
		}
		for t, c := range r.terms {
			v += c.sd * c.sd * row[t] * r.columns[i][t]
		}
		cross.SetVec(i, v)
	}
	if r.inverse.SolveVecTo(solved, cross) != nil {
		solved.Zero()
	}
	return cross, solved
}

// A sum is what a regression says of the terms at a row: free of their bounds, and
// within them. The bounds matter for what is possible; the middle of all is the better
// guess, since the noise of measurements has both signs.
type sum struct{ mean, sd, boundMean, boundSD float64 }

// predict returns the sum of the terms at a row, with an error of its own variance and
// covariances with the errors of the measurements.
func (r *regression) predict(row []float64, covariance func(i int) float64, variance float64) sum {
	mean := 0.0
	for t, c := range r.terms {
		mean += c.mean * row[t]
		variance += c.sd * c.sd * row[t] * row[t]
	}
	cross, solved := r.cross(row, covariance)
	mean += mat.Dot(cross, r.weights)
	variance = max(0, variance-mat.Dot(cross, solved))
	s := sum{mean: mean, sd: math.Sqrt(variance)}
	// A bound shifts the sum as far as the sum depends on its term.
	for _, b := range r.bounds {
		together := -mat.Dot(cross, b.solved)
		for t, c := range r.terms {
			together += c.sd * c.sd * row[t] * b.row[t]
		}
		slope := together / b.variance
		mean += slope * b.shift
		variance = max(variance/100, variance+slope*slope*b.narrow)
	}
	s.boundMean, s.boundSD = mean, math.Sqrt(variance)
	return s
}

// leftOut returns by how much each measurement misses what the others say of it, under
// the same assumptions.
func (r *regression) leftOut() []float64 {
	n := r.weights.Len()
	var inverse mat.SymDense
	if r.inverse.InverseTo(&inverse) != nil {
		return nil
	}
	out := make([]float64, n)
	for i := range n {
		out[i] = r.weights.AtVec(i) / inverse.At(i, i)
	}
	return out
}

// A blend is what hypotheses say together about one number: each gives a normal
// distribution, and counts as much as the measurements make it likely.
type blend []bell

// A bell is the normal distribution of one hypothesis.
type bell struct{ weight, mean, sd, noise float64 }

// unlikely is the share of the best hypothesis below which another does not count.
const unlikely = 1e-4

// shares turns logarithms of likelihoods into weights that add up to 1, with 0 for those
// that do not count.
func shares(logs []float64) []float64 {
	best := slices.Max(logs)
	out, sum := make([]float64, len(logs)), 0.0
	for i, l := range logs {
		if w := math.Exp(l - best); w > unlikely {
			out[i] = w
			sum += w
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// below is the probability that the number lies below v, and its density there.
func (b blend) below(v float64) (probability, density float64) {
	for _, n := range b {
		z := (v - n.mean) / n.sd
		if z < -7 || z > 7 {
			if z > 0 {
				probability += n.weight
			}
			continue
		}
		probability += n.weight * math.Erfc(-z/math.Sqrt2) / 2
		density += n.weight * math.Exp(-z*z/2) / (n.sd * math.Sqrt(2*math.Pi))
	}
	return probability, density
}

// quantile returns the number below which the share q lies: Newton's method, kept
// inside a bracket.
func (b blend) quantile(q float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	mean, narrow := 0.0, math.Inf(1)
	for _, n := range b {
		low, high = min(low, n.mean-9*n.sd), max(high, n.mean+9*n.sd)
		mean, narrow = mean+n.weight*n.mean, min(narrow, n.sd)
	}
	v := min(max(mean, low), high)
	for range 100 {
		p, d := b.below(v)
		if p < q {
			low = v
		} else {
			high = v
		}
		next := v + (q-p)/d
		if !(next > low && next < high) {
			next = low + (high-low)/2
		}
		if math.Abs(next-v) < 1e-5*narrow || high-low < 1e-5*narrow {
			return next
		}
		v = next
	}
	return v
}

// merged takes bells that are nearly the same as one. Bells of one noise follow each other.
func (b blend) merged() blend {
	out := b[:0]
	for len(b) > 0 {
		n := 1
		for n < len(b) && b[n].noise == b[0].noise {
			n++
		}
		group := b[:n]
		b = b[n:]
		slices.SortFunc(group, func(x, y bell) int { return cmp.Compare(x.mean, y.mean) })
		first := len(out)
		for _, n := range group {
			k := len(out) - 1
			if k < first || n.mean-out[k].mean > 0.2*n.sd {
				out = append(out, n)
				continue
			}
			share, apart := n.weight/(out[k].weight+n.weight), n.mean-out[k].mean
			variance := (1-share)*out[k].sd*out[k].sd + share*n.sd*n.sd + share*(1-share)*apart*apart
			out[k] = bell{out[k].weight + n.weight, out[k].mean + share*apart, math.Sqrt(variance), n.noise}
		}
	}
	return out
}

// normal makes the weights add up to 1.
func (b blend) normal() blend {
	sum := 0.0
	for _, n := range b {
		sum += n.weight
	}
	for i := range b {
		b[i].weight /= sum
	}
	return b
}

// A forecast is a blend for the value, and one of what is possible for the interval.
type forecast struct{ free, bound blend }

func (f *forecast) add(weight float64, s sum, scatter func(size float64) float64, chosen bool) {
	if chosen {
		f.free = append(f.free, bell{weight, s.mean, math.Sqrt(s.sd*s.sd + scatter(s.mean)), 0})
	}
	f.bound = append(f.bound, bell{weight, s.boundMean, math.Sqrt(s.boundSD*s.boundSD + scatter(s.boundMean)), 0})
}

// Estimate is the value of the one blend with the interval of the other.
func (f forecast) Estimate(factor float64) Estimate {
	e := f.bound.estimate(factor)
	e.Value = min(max(f.free.normal().quantile(0.5), e.Low), e.High)
	return e
}

// estimate is the middle of the blend with the interval that holds 95 % of it. Sizes are
// never negative, so what lies below 0 does not count.
func (b blend) estimate(factor float64) Estimate {
	negative, _ := b.below(0)
	if negative > 1-1e-9 {
		return Estimate{Extrapolation: max(1, factor)}
	}
	q := func(share float64) float64 { return max(0, b.quantile(negative+share*(1-negative))) }
	return Estimate{q(0.5), q(0.025), q(0.975), max(1, factor)}
}
