package fit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Linear fit has coefficients of a few basis functions, found by least squares over
// relative errors: an error of 1 MiB matters more at 10 MiB than at 1600. Coefficients
// are nonnegative where physics requires it.
type Linear struct {
	Coef []float64 `json:"coef"`
	// Gram is the inverse of the normal matrix over the coefficients that are
	// not zero, row by row; the others have zeros there.
	Gram []float64 `json:"gram"`
	// RSS is the sum of squared relative residuals, N the number of points,
	// K the number of coefficients that are not zero.
	RSS float64 `json:"rss"`
	N   int     `json:"n"`
	K   int     `json:"k"`
}

var errSingular = errors.New("the points do not determine the coefficients")

// LeastSquares fits value ≈ Σ coef·row over rows of basis functions, weighting by
// 1/weight². Coefficients i with free[i] false must not be negative; with at
// most four of them every active set is tried, which is exact.
func LeastSquares(rows [][]float64, values, weights []float64, free []bool) (*Linear, error) {
	if len(rows) == 0 {
		return nil, errSingular
	}
	k := len(rows[0])
	var best *Linear
	for set := uint(1); set < 1<<k; set++ {
		if !covers(set, free) {
			continue
		}
		f, err := solveSet(rows, values, weights, set)
		if err != nil || !f.allowed(free) {
			continue
		}
		// A larger set must reduce the sum; equal sums prefer the smaller set.
		if best == nil || f.RSS < best.RSS*(1-1e-9)-1e-18 {
			best = f
		}
	}
	if best == nil {
		return nil, errSingular
	}
	return best, nil
}

// Robust is LeastSquares with bounded influence of single rows (Huber's weights), for
// tables in which one row contradicts the others. A residual counts for no more than
// the bound in the sum of squares, too.
func Robust(rows [][]float64, values, weights []float64, free []bool) (*Linear, error) {
	f, err := LeastSquares(rows, values, weights, free)
	if err != nil || len(rows) < 4 {
		return f, err
	}
	loose, bound := slices.Clone(weights), 0.
	for range 30 {
		size := make([]float64, len(rows))
		for i, row := range rows {
			size[i] = math.Abs(f.At(row)-values[i]) / weights[i]
		}
		sorted := slices.Sorted(slices.Values(size))
		bound = 1.345 * 1.4826 * sorted[len(sorted)/2]
		for i := range loose {
			loose[i] = weights[i]
			if bound > 0 && size[i] > bound {
				loose[i] = weights[i] * math.Sqrt(size[i]/bound)
			}
		}
		if f, err = LeastSquares(rows, values, loose, free); err != nil {
			return nil, err
		}
	}
	f.RSS = 0
	for i, row := range rows {
		r := math.Abs(f.At(row)-values[i]) / weights[i]
		if bound > 0 {
			r = min(r, bound)
		}
		f.RSS += r * r
	}
	return f, nil
}

// covers reports whether set contains all free coefficients.
func covers(set uint, free []bool) bool {
	for i, f := range free {
		if f && set>>i&1 == 0 {
			return false
		}
	}
	return true
}

func (f *Linear) allowed(free []bool) bool {
	for i, c := range f.Coef {
		if c < 0 && (free == nil || !free[i]) || math.IsNaN(c) || math.IsInf(c, 0) {
			return false
		}
	}
	return true
}

func solveSet(rows [][]float64, values, weights []float64, set uint) (*Linear, error) {
	k := len(rows[0])
	active := make([]int, 0, maxParams)
	for i := range k {
		if set>>i&1 == 1 {
			active = append(active, i)
		}
	}
	n, a := len(rows), len(active)
	if n < a {
		return nil, errSingular
	}
	// Columns are scaled to unit length, so that 1/p and a constant can share
	// a matrix. It has at most four rows: plain loops are ten times as fast as a
	// matrix package, and fits are repeated for every point left out.
	var normal, inverse [maxParams][maxParams]float64
	var moment, scale [maxParams]float64
	for j, col := range active {
		for i, row := range rows {
			v := row[col] / weights[i]
			scale[j] += v * v
		}
		if scale[j] = math.Sqrt(scale[j]); scale[j] == 0 {
			return nil, errSingular
		}
	}
	for i, row := range rows {
		w := 1 / weights[i]
		for j, cj := range active {
			v := row[cj] * w / scale[j]
			moment[j] += v * values[i] * w
			for l, cl := range active[:j+1] {
				normal[j][l] += v * row[cl] * w / scale[l]
			}
		}
	}
	for j := range a {
		for l := range j {
			normal[l][j] = normal[j][l]
		}
	}
	if !invert(&normal, &inverse, a) {
		return nil, errSingular
	}
	var coef [maxParams]float64
	for j := range a {
		for l := range a {
			coef[j] += inverse[j][l] * moment[l]
		}
	}
	f := &Linear{Coef: make([]float64, k), Gram: make([]float64, k*k), N: n, K: bits.OnesCount(set)}
	for i, ci := range active {
		f.Coef[ci] = coef[i] / scale[i]
		for j, cj := range active {
			f.Gram[ci*k+cj] = inverse[i][j] / scale[i] / scale[j]
		}
	}
	for i, row := range rows {
		r := (f.At(row) - values[i]) / weights[i]
		f.RSS += r * r
	}
	return f, nil
}

// maxParams is the largest number of coefficients of a law.
const maxParams = 4

// invert inverts the leading n×n part of m by Gauss-Jordan elimination with
// pivots; it destroys m and reports whether there is an inverse.
func invert(m, inverse *[maxParams][maxParams]float64, n int) bool {
	for i := range n {
		inverse[i][i] = 1
	}
	for i := range n {
		pivot := i
		for r := i + 1; r < n; r++ {
			if math.Abs(m[r][i]) > math.Abs(m[pivot][i]) {
				pivot = r
			}
		}
		if math.Abs(m[pivot][i]) < 1e-13 { // columns have unit length, so smaller pivots are rounding errors
			return false
		}
		m[i], m[pivot] = m[pivot], m[i]
		inverse[i], inverse[pivot] = inverse[pivot], inverse[i]
		d := m[i][i]
		for c := range n {
			m[i][c] /= d
			inverse[i][c] /= d
		}
		for r := range n {
			if f := m[r][i]; r != i && f != 0 {
				for c := range n {
					m[r][c] -= f * m[i][c]
					inverse[r][c] -= f * inverse[i][c]
				}
			}
		}
	}
	return true
}

// At evaluates the fit at a row of basis functions.
func (f *Linear) At(row []float64) float64 {
	s := 0.0
	for i, c := range f.Coef {
		s += c * row[i]
	}
	return s
}

// Leverage returns the variance that the uncertain coefficients add at a row, in units
// of the variance of one point.
func (f *Linear) Leverage(row []float64, weight float64) float64 {
	k, s := len(f.Coef), 0.0
	for i := range k {
		for j := range k {
			s += row[i] * f.Gram[i*k+j] * row[j]
		}
	}
	return max(0, s) / (weight * weight)
}

// Valid refuses a fit from a file that cannot be evaluated. It must have k
// coefficients, of at most most parameters.
func (f *Linear) Valid(k, most int) error {
	if len(f.Coef) != k || len(f.Gram) != k*k || f.N < 1 || f.K < 1 || f.K > most || f.RSS < 0 {
		return fmt.Errorf("want %d coefficients with their matrix", k)
	}
	return Finite(f.Coef, f.Gram, []float64{f.RSS})
}

func Finite(lists ...[]float64) error {
	for _, list := range lists {
		for _, v := range list {
			if math.IsNaN(v) || math.Abs(v) > 1e30 {
				return errors.New("coefficient out of range (NaN or above 1e30)")
			}
		}
	}
	return nil
}

// Student returns the two-sided 95 % quantile of Student's t.
func Student(dof float64) float64 {
	if dof < 1 {
		dof = 1
	}
	if v, ok := studentTable()[dof]; ok {
		return v
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}.Quantile(0.975)
}

// studentTable caches quantiles, so that plans of thousands of configurations need not
// invert an incomplete beta function for every zone.
var studentTable = sync.OnceValue(func() map[float64]float64 {
	t := map[float64]float64{}
	for dof := 1.; dof <= 250; dof++ {
		t[dof] = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}.Quantile(0.975)
	}
	return t
})
