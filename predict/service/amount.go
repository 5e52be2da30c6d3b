package service

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"ckpt/predict/fit"
)

// about makes a range of half a width; no amount is negative.
func about(value, half float64) fit.Range {
	return fit.Range{Value: value, Low: max(0, value-half), High: value + half}
}

// within makes a range that is a factor both ways.
func within(value, factor float64) fit.Range {
	return fit.Range{Value: value, Low: value / factor, High: value * factor}
}

// plus adds amounts with independent errors.
func plus(list ...fit.Range) fit.Range {
	var sum, low, high float64
	for _, a := range list {
		sum += a.Value
		low += (a.Value - a.Low) * (a.Value - a.Low)
		high += (a.High - a.Value) * (a.High - a.Value)
	}
	return fit.Range{Value: sum, Low: max(0, sum-math.Sqrt(low)), High: sum + math.Sqrt(high)}
}

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
