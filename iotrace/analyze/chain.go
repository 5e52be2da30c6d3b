package analyze

import "ckpt/iotrace"

// A chain is a run of requests that follow a rule: each begins where the one before
// ended, or a fixed step after its start. Other requests may come between, and
// neighbours may be swapped, so noise does not break a chain.
type chain struct {
	start, next int64 // first offset, and the expected next one
	bytes       int64
	count       int32
	first       int32 // the earliest request
	into        int32 // the chain that it was merged into, or -1
}

// lookback is the number of open chains. The least recently extended one is closed.
const lookback = 8

// A chainer finds chains. It reuses its memory.
type chainer struct {
	chains []chain
	member []int32 // chain of each request when it joined
}

// link finds the chains among the requests todo of a block. With contiguous the
// requests of a chain touch, otherwise their starts are step apart.
func (c *chainer) link(off, end []int64, todo []int32, contiguous bool, step int64) {
	c.chains = c.chains[:0]
	if len(c.member) < len(off) {
		c.member = make([]int32, len(off))
	}
	var open [lookback]int32 // the most recent first
	n := 0
	for _, i := range todo {
		o, next := off[i], off[i]+step
		if contiguous {
			next = end[i]
		}
		at := -1
		for j := range n {
			if c.chains[open[j]].next == o {
				at = j
				break
			}
		}
		var id int32
		if at >= 0 {
			id = open[at]
		} else {
			id = int32(len(c.chains))
			c.chains = append(c.chains, chain{start: o, first: i, into: -1})
			if n < lookback {
				n++
			}
			at = n - 1
		}
		copy(open[1:at+1], open[:at])
		open[0] = id
		ch := &c.chains[id]
		ch.next = next
		ch.count++
		ch.bytes = iotrace.Sum(ch.bytes, end[i]-o)
		c.member[i] = id
		// A request may close the gap to an earlier chain.
		for j := 1; j < n; j++ {
			if k := open[j]; c.chains[k].start == next {
				late := &c.chains[k]
				late.into = id
				ch.next, ch.count, ch.bytes, ch.first = late.next, ch.count+late.count, iotrace.Sum(ch.bytes, late.bytes), min(ch.first, late.first)
				copy(open[j:], open[j+1:n])
				n--
				break
			}
		}
	}
}

// of returns the chain of a request.
func (c *chainer) of(i int32) *chain {
	id := c.member[i]
	for c.chains[id].into >= 0 {
		id = c.chains[id].into
	}
	return &c.chains[id]
}

// long appends to buf the chains of at least count requests, in the order of their
// beginnings, and returns the number of their requests.
func (c *chainer) long(buf []chain, count int32) (out []chain, requests int) {
	for i := range c.chains {
		if ch := &c.chains[i]; ch.into < 0 && ch.count >= count {
			buf = append(buf, *ch)
			requests += int(ch.count)
		}
	}
	return buf, requests
}
