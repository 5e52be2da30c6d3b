package app

import (
	"fmt"
	"math"

	"ckpt/zones/global"
)

// miniGhost is a Jacobi iteration with a 7-point stencil on five variables: the ranks form a box
// as cubic as possible, each owns nx*ny*nz points, and exchanges the faces of all variables with
// up to six neighbours (BSPMA mode of MiniGhost: one message per face). Faces are received into
// scratch memory; the originals' ghost layers are not part of its application-level checkpoint.
//
// If the spec says that all ranks hold the variables together, they may be cut anywhere, and
// every point gets the same values on any number of ranks.
type miniGhost struct {
	a     *App
	n     [3]int // points of this rank
	low   [3]int // the first of them
	all   [3]int // points of all ranks
	grid  [3]int // processes
	at    [3]int // this rank's place
	vars  [ghostVars][]float64
	wave  [3][]float64    // source term, a product of one factor per axis
	ghost [3][2][]float64 // faces received: axis, side; five variables each
	have  [3][2]bool
	out   []float64
	plane [2][]float64 // old values of the last plane, before its update
	row   []float64
}

const ghostVars = 5

func newMiniGhost(a *App) (kernel, error) {
	g := &miniGhost{a: a}
	if err := g.place(); err != nil {
		return nil, err
	}
	if g.n[0] < 1 || g.n[1] < 1 || g.n[2] < 1 {
		return nil, fmt.Errorf("grid %v has no points", g.n)
	}
	for v := range ghostVars {
		grid := want{fmt.Sprintf("grid%d", v+1), g.n[0] * g.n[1] * g.n[2], &g.vars[v]}
		if err := a.claims(grid); err != nil {
			return nil, err
		}
	}
	face := [3]int{g.n[1] * g.n[2], g.n[0] * g.n[2], g.n[0] * g.n[1]}
	for d := range 3 {
		g.have[d] = [2]bool{g.at[d] > 0, g.at[d] < g.grid[d]-1}
		for side := range 2 {
			if g.have[d][side] {
				g.ghost[d][side] = make([]float64, ghostVars*face[d])
			}
		}
		g.wave[d] = make([]float64, g.n[d])
		for i := range g.wave[d] {
			g.wave[d][i] = math.Sin(math.Pi * (float64(g.low[d]+i) + 0.5) / float64(g.all[d]))
		}
	}
	g.out = make([]float64, ghostVars*max(face[0], face[1], face[2]))
	g.plane = [2][]float64{make([]float64, face[2]), make([]float64, face[2])}
	g.row = make([]float64, g.n[0])
	return g, nil
}

// place finds out which points the rank has: its section of the global arrays, whose last axis
// is the first here, or else as many points as every other rank.
func (g *miniGhost) place() error {
	layout, err := g.layout()
	if err != nil || layout != nil {
		if err != nil {
			return err
		}
		g.a.exact = new(exactSum)
		has, at := layout.Local(g.a.rank), layout.Place(g.a.rank)
		for d := range 3 {
			g.n[d], g.low[d], g.all[d] = int(has.Shape[2-d]), int(has.Low[2-d]), int(layout.Array().Shape[2-d])
			g.grid[d], g.at[d] = layout.Grid()[2-d], at[2-d]
		}
		return nil
	}
	if err := g.a.params(map[string]*int{"nx": &g.n[0], "ny": &g.n[1], "nz": &g.n[2]}); err != nil {
		return err
	}
	g.grid = [3]int(global.Grid(g.a.inst.NP, 3))
	r := g.a.rank
	for d := range g.at {
		g.at[d] = r % g.grid[d]
		r /= g.grid[d]
		g.low[d], g.all[d] = g.at[d]*g.n[d], g.grid[d]*g.n[d]
	}
	return nil
}

// layout returns the layout of the variables, nil if each rank has its own.
func (g *miniGhost) layout() (*global.Layout, error) {
	first, err := g.a.layout("grid1", 3)
	if err != nil || first == nil {
		return nil, err
	}
	for v := range ghostVars {
		name := fmt.Sprintf("grid%d", v+1)
		other, err := g.a.layout(name, 3)
		if err != nil {
			return nil, err
		}
		if other == nil || !other.Array().Equal(first.Array()) {
			return nil, fmt.Errorf("array %s is distributed otherwise than grid1", name)
		}
		for _, d := range other.Array().Dims {
			if d.Kind != global.Block {
				return nil, fmt.Errorf("array %s: the kernel needs blocks, not %s", name, d.Kind)
			}
		}
	}
	return first, nil
}

func (g *miniGhost) init() error {
	for v, x := range g.vars {
		i := 0
		for k := range g.n[2] {
			for j := range g.n[1] {
				for ii := range g.n[0] {
					x[i] = 1 + 0.5*g.wave[0][ii]*g.wave[1][j]*g.wave[2][k] + 0.1*float64(v)
					i++
				}
			}
		}
	}
	return nil
}

func (g *miniGhost) neighbour(d, side int) int {
	at := g.at
	at[d] += 2*side - 1
	return (at[2]*g.grid[1]+at[1])*g.grid[0] + at[0]
}

func (g *miniGhost) step(c Comm, iter int) (float64, error) {
	if err := g.exchange(c); err != nil {
		return 0, err
	}
	var sum float64
	for v := range g.vars {
		sum += g.update(v, iter)
	}
	return sum, nil
}

// exchange sends the outermost planes of all variables to the six neighbours.
func (g *miniGhost) exchange(c Comm) error {
	for d := range 3 {
		for side := range 2 {
			if !g.have[d][side] {
				continue
			}
			out := g.out[:0]
			for _, x := range g.vars {
				out = g.appendFace(out, x, d, side)
			}
			// The tag names the direction of travel.
			if err := c.SendFloat64s(g.neighbour(d, side), 2*d+side, out); err != nil {
				return err
			}
		}
	}
	for d := range 3 {
		for side := range 2 {
			if !g.have[d][side] {
				continue
			}
			if _, err := c.RecvFloat64s(g.neighbour(d, side), 2*d+1-side, g.ghost[d][side]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *miniGhost) appendFace(out, x []float64, d, side int) []float64 {
	lo, hi := [3]int{}, g.n
	if side == 0 {
		hi[d] = 1
	} else {
		lo[d] = g.n[d] - 1
	}
	for k := lo[2]; k < hi[2]; k++ {
		for j := lo[1]; j < hi[1]; j++ {
			row := (k*g.n[1] + j) * g.n[0]
			out = append(out, x[row+lo[0]:row+hi[0]]...)
		}
	}
	return out
}

// update carries out a Jacobi sweep in place: the old values of the plane below and of the row
// before are kept aside. Outside the domain a point sees itself.
func (g *miniGhost) update(v, iter int) float64 {
	nx, ny, nz := g.n[0], g.n[1], g.n[2]
	x := g.vars[v]
	face := func(d, side int) []float64 {
		f := g.ghost[d][side]
		n := len(f) / ghostVars
		return f[v*n : (v+1)*n] // empty if there is no neighbour
	}
	west, east := face(0, 0), face(0, 1)
	south, north := face(1, 0), face(1, 1)
	bottom, top := face(2, 0), face(2, 1)
	drive := 0.02 * ripple(iter)
	var sum float64
	var exact exactSum
	below, current := g.plane[0], g.plane[1]
	for k := range nz {
		plane := x[k*nx*ny : (k+1)*nx*ny]
		copy(current, plane)
		down := below
		if k == 0 {
			down = current
			if len(bottom) > 0 {
				down = bottom
			}
		}
		var up []float64
		switch {
		case k+1 < nz:
			up = x[(k+1)*nx*ny : (k+2)*nx*ny]
		case len(top) > 0:
			up = top
		default:
			up = current
		}
		for j := range ny {
			row := current[j*nx : (j+1)*nx]
			back, front := row, row
			if j > 0 {
				back = current[(j-1)*nx : j*nx]
			} else if len(south) > 0 {
				back = south[k*nx : (k+1)*nx]
			}
			if j+1 < ny {
				front = current[(j+1)*nx : (j+2)*nx]
			} else if len(north) > 0 {
				front = north[k*nx : (k+1)*nx]
			}
			dst := plane[j*nx : (j+1)*nx]
			dn, u := down[j*nx:(j+1)*nx], up[j*nx:(j+1)*nx]
			source := drive * (1 + g.wave[1][j]*g.wave[2][k])
			for i, old := range row {
				l, r := old, old
				if i > 0 {
					l = row[i-1]
				} else if len(west) > 0 {
					l = west[k*ny+j]
				}
				if i+1 < nx {
					r = row[i+1]
				} else if len(east) > 0 {
					r = east[k*ny+j]
				}
				d := 0.1*(l+r+back[i]+front[i]+dn[i]+u[i]-6*old) + source*g.wave[0][i] - 0.02*old
				dst[i] = old + d
				exact.add(d * d)
				sum += d * d
			}
		}
		below, current = current, below
	}
	if g.a.exact != nil {
		g.a.exact.merge(exact)
	}
	return sum
}
