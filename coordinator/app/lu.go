package app

import "fmt"

// lu is the SSOR solver of LU: the grid is cut into pencils along z, and the lower and upper
// triangular sweeps run as wavefronts through the xd x yd process grid, from the corner (0,0) and
// back. NPB sends a row and a column per plane; here a pack of planes shares a message, at most
// eight packs per sweep, so that sixteen ranks on few cores do not spend their time on messages.
type lu struct {
	a          *App
	grid       [2]int // processes along x and y
	at         [2]int
	n          [3]int // points of this rank
	start      [2]int
	total      int // points along a side of the domain
	pack       int // planes per message
	i1, i2     int
	u, rsd     []float64 // two ghost layers in x and y
	frct, flux []float64 // frct as u; flux with one ghost layer
	jac        [4][]float64
	buf, buf1  []float64
	face       []float64 // a face of a pack of planes on its way
}

func newLU(a *App) (kernel, error) {
	l := &lu{a: a}
	var i3 int
	if err := a.params(map[string]*int{
		"N": &l.total, "xd": &l.grid[0], "yd": &l.grid[1], "i1": &l.i1, "i2": &l.i2, "i3": &i3,
	}); err != nil {
		return nil, err
	}
	if l.grid[0]*l.grid[1] != a.inst.NP {
		return nil, fmt.Errorf("%d x %d processes are not %d", l.grid[0], l.grid[1], a.inst.NP)
	}
	l.at = [2]int{a.rank % l.grid[0], a.rank / l.grid[0]}
	for d := range 2 {
		size, rest := l.total/l.grid[d], l.total%l.grid[d]
		if size < 2 {
			return nil, fmt.Errorf("a grid of %d points along a side is too small for %d processes along one; use a process count with a squarer grid, or a larger class", l.total, l.grid[d])
		}
		l.n[d], l.start[d] = size, l.at[d]*size+min(l.at[d], rest)
		if l.at[d] < rest {
			l.n[d]++
		}
	}
	l.n[2] = i3
	if l.i1 < l.n[0] || l.i2 < l.n[1] || i3 != l.total {
		return nil, fmt.Errorf("i1, i2, i3 of %d, %d, %d cannot hold %v points", l.i1, l.i2, i3, l.n)
	}
	l.pack = (i3 + 7) / 8
	wide := 5 * (l.i1 + 4) * (l.i2 + 4) * i3
	block, buf := 25*l.i1*l.i2, 10*max(l.i1, l.i2)*i3
	err := a.claims(want{"u", wide, &l.u}, want{"rsd", wide, &l.rsd}, want{"frct", wide, &l.frct},
		want{"flux", 5 * (l.i1 + 2) * (l.i2 + 2) * i3, &l.flux},
		want{"a", block, &l.jac[0]}, want{"b", block, &l.jac[1]},
		want{"c", block, &l.jac[2]}, want{"d", block, &l.jac[3]},
		want{"buf", buf, &l.buf}, want{"buf1", buf, &l.buf1})
	if err != nil {
		return nil, err
	}
	l.face = make([]float64, 5*max(l.i1, l.i2)*l.pack)
	return l, nil
}

// wide is the index of a point in u, rsd and frct: (5, -2:i1+1, -2:i2+1, i3).
func (l *lu) wide(i, j, k int) int {
	return 5 * ((k*(l.i2+4)+j+2)*(l.i1+4) + i + 2)
}

// narrow is the index of a point in flux: (5, -1:i1, -1:i2, i3).
func (l *lu) narrow(i, j, k int) int {
	return 5 * ((k*(l.i2+2)+j+1)*(l.i1+2) + i + 1)
}

func (l *lu) init() error {
	h := 1 / float64(l.total)
	for k := range l.n[2] {
		for j := -2; j < l.n[1]+2; j++ {
			for i := -2; i < l.n[0]+2; i++ {
				x, y, z := float64(l.start[0]+i)*h, float64(l.start[1]+j)*h, float64(k)*h
				p := l.wide(i, j, k)
				for w := range 5 {
					l.u[p+w] = 0.9 * smooth(y, z, x, w)
					l.frct[p+w] = kappa * smooth(x, y, z, w)
				}
			}
		}
	}
	return nil
}

const (
	tagLayers = 200 // + 2*axis + 1 if towards higher coordinates
	tagLower  = 210 // + axis
	tagUpper  = 220 // + axis
)

// neighbour returns the rank next to this one along an axis, or -1.
func (l *lu) neighbour(d, delta int) int {
	at := l.at
	at[d] += delta
	if at[d] < 0 || at[d] >= l.grid[d] {
		return -1
	}
	return at[1]*l.grid[0] + at[0]
}

func (l *lu) step(c Comm, iter int) (float64, error) {
	for d := range 2 {
		if err := l.exchangeLayers(c, d); err != nil {
			return 0, err
		}
	}
	l.fluxes()
	sum := l.residual(ripple(iter))
	for k := 0; k < l.n[2]; k += l.pack {
		if err := l.sweep(c, k, min(k+l.pack, l.n[2]), true); err != nil {
			return 0, err
		}
	}
	for k := (l.n[2] - 1) / l.pack * l.pack; k >= 0; k -= l.pack {
		if err := l.sweep(c, k, min(k+l.pack, l.n[2]), false); err != nil {
			return 0, err
		}
	}
	l.add()
	return sum, nil
}

// exchangeLayers swaps two layers of u along an axis, NPB's exchange_3. buf holds what leaves,
// buf1 what arrives.
func (l *lu) exchangeLayers(c Comm, d int) error {
	n := 10 * l.n[1-d] * l.n[2]
	for up := range 2 {
		if dst := l.neighbour(d, 2*up-1); dst >= 0 {
			lo := up * (l.n[d] - 2)
			l.copyFace(l.buf[:n], l.u, d, lo, lo+2, 0, l.n[2], false)
			if err := c.SendFloat64s(dst, tagLayers+2*d+up, l.buf[:n]); err != nil {
				return err
			}
		}
	}
	for up := range 2 {
		if src := l.neighbour(d, 1-2*up); src >= 0 {
			if _, err := c.RecvFloat64s(src, tagLayers+2*d+up, l.buf1[:n]); err != nil {
				return err
			}
			lo := -2
			if up == 0 {
				lo = l.n[d]
			}
			l.copyFace(l.buf1[:n], l.u, d, lo, lo+2, 0, l.n[2], true)
		}
	}
	return nil
}

// copyFace copies layers lo to hi along axis d of the planes k0 to k1 between x and buf, and
// returns the number of values.
func (l *lu) copyFace(buf, x []float64, d, lo, hi, k0, k1 int, unpack bool) int {
	from, to := [2]int{}, [2]int{l.n[0], l.n[1]}
	from[d], to[d] = lo, hi
	n := 0
	for k := k0; k < k1; k++ {
		for j := from[1]; j < to[1]; j++ {
			row := x[l.wide(from[0], j, k):l.wide(to[0], j, k)]
			if unpack {
				n += copy(row, buf[n:])
			} else {
				n += copy(buf[n:], row)
			}
		}
	}
	return n
}

// fluxes computes what the residual differentiates, one ghost layer included.
func (l *lu) fluxes() {
	for k := range l.n[2] {
		for j := -1; j <= l.n[1]; j++ {
			p, f := l.wide(-1, j, k), l.narrow(-1, j, k)
			for range l.n[0] + 2 {
				s := 1 + 0.02*l.u[p]
				for w := range 5 {
					l.flux[f+w] = l.u[p+w] * s
				}
				p += 5
				f += 5
			}
		}
	}
}

// residual sets rsd = frct - L(u) and returns its sum of squares. Below the first and above the
// last plane a point sees itself. The constants of BT bound the spectrum here, too.
func (l *lu) residual(drive float64) float64 {
	u, rsd, flux := l.u, l.rsd, l.flux
	y := 5 * (l.i1 + 4)
	fy, fz := 5*(l.i1+2), 5*(l.i1+2)*(l.i2+2)
	var sum float64
	for k := range l.n[2] {
		down, up := fz, fz
		if k == 0 {
			down = 0
		}
		if k == l.n[2]-1 {
			up = 0
		}
		for j := range l.n[1] {
			p, f := l.wide(0, j, k), l.narrow(0, j, k)
			for range 5 * l.n[0] {
				v, phi := u[p], flux[f]
				near := flux[f-5] + flux[f+5] + flux[f-fy] + flux[f+fy] + flux[f-down] + flux[f+up]
				fourth := u[p-10] + u[p+10] + u[p-2*y] + u[p+2*y] - 4*(u[p-5]+u[p+5]+u[p-y]+u[p+y]) + 12*v
				t := drive*l.frct[p] - kappa*v + nu*(near-6*phi) - nu4*fourth
				rsd[p] = t
				sum += t * t
				p++
				f++
			}
		}
	}
	return sum
}

// sweep carries the lower (or upper) triangular solve through planes k0 to k1, receiving the
// faces of rsd it starts from and sending those it ends at.
func (l *lu) sweep(c Comm, k0, k1 int, lower bool) error {
	delta, tag := 1, tagLower
	if !lower {
		delta, tag = -1, tagUpper
	}
	for d := range 2 {
		src := l.neighbour(d, -delta)
		if src < 0 {
			continue
		}
		face := l.face[:5*l.n[1-d]*(k1-k0)]
		if _, err := c.RecvFloat64s(src, tag+d, face); err != nil {
			return err
		}
		at := -1
		if !lower {
			at = l.n[d]
		}
		l.copyFace(face, l.rsd, d, at, at+1, k0, k1, true)
	}
	if lower {
		for k := k0; k < k1; k++ {
			l.jacobians(k)
			for j := range l.n[1] {
				for i := range l.n[0] {
					l.eliminate(i, j, k, 1)
				}
			}
		}
	} else {
		for k := k1 - 1; k >= k0; k-- {
			l.jacobians(k)
			for j := l.n[1] - 1; j >= 0; j-- {
				for i := l.n[0] - 1; i >= 0; i-- {
					l.eliminate(i, j, k, -1)
				}
			}
		}
	}
	for d := range 2 {
		dst := l.neighbour(d, delta)
		if dst < 0 {
			continue
		}
		at := 0
		if lower {
			at = l.n[d] - 1
		}
		n := l.copyFace(l.face, l.rsd, d, at, at+1, k0, k1, false)
		if err := c.SendFloat64s(dst, tag+d, l.face[:n]); err != nil {
			return err
		}
	}
	return nil
}

// jacobians fills the four 5 x 5 blocks of each point of a plane, jacld and jacu of NPB.
// Off-diagonal rows sum to less than 0.1.
func (l *lu) jacobians(k int) {
	for j := range l.n[1] {
		p := l.wide(0, j, k)
		at := 25 * j * l.i1
		for range l.n[0] {
			u := l.u[p : p+5]
			a, b := l.jac[0][at:at+25], l.jac[1][at:at+25]
			c, d := l.jac[2][at:at+25], l.jac[3][at:at+25]
			w := 0
			for row := range 5 {
				for col := range 5 {
					v := u[row] - 0.5*u[col]
					a[w] = 0.008 * v
					b[w] = 0.006 * v
					c[w] = 0.004 * v
					d[w] = 0.01 * u[col]
					w++
				}
				d[6*row] += 1
			}
			p += 5
			at += 25
		}
	}
}

// eliminate solves the block row of a point; delta is 1 in the lower sweep, -1 in the upper.
func (l *lu) eliminate(i, j, k, delta int) {
	p := l.wide(i, j, k)
	at := 25 * (j*l.i1 + i)
	a, b := l.jac[0][at:at+25], l.jac[1][at:at+25]
	c, d := l.jac[2][at:at+25], l.jac[3][at:at+25]
	x := l.rsd[p-5*delta:][:5]
	y := l.rsd[p-5*delta*(l.i1+4):][:5]
	var none [5]float64
	z := none[:]
	if kk := k - delta; kk >= 0 && kk < l.n[2] {
		z = l.rsd[l.wide(i, j, kk):][:5]
	}
	r := l.rsd[p : p+5]
	for row := range 5 {
		t := r[row]
		for col := range 5 {
			w := 5*row + col
			t -= a[w]*z[col] + b[w]*y[col] + c[w]*x[col]
		}
		r[row] = t / d[6*row]
	}
}

func (l *lu) add() {
	for k := range l.n[2] {
		for j := range l.n[1] {
			lo, hi := l.wide(0, j, k), l.wide(l.n[0], j, k)
			for p := lo; p < hi; p++ {
				l.u[p] += relax * l.rsd[p]
			}
		}
	}
}
