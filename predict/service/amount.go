package service

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// An Amount is a predicted number with an interval that holds the true one in 95 of 100
// cases.
type Amount struct{ Value, Low, High float64 }

// about makes an amount with an interval of half a width; no amount is negative.
func about(value, half float64) Amount {
	return Amount{value, max(0, value-half), value + half}
}

// within makes an amount whose interval is a factor both ways.
func within(value, factor float64) Amount {
	return Amount{value, value / factor, value * factor}
}

func (a Amount) half() float64 { return max(a.High-a.Value, a.Value-a.Low) }

// plus adds amounts with independent errors.
func plus(list ...Amount) Amount {
	var sum, low, high float64
	for _, a := range list {
		sum += a.Value
		low += (a.Value - a.Low) * (a.Value - a.Low)
		high += (a.High - a.Value) * (a.High - a.Value)
	}
	return Amount{sum, max(0, sum-math.Sqrt(low)), sum + math.Sqrt(high)}
}

// Times multiplies by a number known exactly.
func (a Amount) Times(f float64) Amount { return Amount{a.Value * f, a.Low * f, a.High * f} }

// Contains reports whether v lies in the interval.
func (a Amount) Contains(v float64) bool { return a.Low <= v && v <= a.High }

// student is the two-sided 95 % quantile of Student's t.
func student(dof float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: max(1, dof)}.Quantile(0.975)
}

// A scatter is how far values lie from their mean.
type scatter struct {
	mean, sd float64
	n        int
}

// scattered takes a standard deviation from values, and from a prior worth so many of them.
func scattered(values []float64, prior, weight float64) scatter {
	s := scatter{n: len(values), sd: prior}
	if s.n == 0 {
		return s
	}
	for _, v := range values {
		s.mean += v / float64(s.n)
	}
	squares := weight * prior * prior
	for _, v := range values {
		squares += (v - s.mean) * (v - s.mean)
	}
	s.sd = math.Sqrt(squares / (weight + float64(s.n-1)))
	return s
}
