package life

import (
	"maps"
	"math"
)

// spares replace lost nodes, which come back repaired. The place that has been empty for longest gets
// the next one.
type spares struct {
	m     *Machine
	ready int             // spares that have replaced none yet
	back  []float64       // when nodes come back that are to replace others, in order
	out   map[int]float64 // until when places of the job are empty
}

func newSpares(m *Machine) spares { return spares{m: m, ready: m.Spares, out: map[int]float64{}} }

// lose takes nodes from so many places from a first one on, and returns how many are lost: a place
// that is empty has none. The last is replaced at the time until.
func (s *spares) lose(at float64, first, count int) (lost int, until float64) {
	if s.m.Spares < 0 {
		return count, at
	}
	maps.DeleteFunc(s.out, func(_ int, until float64) bool { return until <= at })
	until = at
	for place := first; place < first+count; place++ {
		if s.empty(place, at) {
			continue
		}
		lost++
		s.back = append(s.back, at+s.m.Repair)
		if s.ready > 0 {
			s.ready--
			continue
		}
		until = max(at, s.back[0])
		s.back = s.back[1:]
		s.out[place] = until
	}
	return lost, until
}

// empty reports whether a place has no node at a time.
func (s *spares) empty(place int, at float64) bool { return s.out[place] > at }

// missing is how many places are empty at a time, and until when the first of them is.
func (s *spares) missing(at float64) (count int, until float64) {
	until = math.Inf(1)
	for _, back := range s.out {
		if back > at {
			count, until = count+1, min(until, back)
		}
	}
	return count, until
}

// next is the next failure of a node that is there.
func (s *spares) next(src source) failure {
	for {
		f := src.next()
		if len(s.out) == 0 || math.IsInf(f.at, 1) {
			return f
		}
		for place := f.node; place < f.node+f.count; place++ {
			if !s.empty(place, f.at) {
				return f
			}
		}
	}
}
