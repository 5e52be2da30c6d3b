package fileview

import (
	"iter"
	"math"
)

// A window is one access to the file.
type window struct {
	off  int64  // in the file
	len  int64  // bytes it spans
	lead int64  // of which lie before the first wanted
	data int64  // of which are wanted
	at   cursor // the first wanted byte
}

// plain tells whether all bytes of the window are wanted.
func (w *window) plain() bool { return w.len == w.data }

// pieces yields the wanted parts of the window: where in the window, how long.
// They are walked again each time; a list of them could be larger than the
// buffer.
func (w *window) pieces() iter.Seq2[int64, int64] {
	return func(yield func(pos, n int64) bool) {
		c, pos := w.at, w.lead
		for left := w.data; left > 0; {
			n := min(c.run(), left)
			if !yield(pos, n) {
				return
			}
			left -= n
			pos += n + c.advance(n)
		}
	}
}

// A planner divides a request into windows as its rule decides.
type planner struct {
	rule   Rule
	access Access
	buffer int64
	device Device

	at   cursor // the next wanted byte
	left int64  // wanted bytes to come
	end  int64  // of the last window, -1 before the first
}

// next returns the next window, or false after the last. Whatever the rule
// answers, a window is not empty and not larger than the buffer, it begins where
// the last one ended or later, and no wanted byte is left out.
func (p *planner) next() (window, bool) {
	if p.left == 0 {
		return window{}, false
	}
	w := window{off: p.at.off(), at: p.at}
	gap, reach := int64(0), w.off
	if p.end >= 0 {
		gap, reach = w.off-p.end, w.off-p.end
	}
	d := p.ask(&w, gap)
	if p.access == Read {
		lead := min(max(0, d.Lead), reach)
		if d.Take <= 0 && lead > 0 && d.Fill > 0 {
			w.off -= lead
			w.len = min(d.Fill, lead, p.buffer)
			p.end = w.off + w.len
			return w, true
		}
		w.lead = min(lead, p.buffer-1)
		w.off -= w.lead
		w.len = w.lead
	}
	if d.Take <= 0 {
		d.Take = p.buffer
	}
	hole, whole := p.take(&w, d.Take)
	for whole || p.left == 0 {
		d = p.ask(&w, hole)
		space := p.buffer - w.len
		if p.left == 0 || d.Take <= 0 || hole >= space {
			if p.left > 0 {
				space = min(space, hole)
			}
			if p.access == Read {
				w.len += min(max(0, d.Fill), space, math.MaxInt64-w.off-w.len)
			}
			break
		}
		w.len += hole
		hole, whole = p.take(&w, d.Take)
	}
	p.end = w.off + w.len
	return w, true
}

// ask puts the question about the next block, which comes after a hole.
func (p *planner) ask(w *window, hole int64) Decision {
	return p.rule.Decide(Step{
		Access: p.access,
		Start:  w.off,
		Len:    w.len,
		Data:   w.data,
		Hole:   hole,
		Size:   min(p.at.run(), p.left),
		Rest:   p.left,
		Buffer: p.buffer,
		Device: p.device,
	})
}

// take adds up to n bytes of the block to the window. It returns whether that
// was the end of the block, and then the hole behind it.
func (p *planner) take(w *window, n int64) (hole int64, whole bool) {
	run := p.at.run()
	n = min(n, run, p.left, p.buffer-w.len)
	w.len += n
	w.data += n
	p.left -= n
	return p.at.advance(n), n == run
}
