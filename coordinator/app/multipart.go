package app

import (
	"fmt"
	"math"
)

// multipart is the solver of BT and SP. The N^3 grid is cut into q^3 cells for q^2 ranks; a rank
// owns q cells on a diagonal, so that a sweep along any axis finds exactly one cell of each rank
// at each of its q stages, and no rank waits (Bruno and Cappello's multipartition; NPB 2.x, s.
// 4.2). One iteration does what theirs does:
//
//  1. copy_faces: two layers of u to the neighbours along all six directions
//  2. compute_rhs: us, vs, ws ... from u; rhs = forcing - L(u)
//  3. x_solve, y_solve, z_solve: assemble lhs, eliminate forwards cell by cell,
//     substitute backwards, with a face per stage between the ranks
//  4. add: u += rhs
//
// BT and SP differ in the layout of their arrays, in the entries of a row of lhs (a 5 x 5 block,
// or 15 scalars) and in two more arrays of SP. The systems are diagonally dominant stand-ins,
// contracting for any field.
type multipart struct {
	a     *App
	n     int // grid points along a side of the domain
	q     int // cells of a rank, and side of the process grid
	m     int // points along the longest side of a cell
	cells []cell
	succ  [3]int // rank holding the next cell along an axis
	pred  [3]int

	u, forcing, rhs, lhs field
	width                int // entries of lhs at a point
	// us, vs, ws, qs, rhoI, square, and in SP speed and ainv.
	us, vs, ws, qs, rhoI, square, speed, ainv field

	// in and out are in_buffer and out_buffer of the spec: all messages pass through them, as in
	// the original.
	in, out []float64
	coef    [25]float64
}

// A cell is a box of grid points.
type cell struct {
	at    [3]int // place in the q^3 cells
	start [3]int // first grid point
	n     [3]int // points per axis
}

// A field is an array over the cells of a rank, with ghost layers.
type field struct {
	v     []float64
	ghost int
	comp  int    // from one component to the next
	step  [3]int // from one point to the next along an axis
	cell  int    // from one cell to the next
}

// at returns the index of component 0 of a point; -1 is a ghost.
func (f *field) at(c, i, j, k int) int {
	g := f.ghost
	return c*f.cell + (i+g)*f.step[0] + (j+g)*f.step[1] + (k+g)*f.step[2]
}

// blocked lays comps values of a point side by side: NPB BT's u(5,i,j,k,c).
func blocked(comps, side, ghost int) field {
	return field{ghost: ghost, comp: 1, step: [3]int{comps, comps * side, comps * side * side}, cell: comps * side * side * side}
}

// planar keeps components apart: NPB SP's u(i,j,k,5,c); x and y are padded.
func planar(comps, sideXY, sideZ, ghost int) field {
	comp := sideXY * sideXY * sideZ
	return field{ghost: ghost, comp: comp, step: [3]int{1, sideXY, sideXY * sideXY}, cell: comps * comp}
}

// multipartAnew are the arrays of BT and SP that an iteration computes from u, and forcing, which
// is constant.
var multipartAnew = []string{"us", "vs", "ws", "qs", "rho_i", "square", "forcing", "rhs", "in_buffer", "out_buffer"}

func newBT(a *App) (kernel, error) {
	mp, err := newMultipart(a)
	if err != nil {
		return nil, err
	}
	m := mp.m
	mp.width = 25
	mp.u, mp.forcing, mp.rhs, mp.lhs = blocked(5, m+4, 2), blocked(5, m, 0), blocked(5, m+1, 0), blocked(25, m+1, 0)
	return mp, mp.claim("lhsc", map[string]*field{
		"us": &mp.us, "vs": &mp.vs, "ws": &mp.ws, "qs": &mp.qs, "rho_i": &mp.rhoI, "square": &mp.square,
	})
}

func newSP(a *App) (kernel, error) {
	mp, err := newMultipart(a)
	if err != nil {
		return nil, err
	}
	m := mp.m
	pad := 2*(m/2) + 1
	mp.width = 15
	mp.u, mp.forcing, mp.rhs, mp.lhs = planar(5, pad+4, m+4, 2), planar(5, pad, m, 0), planar(5, pad, m, 0), planar(15, pad, m, 0)
	return mp, mp.claim("lhs", map[string]*field{
		"us": &mp.us, "vs": &mp.vs, "ws": &mp.ws, "qs": &mp.qs, "rho_i": &mp.rhoI, "square": &mp.square,
		"speed": &mp.speed, "ainv": &mp.ainv,
	})
}

func newMultipart(a *App) (*multipart, error) {
	n, err := a.param("N")
	if err != nil {
		return nil, err
	}
	q := int(math.Sqrt(float64(a.inst.NP)))
	if q*q != a.inst.NP {
		return nil, fmt.Errorf("%d processes are not a square", a.inst.NP)
	}
	if n < 2*q {
		return nil, fmt.Errorf("a grid of %d points along a side is too small for %d cells of 2; use at most %d processes", n, q, (n/2)*(n/2))
	}
	mp := &multipart{a: a, n: n, q: q, m: n/q + 1}
	i, j := a.rank%q, a.rank/q
	rank := func(i, j int) int { return (j+q)%q*q + (i+q)%q }
	mp.succ = [3]int{rank(i+1, j), rank(i, j+1), rank(i-1, j+1)}
	mp.pred = [3]int{rank(i-1, j), rank(i, j-1), rank(i+1, j-1)}
	for c := range q {
		cl := cell{at: [3]int{(i + c) % q, (j - c + q) % q, c}}
		for d, at := range cl.at {
			cl.n[d] = n / q
			cl.start[d] = at*(n/q) + min(at, n%q)
			if at < n%q {
				cl.n[d]++
			}
		}
		mp.cells = append(mp.cells, cl)
	}
	for w := range mp.coef {
		mp.coef[w] = 0.05 + 0.15*float64(mix(uint64(w))>>40)/(1<<24)
	}
	return mp, nil
}

// claim binds the fields to the arrays of the spec.
func (mp *multipart) claim(lhs string, points map[string]*field) error {
	for _, f := range points {
		*f = blocked(1, mp.m+2, 1)
	}
	points["u"], points["forcing"], points["rhs"], points[lhs] = &mp.u, &mp.forcing, &mp.rhs, &mp.lhs
	for _, name := range sortedKeys(points) {
		if err := mp.a.claims(want{name, mp.q * points[name].cell, &points[name].v}); err != nil {
			return err
		}
	}
	need := 60 * mp.m * mp.m * (mp.q - 1) // six directions, five values, two layers
	return mp.a.claims(want{"in_buffer", need, &mp.in}, want{"out_buffer", need, &mp.out})
}

func (mp *multipart) init() error {
	h := 1 / float64(mp.n)
	for c, cl := range mp.cells {
		at := func(d, i int) float64 { return (float64(cl.start[d]+i) + 0.5) * h }
		for k := -2; k < cl.n[2]+2; k++ {
			for j := -2; j < cl.n[1]+2; j++ {
				for i := -2; i < cl.n[0]+2; i++ {
					x, y, z := at(0, i), at(1, j), at(2, k)
					p := mp.u.at(c, i, j, k)
					for r := range 5 {
						mp.u.v[p+r*mp.u.comp] = 0.9 * smooth(y, z, x, r)
					}
					if min(i, j, k) < 0 || i >= cl.n[0] || j >= cl.n[1] || k >= cl.n[2] {
						continue
					}
					p = mp.forcing.at(c, i, j, k)
					for r := range 5 {
						mp.forcing.v[p+r*mp.forcing.comp] = kappa * smooth(x, y, z, r)
					}
				}
			}
		}
	}
	return nil
}

// The operator is L(u) = kappa u - nu Laplace(u) + nu4 (fourth differences) + a weak convection.
// Its spectrum lies in [kappa, kappa + 12 nu + 48 nu4] = [0.01, 0.71]; elimination amplifies a
// correction by less than 1/(1-0.1)^6 =
// 1.9, so that a relaxation of 0.7 contracts: 0.7 * 1.9 * 0.71 < 2. The smooth
// part of the error shrinks by kappa * relax, 0.7 % per iteration.
const (
	kappa = 0.01
	nu    = 0.05
	nu4   = 0.002
	relax = 0.7
	// damp is the weight of the neighbouring row in an elimination.
	damp = 0.1
	conv = 0.01
)

func (mp *multipart) step(c Comm, iter int) (float64, error) {
	if err := mp.copyFaces(c); err != nil {
		return 0, err
	}
	var sum float64
	for cl := range mp.cells {
		mp.primitives(cl)
		sum += mp.computeRHS(cl, ripple(iter))
	}
	for d := range 3 {
		if err := mp.solve(c, d); err != nil {
			return 0, err
		}
	}
	for cl := range mp.cells {
		mp.add(cl)
	}
	return sum, nil
}

// primitives computes the quantities that rhs and lhs share, one ghost layer included.
func (mp *multipart) primitives(c int) {
	n := mp.cells[c].n
	u, uc, ux := mp.u.v, mp.u.comp, mp.u.step[0]
	us, vs, ws, qs, rho, sq := mp.us.v, mp.vs.v, mp.ws.v, mp.qs.v, mp.rhoI.v, mp.square.v
	sp := mp.speed.v != nil
	for k := -1; k <= n[2]; k++ {
		for j := -1; j <= n[1]; j++ {
			p, s := mp.u.at(c, -1, j, k), mp.us.at(c, -1, j, k)
			for range n[0] + 2 {
				inv := 1 / u[p]
				u1, u2, u3 := u[p+uc], u[p+2*uc], u[p+3*uc]
				half := 0.5 * (u1*u1 + u2*u2 + u3*u3) * inv
				rho[s], us[s], vs[s], ws[s] = inv, u1*inv, u2*inv, u3*inv
				sq[s], qs[s] = half, half*inv
				if sp {
					speed := math.Sqrt(0.56*inv*math.Abs(u[p+4*uc]-0.4*half) + 0.1)
					mp.speed.v[s], mp.ainv.v[s] = speed, 1/speed
				}
				p += ux
				s++
			}
		}
	}
}

// computeRHS returns the sum of squares of the right-hand side.
func (mp *multipart) computeRHS(c int, drive float64) float64 {
	n := mp.cells[c].n
	u, us, vs, ws, sq := mp.u.v, mp.us.v, mp.vs.v, mp.ws.v, mp.square.v
	x, y, z := mp.u.step[0], mp.u.step[1], mp.u.step[2]
	sy, sz := mp.us.step[1], mp.us.step[2]
	uc, fc, rc := mp.u.comp, mp.forcing.comp, mp.rhs.comp
	fx, rx := mp.forcing.step[0], mp.rhs.step[0]
	var sum float64
	for k := range n[2] {
		for j := range n[1] {
			p, s := mp.u.at(c, 0, j, k), mp.us.at(c, 0, j, k)
			f, r := mp.forcing.at(c, 0, j, k), mp.rhs.at(c, 0, j, k)
			for range n[0] {
				div := conv * (us[s+1] - us[s-1] + vs[s+sy] - vs[s-sy] + ws[s+sz] - ws[s-sz])
				pressure := conv * (sq[s+1] - sq[s-1] + sq[s+sy] - sq[s-sy] + sq[s+sz] - sq[s-sz])
				for w := range 5 {
					o := p + w*uc
					v := u[o]
					near := u[o-x] + u[o+x] + u[o-y] + u[o+y] + u[o-z] + u[o+z]
					far := u[o-2*x] + u[o+2*x] + u[o-2*y] + u[o+2*y] + u[o-2*z] + u[o+2*z]
					t := drive*mp.forcing.v[f+w*fc] - (kappa+div)*v + nu*(near-6*v) - nu4*(far-4*near+18*v)
					if w == 4 {
						t -= pressure
					}
					mp.rhs.v[r+w*rc] = t
					sum += t * t
				}
				p += x
				s++
				f += fx
				r += rx
			}
		}
	}
	return sum
}

func (mp *multipart) add(c int) {
	n := mp.cells[c].n
	for k := range n[2] {
		for j := range n[1] {
			p, r := mp.u.at(c, 0, j, k), mp.rhs.at(c, 0, j, k)
			for range n[0] {
				for w := range 5 {
					mp.u.v[p+w*mp.u.comp] += relax * mp.rhs.v[r+w*mp.rhs.comp]
				}
				p += mp.u.step[0]
				r += mp.rhs.step[0]
			}
		}
	}
}
