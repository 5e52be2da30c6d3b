package app

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// cg estimates the smallest eigenvalue of a sparse symmetric matrix by the inverse power method,
// with a few steps of conjugate gradient per iteration. The rows x cols processes each hold one
// block of the matrix. A product is summed along the row of processes and then transposed: the
// partner holds the part that this rank multiplies next (NPB 2.x, s. 4.4).
//
// Only the six vectors change after init: of 117 MiB in cg.B.4, 1.7 MiB.
type cg struct {
	a          *App
	rows, cols int
	row, col   int
	na, nonzer int
	// lo and n are the first index and the length of this rank's part of the rows and of the
	// columns.
	rowLo, rowN, colLo, colN int

	colidx, rowstr, iv, arow, acol []int32
	v, aelt, mat                   []float64
	x, z, p, q, r, w               []float64
	tmp                            []float64
}

// cgSteps is the number of steps of conjugate gradient per iteration. NPB takes 25; five keep an
// iteration linear in memory at the speed of the other codes.
const cgSteps = 5

func newCG(a *App) (kernel, error) {
	g := &cg{a: a}
	var nz int
	if err := a.params(map[string]*int{
		"na": &g.na, "nonzer": &g.nonzer, "rows": &g.rows, "cols": &g.cols, "nz": &nz,
	}); err != nil {
		return nil, err
	}
	if g.rows*g.cols != a.inst.NP || bits.OnesCount(uint(a.inst.NP)) != 1 || g.cols != g.rows && g.cols != 2*g.rows {
		return nil, fmt.Errorf("process grid %d x %d: want powers of two, cols = rows or 2 rows", g.rows, g.cols)
	}
	if g.na < 2*g.cols || g.nonzer < 1 || g.nonzer > g.na/4 {
		return nil, fmt.Errorf("na %d and nonzer %d do not suit %d processes", g.na, g.nonzer, a.inst.NP)
	}
	g.row, g.col = a.rank/g.cols, a.rank%g.cols
	g.rowLo = g.row * g.na / g.rows
	g.rowN = (g.row+1)*g.na/g.rows - g.rowLo
	g.colLo = g.col * g.na / g.cols
	g.colN = (g.col+1)*g.na/g.cols - g.colLo
	nv := g.rowN + 1
	err := a.claims(want{"colidx", nz, &g.colidx}, want{"rowstr", g.na + 1, &g.rowstr},
		want{"iv", 2*g.na + 1, &g.iv}, want{"arow", nz, &g.arow}, want{"acol", nz, &g.acol},
		want{"v", g.na + 1, &g.v}, want{"aelt", nz, &g.aelt}, want{"a", nz, &g.mat},
		want{"x", nv, &g.x}, want{"z", nv, &g.z}, want{"p", nv, &g.p},
		want{"q", nv, &g.q}, want{"r", nv, &g.r}, want{"w", nv, &g.w})
	if err != nil {
		return nil, err
	}
	g.tmp = make([]float64, nv)
	return g, nil
}

// offsets returns the distances from the diagonal of the nonzeros of a row, on one side: a row
// has as many nonzeros as in NPB, (nonzer+1)^2. They lie one in each of equal strides, at a
// scattered place, so that the blocks fill evenly.
func (g *cg) offsets() []int {
	n := ((g.nonzer+1)*(g.nonzer+1) - 1) / 2
	n = min(n, (g.na-1)/2-1)
	stride := ((g.na - 1) / 2) / n
	out := make([]int, n)
	for i := range out {
		out[i] = i*stride + 1 + int(mix(uint64(i))%uint64(stride))
	}
	return out
}

// element returns A(i,j), i != j: negative, symmetric.
func element(i, j int) float64 {
	return -0.001 * (1 + float64(mix(uint64(i+j))>>40)/(1<<24))
}

// init makes the block of this rank as NPB's makea does: triples in arow, acol and aelt, then
// sorted into rows. The diagonal dominates, so the matrix is positive definite.
func (g *cg) init() error {
	offsets := g.offsets()
	n := 0
	add := func(i, j int, value float64) error {
		if j -= g.colLo; j < 0 || j >= g.colN {
			return nil
		}
		if n == len(g.aelt) {
			return fmt.Errorf("the block of rank %d has more than nz = %d nonzeros", g.a.rank, n)
		}
		g.arow[n], g.acol[n], g.aelt[n] = int32(i-g.rowLo), int32(j), value
		n++
		return nil
	}
	for i := g.rowLo; i < g.rowLo+g.rowN; i++ {
		diag := 1.0
		for _, d := range offsets {
			for _, j := range [2]int{(i + d) % g.na, (i - d + g.na) % g.na} {
				e := element(i, j)
				diag -= e
				if err := add(i, j, e); err != nil {
					return err
				}
			}
		}
		// Rows differ, so that the eigenvector is not constant.
		diag += 0.5 * smooth(float64(i)/float64(g.na), 0, 0, 0)
		g.v[i-g.rowLo] = diag
		if err := add(i, i, diag); err != nil {
			return err
		}
	}
	g.sortRows(n)
	for i := range g.colN {
		g.x[i] = 1
	}
	return nil
}

// sortRows fills rowstr, colidx and a from n triples; iv counts.
func (g *cg) sortRows(n int) {
	order := g.iv[:g.rowN+1]
	for _, i := range g.arow[:n] {
		order[i+1]++
	}
	for i := range g.rowN {
		order[i+1] += order[i]
	}
	copy(g.rowstr, order)
	for e := range n {
		at := order[g.arow[e]]
		g.colidx[at], g.mat[at] = g.acol[e], g.aelt[e]
		order[g.arow[e]]++
	}
	// Within a row by column, so that a product walks x forwards.
	type entry struct {
		col int32
		val float64
	}
	var row []entry
	for i := range g.rowN {
		lo, hi := g.rowstr[i], g.rowstr[i+1]
		row = row[:0]
		for e := lo; e < hi; e++ {
			row = append(row, entry{g.colidx[e], g.mat[e]})
		}
		slices.SortFunc(row, func(a, b entry) int { return int(a.col - b.col) })
		for e := range row {
			g.colidx[int(lo)+e], g.mat[int(lo)+e] = row[e].col, row[e].val
		}
	}
}

const (
	tagRowSum    = 300
	tagTranspose = 301
)

// step finds z with A z = x, nearly, and scales it to be the next x. It returns the sum of
// the squares of x - A z over this rank's share.
func (g *cg) step(c Comm, iter int) (float64, error) {
	x, z, p, q, r := g.x[:g.colN], g.z[:g.colN], g.p[:g.colN], g.q[:g.colN], g.r[:g.colN]
	// NPB's x converges to the eigenvector and then stops changing; see ripple.
	phase, drive := 3/float64(g.na), ripple(iter)-1
	for i := range x {
		x[i] *= 1 + drive*math.Sin(float64(g.colLo+i)*phase+float64(iter))
	}
	clear(z)
	copy(r, x)
	copy(p, x)
	rho, err := g.dot(c, r, r, float64(g.na))
	if err != nil {
		return 0, err
	}
	for range cgSteps {
		if err := g.multiply(c, p, q); err != nil {
			return 0, err
		}
		d, err := g.dot(c, p, q, rho)
		if err != nil {
			return 0, err
		}
		alpha := rho / d
		for i := range z {
			z[i] += alpha * p[i]
			r[i] -= alpha * q[i]
		}
		old := rho
		if rho, err = g.dot(c, r, r, old); err != nil {
			return 0, err
		}
		beta := rho / old
		for i := range p {
			p[i] = r[i] + beta*p[i]
		}
	}
	if err := g.multiply(c, z, r); err != nil { // as NPB: the true residual
		return 0, err
	}
	var sum float64
	for i := range r {
		r[i] = x[i] - r[i]
		if g.row == 0 { // the other rows of processes hold copies
			sum += r[i] * r[i]
		}
	}
	norm, err := g.dot(c, z, z, float64(g.na))
	if err != nil {
		return 0, err
	}
	// Norm sqrt(na), not 1: elements stay near 1 whatever the class.
	scale := math.Sqrt(float64(g.na) / norm)
	for i := range x {
		x[i] = scale * z[i]
	}
	return sum, nil
}

// multiply sets out = A in, both distributed by columns.
func (g *cg) multiply(c Comm, in, out []float64) error {
	w := g.w[:g.rowN]
	for i := range w {
		lo, hi := g.rowstr[i], g.rowstr[i+1]
		cols := g.colidx[lo:hi]
		vals := g.mat[lo:hi][:len(cols)]
		var sum float64
		for e, j := range cols {
			sum += vals[e]*in[j] + onGrid - onGrid
		}
		w[i] = sum
	}
	if err := g.rowSum(c, w); err != nil {
		return err
	}
	// This rank has rows `row`, and needs columns `col`: with cols = rows those are the rows of
	// the rank at (col,row); with cols = 2 rows they are half of the rows of the rank at (col/2,
	// 2 row + col mod 2). The relation is mutual.
	partner, half := g.col*g.cols+g.row, 0
	if g.cols != g.rows {
		half = g.col % 2
		partner = g.col/2*g.cols + 2*g.row + half
	}
	mine := w // the part that the partner needs
	if g.cols != g.rows {
		pc := 2*g.row + half
		lo := pc*g.na/g.cols - g.rowLo
		mine = w[lo : (pc+1)*g.na/g.cols-g.rowLo]
	}
	if partner == g.a.rank {
		copy(out, mine)
		return nil
	}
	if err := c.SendFloat64s(partner, tagTranspose, mine); err != nil {
		return err
	}
	_, err := c.RecvFloat64s(partner, tagTranspose, out)
	return err
}

// rowSum adds x over the row of processes by recursive doubling. Partners add the same two
// numbers, so all end with the same bits.
func (g *cg) rowSum(c Comm, x []float64) error {
	for bit := 1; bit < g.cols; bit <<= 1 {
		partner := g.row*g.cols + (g.col ^ bit)
		if err := c.SendFloat64s(partner, tagRowSum, x); err != nil {
			return err
		}
		tmp := g.tmp[:len(x)]
		if _, err := c.RecvFloat64s(partner, tagRowSum, tmp); err != nil {
			return err
		}
		for i, v := range tmp {
			x[i] += v
		}
	}
	return nil
}

// onGrid, added and taken away again, rounds a number to a multiple of 2^-44. Sums of such numbers
// up to 512 have no rounding error, so that they are the same in any order and on any number of
// ranks.
const onGrid = 1.5 * (1 << 8)

// dot is the product of two vectors, a sum of about the size of scale. As in [onGrid] its terms are
// rounded, here to multiples of 2^-40 of the scale, and the sum is exact.
func (g *cg) dot(c Comm, a, b []float64, scale float64) (float64, error) {
	var sum [1]float64
	_, exp := math.Frexp(scale)
	grid := math.Ldexp(1.5, exp+12)
	for i := range a {
		sum[0] += a[i]*b[i] + grid - grid
	}
	err := g.rowSum(c, sum[:])
	return sum[0], err
}
