package life

import "slices"

// spares replace lost nodes, which come back repaired.
type spares struct {
	m        *Machine
	free     int       // negative: nodes are missing
	repaired []float64 // when lost nodes come back, in order
}

func newSpares(m *Machine) spares { return spares{m: m, free: m.Spares} }

// lose takes so many nodes from the job.
func (s *spares) lose(at float64, count int) {
	if s.m.Spares < 0 {
		return
	}
	s.free -= count
	s.repaired = append(s.repaired, slices.Repeat([]float64{at + s.m.Repair}, count)...)
}

func (s *spares) short() bool { return s.m.Spares >= 0 && s.free < 0 }

// back takes in what is repaired.
func (s *spares) back(now float64) {
	for len(s.repaired) > 0 && s.repaired[0] <= now {
		s.repaired = s.repaired[1:]
		s.free++
	}
}

// take replaces nodes that are lost, and returns when the last one is.
func (s *spares) take(lost, now float64, count int) float64 {
	s.lose(lost, count)
	for s.back(now); s.short(); s.back(now) {
		now = s.repaired[0]
	}
	return now
}
