package service

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// fitMedian fits seconds as a linear function whose coefficients are not negative, so that
// the sum of the relative distances is least: half of the measurements may be wild, and the
// line stays.
func fitMedian(rows [][]float64, seconds []float64) Line {
	k := len(rows[0])
	active := make([]bool, k)
	for i := range active {
		active[i] = true
	}
	var coef []float64
	for {
		coef = leastDistances(rows, seconds, active)
		worst := -1
		for i, c := range coef {
			if active[i] && c < 0 && (worst < 0 || c < coef[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		active[worst] = false
	}
	l := Line{Coef: coef}
	var off []float64
	for i, row := range rows {
		off = append(off, math.Log(max(fastest, seconds[i])/max(fastest, l.at(row))))
	}
	l.Scatter = spread(off)
	return l
}

// leastDistances weighs least squares again and again, until they are least absolute
// relative distances.
func leastDistances(rows [][]float64, seconds []float64, active []bool) []float64 {
	weights := make([]float64, len(rows))
	for i, s := range seconds {
		weights[i] = 1 / math.Pow(max(fastest, s), 2)
	}
	coef := weightedSquares(rows, seconds, weights, active)
	for range 100 {
		for i, row := range rows {
			value := 0.0
			for j, c := range coef {
				value += c * row[j]
			}
			s := max(fastest, seconds[i])
			weights[i] = 1 / (s * max(1e-4*s, math.Abs(seconds[i]-value)))
		}
		coef = weightedSquares(rows, seconds, weights, active)
	}
	return coef
}

// weightedSquares solves the normal equations of the active columns. A slight pull to 0
// decides between columns that the measurements cannot tell apart.
func weightedSquares(rows [][]float64, seconds, weights []float64, active []bool) []float64 {
	var columns []int
	for i, on := range active {
		if on {
			columns = append(columns, i)
		}
	}
	coef := make([]float64, len(active))
	k := len(columns)
	if k == 0 {
		return coef
	}
	a, b := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	for i, row := range rows {
		for x, cx := range columns {
			b.SetVec(x, b.AtVec(x)+weights[i]*row[cx]*seconds[i])
			for y := x; y < k; y++ {
				a.SetSym(x, y, a.At(x, y)+weights[i]*row[cx]*row[columns[y]])
			}
		}
	}
	for x := range k {
		a.SetSym(x, x, a.At(x, x)*(1+1e-9)+1e-300)
	}
	var c mat.VecDense
	if err := c.SolveVec(a, b); err != nil && c.Len() != k {
		return coef
	}
	for x, cx := range columns {
		coef[cx] = c.AtVec(x)
	}
	return coef
}
