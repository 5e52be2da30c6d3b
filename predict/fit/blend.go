package fit

import (
	"math"
	"slices"
)

// A blend is what hypotheses say together about one number: each gives a normal
// distribution, and counts as much as the measurements make it likely.
type blend []bell

// A bell is the normal distribution of one hypothesis.
type bell struct{ weight, mean, sd float64 }

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
		if math.Abs(next-v) < 1e-7*narrow || high-low < 1e-7*narrow {
			return next
		}
		v = next
	}
	return v
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
		f.free = append(f.free, bell{weight, s.mean, math.Sqrt(s.sd*s.sd + scatter(s.mean))})
	}
	f.bound = append(f.bound, bell{weight, s.boundMean, math.Sqrt(s.boundSD*s.boundSD + scatter(s.boundMean))})
}

// estimate is the value of the one blend with the interval of the other.
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
