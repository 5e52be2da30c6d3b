package tune

import "math"

// The first and the last step of a search.
const (
	firstStep = 0.7
	lastStep  = 0.01
)

// Descend changes the parameters by a step, one after the other, as long as one of them
// makes the loss smaller. It halves the step when no step does, and returns when the step is
// smaller than lastStep. It changes at. An error of loss ends it.
func Descend(at []float64, loss func([]float64) (float64, error)) (least float64, err error) {
	if least, err = loss(at); err != nil {
		return least, err
	}
	for step := firstStep; step > lastStep; {
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
