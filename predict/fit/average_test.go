package fit

import (
	"math"
	"testing"
)

// TestWeights: the weights of what an average keeps add up to 1, however few or many that is.
func TestWeights(t *testing.T) {
	for _, n := range []int{1, 3, 40, 200} {
		var samples []sample
		for i := range n {
			p := float64(i + 2)
			samples = append(samples, sample{app: "a", n: 1, p: p, mib: 1000/p + 2})
		}
		for law := range dataPriors {
			for name, prior := range map[string]priors{"all": dataPriors, string(law): {law: 1}} {
				sum := 0.0
				for _, f := range averageLaws(samples, families, prior).fits {
					sum += f.weight
				}
				if math.Abs(sum-1) > 1e-9 {
					t.Errorf("%d points, laws %s: weights of %g", n, name, sum)
				}
			}
		}
	}
}
