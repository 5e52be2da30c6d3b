// Package descent finds the parameters that make a loss least, one at a time.
//
// It needs no derivatives. [Search] asks for few evaluations, as its loss is a simulation;
// [Golden] is for one parameter. The same loss gives the same result.
package descent

import "math"

// Steps of a search.
const (
	First = 0.7
	Last  = 0.01
)

// Search changes the parameters by a step, one after the other, as long as one of them
// makes the loss smaller. It halves the step when no step does, and returns when the step is
// smaller than Last. It changes at. An error of loss ends it.
func Search(at []float64, loss func([]float64) (float64, error)) (least float64, err error) {
	if least, err = loss(at); err != nil {
		return least, err
	}
	for step := First; step > Last; {
		better := false
		for k := range at {
			was := at[k]
			for _, by := range []float64{step, -step} {
				at[k] = was + by
				l, err := loss(at)
				if err != nil {
					return least, err
				}
				if l < least-1e-9 {
					least, better = l, true
					break
				}
				at[k] = was
			}
		}
		if !better {
			step /= 2
		}
	}
	return least, nil
}

// Robust is a loss that is quadratic up to a fifth and linear beyond: one wild value does
// not move a fit far.
func Robust(x float64) float64 {
	const knee = 0.2
	if x = math.Abs(x); x <= knee {
		return x * x / 2
	}
	return knee * (x - knee/2)
}

// Golden finds the x from low to high that makes a loss with one minimum least, by golden
// sections, until the rest is shorter than within. Where two losses are equal, or both
// infinite, it looks below.
func Golden(low, high, within float64, loss func(float64) float64) float64 {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	atA, atB := loss(a), loss(b)
	for high-low > within {
		if atA <= atB {
			high, b, atB = b, a, atA
			a = high - golden*(high-low)
			atA = loss(a)
		} else {
			low, a, atA = a, b, atB
			b = low + golden*(high-low)
			atB = loss(b)
		}
	}
	return (low + high) / 2
}
