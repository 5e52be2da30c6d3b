package app

import "fmt"

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
