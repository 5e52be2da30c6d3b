package app

import (
	"fmt"

	"ckpt/zones"
)

// generic is the kernel for a user's own code: the ranks form a ring, every float64 array is a
// slice of a long rod whose heat spreads, and other arrays are scrambled in place. Of each array
// an iteration rewrites the leading part that the spec's `rewrite` says: the same pages every
// time, as a code with a fixed working set does. An array that is not saved is computed anew in
// each iteration, and a replicated one without neighbours.
type generic struct {
	a          *App
	ends       []float64 // first or last values of all rods, one message
	fromL      []float64
	fromR      []float64
	rods       []*array
	scrambles  []*array
	left, next int
}

// genericKernel is the name of the kernel that takes any arrays.
const genericKernel = "generic"

func newGeneric(a *App) (kernel, error) {
	g := &generic{
		a:    a,
		left: (a.rank + a.inst.NP - 1) % a.inst.NP,
		next: (a.rank + 1) % a.inst.NP,
	}
	for _, arr := range a.arrays {
		arr.claimed = true
		if arr.Elem == zones.Float64 && arr.Count > 0 && arr.Save && !arr.Replicated {
			g.rods = append(g.rods, arr)
		} else {
			g.scrambles = append(g.scrambles, arr)
		}
	}
	g.ends = make([]float64, len(g.rods))
	g.fromL = make([]float64, len(g.rods))
	g.fromR = make([]float64, len(g.rods))
	return g, nil
}

func (g *generic) init() error {
	for _, arr := range g.a.arrays {
		arr.init(g.a.rank)
	}
	return nil
}

const (
	tagRight = 1
	tagLeft  = 2
)

func (g *generic) step(c Comm, iter int) (float64, error) {
	for i, arr := range g.rods {
		x := float64s(arr.mem)
		g.fromL[i], g.fromR[i] = x[len(x)-1], x[0] // a ring of one
	}
	if c.Size() > 1 && len(g.rods) > 0 {
		copy(g.ends, g.fromL) // my last values are the left ends of my right neighbour
		if err := c.SendFloat64s(g.next, tagRight, g.ends); err != nil {
			return 0, err
		}
		copy(g.ends, g.fromR)
		if err := c.SendFloat64s(g.left, tagLeft, g.ends); err != nil {
			return 0, err
		}
		if _, err := c.RecvFloat64s(g.left, tagRight, g.fromL); err != nil {
			return 0, err
		}
		if _, err := c.RecvFloat64s(g.next, tagLeft, g.fromR); err != nil {
			return 0, err
		}
	}
	var sum float64
	for i, arr := range g.rods {
		sum += diffuse(float64s(arr.mem), arr.part(), g.fromL[i], g.fromR[i], iter)
	}
	for _, arr := range g.scrambles {
		arr.compute(g.a.rank, iter)
	}
	return sum, nil
}

// part returns how many elements an iteration rewrites.
func (arr *array) part() int {
	return min(int(arr.Count), int(arr.Rewrite*float64(arr.Count)+0.5))
}

// rod is the field that diffuse drives x to: waves of 256 elements.
func rod(i int) float64 {
	s := float64(i%256) / 256
	return 0.5 + 4*s*(1-s)
}

// diffuse moves heat along x[:n] and returns the sum of squares of what moved.
func diffuse(x []float64, n int, left, right float64, iter int) float64 {
	var sum float64
	drive := ripple(iter)
	prev := left
	for i := 0; i < n; i++ {
		next := right
		if i+1 < len(x) {
			next = x[i+1]
		}
		d := 0.2*(prev-2*x[i]+next) + 0.02*(rod(i)*drive-x[i])
		prev = x[i]
		x[i] += d
		sum += d * d
	}
	return sum
}

// written returns the leading part of the memory that the array is used for.
func (arr *array) written() []byte {
	n := max(arr.part(), min(int(arr.Count), int(arr.Used*float64(arr.Count)+0.5)))
	return arr.mem[:n*arr.Elem.Size()]
}

// init fills an array that no kernel claims, or any array of generic.
func (arr *array) init(rank int) {
	if arr.Replicated {
		rank = 0
	}
	mem := arr.written()
	switch arr.Elem {
	case zones.Float64:
		for i, x := 0, float64s(mem); i < len(x); i++ {
			x[i] = 1 + 0.25*rod(i+17*rank)
		}
	case zones.Float32:
		for i, x := 0, view[float32](mem); i < len(x); i++ {
			x[i] = float32(1 + 0.25*rod(i+17*rank))
		}
	case zones.Int64:
		for i, x := 0, view[int64](mem); i < len(x); i++ {
			x[i] = int64(i) + int64(rank)<<32
		}
	case zones.Int32:
		for i, x := 0, view[int32](mem); i < len(x); i++ {
			x[i] = int32(i)
		}
	default:
		for i := range mem {
			mem[i] = byte(mix(uint64(i+rank)) >> 56)
		}
	}
}

// compute is what an iteration does to an array that needs no neighbour. One that is not saved
// does not depend on what it was before.
func (arr *array) compute(rank, iter int) {
	if arr.Save {
		arr.rewrite(iter)
		return
	}
	n := arr.part()
	if n == 0 {
		return
	}
	arr.init(rank)
	switch arr.Elem {
	case zones.Float64, zones.Float32:
		arr.rewrite(iter)
	case zones.Int64:
		add(view[int64](arr.mem)[:n], int64(iter))
	case zones.Int32:
		add(view[int32](arr.mem)[:n], int32(iter))
	default:
		for i := range arr.mem[:n*arr.Elem.Size()] {
			arr.mem[i] += byte(iter)
		}
	}
}

func add[T int64 | int32](x []T, v T) {
	for i := range x {
		x[i] += v
	}
}

// rewrite changes the leading part of an array that needs no neighbour.
func (arr *array) rewrite(iter int) {
	n := arr.part()
	switch arr.Elem {
	case zones.Float64:
		if x := float64s(arr.mem); n > 0 {
			diffuse(x, n, x[0], x[len(x)-1], iter)
		}
	case zones.Float32:
		x := view[float32](arr.mem)[:n]
		drive := float32(1 + 50*(ripple(iter)-1)) // visible in 24 bits
		for i := range x {
			x[i] += 0.1 * (float32(rod(i))*drive - x[i])
		}
	case zones.Int64:
		x := view[int64](arr.mem)[:n]
		for i := range x {
			x[i] += int64(i)&0xff + 1
		}
	case zones.Int32:
		x := view[int32](arr.mem)[:n]
		for i := range x {
			x[i] += int32(i)&0xff + 1
		}
	default:
		for i := range arr.mem[:n*arr.Elem.Size()] {
			arr.mem[i] += byte(i) | 1
		}
	}
}

// ring has messages in flight at the end of every iteration. A token sent to the right is
// received in the next iteration, one sent to the left in the one after that. A checkpoint taken
// at an iteration boundary must carry them, or the restarted run waits for ever, or computes
// something else.
//
// In each iteration rank 0 also receives one value of every other rank, from any source. Which
// comes first is left to chance, as in a master-worker code; the values are filed by their
// sender, so that the result is not.
type ring struct {
	a           *App
	state       []float64
	right       []float64 // the last token sent right: all that a ring of one has
	left        [2][]float64
	votes       []float64
	buf         []float64
	prev, next  int
	tokenLength int
}

const (
	tagTokenRight = 11
	tagTokenLeft  = 12
	tagVote       = 13
	maxToken      = 256
)

func newRing(a *App) (kernel, error) {
	n, err := a.param("n")
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("n is %d; the state needs at least one element", n)
	}
	t := min(n, maxToken)
	np := a.inst.NP
	r := &ring{a: a, prev: (a.rank + np - 1) % np, next: (a.rank + 1) % np, tokenLength: t}
	var token []float64
	err = a.claims(want{"state", n, &r.state}, want{"token", 3 * t, &token},
		want{"votes", np, &r.votes})
	if err != nil {
		return nil, err
	}
	r.right, r.left[0], r.left[1] = token[:t], token[t:2*t], token[2*t:3*t]
	r.buf = make([]float64, t)
	return r, nil
}

func (r *ring) init() error {
	for i := range r.state {
		r.state[i] = 1 + 0.5*rod(i+29*r.a.rank)
	}
	return nil
}

func (r *ring) step(c Comm, iter int) (float64, error) {
	if iter > 1 {
		if err := r.receive(c, r.prev, tagTokenRight, r.right); err != nil {
			return 0, err
		}
		r.absorb(0.25)
	}
	if iter > 2 {
		// Sent two iterations ago, so in the slot of this parity.
		if err := r.receive(c, r.next, tagTokenLeft, r.left[iter%2]); err != nil {
			return 0, err
		}
		r.absorb(0.125)
	}
	sum := diffuse(r.state, len(r.state), r.state[0], r.state[len(r.state)-1], iter)

	copy(r.right, r.state)
	if err := r.send(c, r.next, tagTokenRight, r.right); err != nil {
		return 0, err
	}
	left := r.left[iter%2]
	copy(left, r.state[len(r.state)-len(left):])
	if err := r.send(c, r.prev, tagTokenLeft, left); err != nil {
		return 0, err
	}
	return sum, r.vote(c, sum)
}

// absorb moves the head of the state towards the token in buf.
func (r *ring) absorb(weight float64) {
	for i, t := range r.buf {
		r.state[i] += weight * (t - r.state[i])
	}
}

// receive fills buf; a ring of one takes what it kept.
func (r *ring) receive(c Comm, src, tag int, kept []float64) error {
	if c.Size() == 1 {
		copy(r.buf, kept)
		return nil
	}
	_, err := c.RecvFloat64s(src, tag, r.buf)
	return err
}

func (r *ring) send(c Comm, dst, tag int, token []float64) error {
	if c.Size() == 1 {
		return nil
	}
	return c.SendFloat64s(dst, tag, token)
}

// vote ends before the sum of the residuals does, so that a vote of the next iteration cannot
// count in this one.
func (r *ring) vote(c Comm, value float64) error {
	ballot := []float64{float64(r.a.rank), value}
	if r.a.rank != 0 {
		return c.SendFloat64s(0, tagVote, ballot)
	}
	r.votes[0] = value
	for range c.Size() - 1 {
		from, err := c.RecvFloat64s(-1, tagVote, ballot)
		if err != nil {
			return err
		}
		if from < 1 || from >= c.Size() || float64(from) != ballot[0] {
			return fmt.Errorf("vote of rank %v came from rank %d", ballot[0], from)
		}
		r.votes[from] = ballot[1]
	}
	return nil
}
