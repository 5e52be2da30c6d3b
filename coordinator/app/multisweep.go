package app

// The messages of multipart and the sweeps that cause them.

// Tags name the axis and what travels; between two ranks that are neighbours along several axes,
// or on both sides, they keep the streams apart.
const (
	tagFace     = 100 // + 2*axis + 1 if towards higher coordinates
	tagForward  = 110 // + axis
	tagBackward = 120 // + axis
)

// copyFaces exchanges the two outermost layers of u, all cells of a direction in one message, as
// NPB's copy_faces does.
func (mp *multipart) copyFaces(c Comm) error {
	if mp.q == 1 {
		return nil
	}
	share := 10 * mp.m * mp.m * (mp.q - 1)
	length := [6]int{}
	for d := range 3 {
		for up := range 2 {
			buf := mp.out[(2*d+up)*share:][:share]
			n := mp.faces(buf, d, up, false)
			dst := mp.pred[d]
			if up == 1 {
				dst = mp.succ[d]
			}
			if err := c.SendFloat64s(dst, tagFace+2*d+up, buf[:n]); err != nil {
				return err
			}
			length[2*d+up] = n
		}
	}
	for d := range 3 {
		for up := range 2 {
			// Data that travels up comes from the predecessor. It is as long as the data that
			// this rank sends down: the cells' other sides agree.
			buf := mp.in[(2*d+up)*share:][:length[2*d+1-up]]
			src := mp.succ[d]
			if up == 1 {
				src = mp.pred[d]
			}
			if _, err := c.RecvFloat64s(src, tagFace+2*d+up, buf); err != nil {
				return err
			}
			mp.faces(buf, d, 1-up, true)
		}
	}
	return nil
}

// faces copies the layers on one side (up: 1 the high one) of all cells that have a neighbour
// there: from inside the cells to buf, or from buf to the ghosts outside. It returns the number
// of values.
func (mp *multipart) faces(buf []float64, d, up int, unpack bool) int {
	u, n := mp.u.v, 0
	for c, cl := range mp.cells {
		if up == 0 && cl.at[d] == 0 || up == 1 && cl.at[d] == mp.q-1 {
			continue
		}
		lo, hi := [3]int{}, cl.n
		switch {
		case up == 0 && unpack:
			lo[d], hi[d] = -2, 0
		case up == 0:
			hi[d] = 2
		case unpack:
			lo[d], hi[d] = cl.n[d], cl.n[d]+2
		default:
			lo[d] = cl.n[d] - 2
		}
		for k := lo[2]; k < hi[2]; k++ {
			for j := lo[1]; j < hi[1]; j++ {
				p := mp.u.at(c, lo[0], j, k)
				for i := lo[0]; i < hi[0]; i++ {
					for w := range 5 {
						if unpack {
							u[p+w*mp.u.comp] = buf[n]
						} else {
							buf[n] = u[p+w*mp.u.comp]
						}
						n++
					}
					p += mp.u.step[0]
				}
			}
		}
	}
	return n
}

// solve eliminates forwards along axis d and substitutes backwards. Stage s works on the one cell
// of this rank that is s-th along the axis.
func (mp *multipart) solve(c Comm, d int) error {
	at := make([]int, mp.q)
	for i, cl := range mp.cells {
		at[cl.at[d]] = i
	}
	for s := range mp.q {
		var face []float64
		points := mp.facePoints(at[s], d)
		if s > 0 {
			face = mp.in[:points*(mp.width+5)]
			if _, err := c.RecvFloat64s(mp.pred[d], tagForward+d, face); err != nil {
				return err
			}
		}
		mp.forward(at[s], d, face)
		if s < mp.q-1 {
			buf := mp.out[:points*(mp.width+5)]
			mp.packForward(at[s], d, buf)
			if err := c.SendFloat64s(mp.succ[d], tagForward+d, buf); err != nil {
				return err
			}
		}
	}
	for s := mp.q - 1; s >= 0; s-- {
		var face []float64
		points := mp.facePoints(at[s], d)
		if s < mp.q-1 {
			face = mp.in[:points*5]
			if _, err := c.RecvFloat64s(mp.succ[d], tagBackward+d, face); err != nil {
				return err
			}
		}
		mp.backward(at[s], d, face)
		if s > 0 {
			buf := mp.out[:points*5]
			mp.packBackward(at[s], d, buf)
			if err := c.SendFloat64s(mp.pred[d], tagBackward+d, buf); err != nil {
				return err
			}
		}
	}
	return nil
}

func (mp *multipart) facePoints(c, d int) int {
	n := mp.cells[c].n
	return n[(d+1)%3] * n[(d+2)%3]
}

// faceIndex returns the place of a point in a face across d: the lower of the two other axes runs
// fastest.
func faceIndex(n [3]int, d, i, j, k int) int {
	switch d {
	case 0:
		return k*n[1] + j
	case 1:
		return k*n[0] + i
	}
	return j*n[0] + i
}

// forward assembles the rows of lhs and eliminates. Points are visited in the order of memory;
// the row before along d is always done by then. face holds the last rows of the cell before, nil
// at the boundary of the domain.
func (mp *multipart) forward(c, d int, face []float64) {
	n := mp.cells[c].n
	lhs, rhs := mp.lhs.v, mp.rhs.v
	lc, rc := mp.lhs.comp, mp.rhs.comp
	lback, rback := mp.lhs.step[d], mp.rhs.step[d]
	width, rows := mp.width, mp.width/5
	diag := mp.diagonal()
	// Each axis rotates the coefficients, so that no sweep repeats another.
	coef := mp.coef
	copy(coef[:], mp.coef[5*d:])
	copy(coef[25-5*d:], mp.coef[:5*d])
	dir := [3][]float64{mp.us.v, mp.vs.v, mp.ws.v}[d]
	if mp.speed.v != nil {
		dir = mp.speed.v
	}
	var zero [30]float64
	before := make([]float64, width+5) // rows of the point before
	for k := range n[2] {
		for j := range n[1] {
			l, r := mp.lhs.at(c, 0, j, k), mp.rhs.at(c, 0, j, k)
			s := mp.us.at(c, 0, j, k)
			for i := range n[0] {
				av := [5]float64{mp.rhoI.v[s], dir[s], mp.qs.v[s], mp.square.v[s], mp.us.v[s]}
				first := [3]int{i, j, k}[d] == 0
				switch {
				case !first && lc == 1:
					before = append(append(before[:0], lhs[l-lback:l-lback+width]...), rhs[r-rback:r-rback+5]...)
				case !first:
					for w := range width {
						before[w] = lhs[l-lback+w*lc]
					}
					for w := range 5 {
						before[width+w] = rhs[r-rback+w*rc]
					}
				case face != nil:
					at := faceIndex(n, d, i, j, k) * (width + 5)
					copy(before, face[at:at+width+5])
				default:
					copy(before, zero[:width+5])
				}
				if lc == 1 {
					row, prev := lhs[l:l+25], before[:25]
					for w := 0; w < 25; w += 5 {
						row[w] = coef[w]*av[0] + 0.25*prev[w]
						row[w+1] = coef[w+1]*av[1] + 0.25*prev[w+1]
						row[w+2] = coef[w+2]*av[2] + 0.25*prev[w+2]
						row[w+3] = coef[w+3]*av[3] + 0.25*prev[w+3]
						row[w+4] = coef[w+4]*av[4] + 0.25*prev[w+4]
					}
				} else {
					at, w := l, 0
					for range rows {
						for _, v := range av {
							lhs[at] = coef[w]*v + 0.25*before[w]
							at += lc
							w++
						}
					}
				}
				for w, off := range diag {
					rhs[r+w*rc] -= damp * lhs[l+off] * before[width+w]
				}
				l += mp.lhs.step[0]
				r += mp.rhs.step[0]
				s++
			}
		}
	}
}

func (mp *multipart) packForward(c, d int, buf []float64) {
	at := 0
	mp.eachOnFace(c, d, mp.cells[c].n[d]-1, func(i, j, k int) {
		l, r := mp.lhs.at(c, i, j, k), mp.rhs.at(c, i, j, k)
		for w := range mp.width {
			buf[at] = mp.lhs.v[l+w*mp.lhs.comp]
			at++
		}
		for w := range 5 {
			buf[at] = mp.rhs.v[r+w*mp.rhs.comp]
			at++
		}
	})
}

// backward substitutes; face holds the first values of the cell after.
func (mp *multipart) backward(c, d int, face []float64) {
	n := mp.cells[c].n
	lhs, rhs, rc, next := mp.lhs.v, mp.rhs.v, mp.rhs.comp, mp.rhs.step[d]
	diag := mp.diagonal()
	for k := n[2] - 1; k >= 0; k-- {
		for j := n[1] - 1; j >= 0; j-- {
			l, r := mp.lhs.at(c, n[0], j, k), mp.rhs.at(c, n[0], j, k)
			for i := n[0] - 1; i >= 0; i-- {
				l -= mp.lhs.step[0]
				r -= mp.rhs.step[0]
				if [3]int{i, j, k}[d] < n[d]-1 {
					for w, off := range diag {
						at := r + w*rc
						rhs[at] -= damp * lhs[l+off] * rhs[at+next]
					}
				} else if face != nil {
					after := face[faceIndex(n, d, i, j, k)*5:]
					for w, off := range diag {
						rhs[r+w*rc] -= damp * lhs[l+off] * after[w]
					}
				}
			}
		}
	}
}

// diagonal returns where the factor of each component lies in a row of lhs: on the diagonal of
// the block of BT, in turn in the three rows of SP.
func (mp *multipart) diagonal() (at [5]int) {
	for w := range at {
		at[w] = (w%(mp.width/5)*5 + w) * mp.lhs.comp
	}
	return at
}

func (mp *multipart) packBackward(c, d int, buf []float64) {
	at := 0
	mp.eachOnFace(c, d, 0, func(i, j, k int) {
		r := mp.rhs.at(c, i, j, k)
		for w := range 5 {
			buf[at] = mp.rhs.v[r+w*mp.rhs.comp]
			at++
		}
	})
}

// eachOnFace calls f for the points of the plane, in the order of faceIndex.
func (mp *multipart) eachOnFace(c, d, plane int, f func(i, j, k int)) {
	lo, hi := [3]int{}, mp.cells[c].n
	lo[d], hi[d] = plane, plane+1
	for k := lo[2]; k < hi[2]; k++ {
		for j := lo[1]; j < hi[1]; j++ {
			for i := lo[0]; i < hi[0]; i++ {
				f(i, j, k)
			}
		}
	}
}
