package app

import "math/bits"

// An exactSum adds numbers up without rounding, in units of 2^-56: the sum is the same in
// any order, and so on any number of ranks. It has 128 bits.
type exactSum struct{ hi, lo uint64 }

// most is the largest number that counts as it is.
const most = 128

// add adds a number that is not negative.
func (s *exactSum) add(v float64) {
	if v > most {
		v = most
	}
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v*(1<<56)), 0)
	s.hi += carry
}

// merge adds another sum.
func (s *exactSum) merge(o exactSum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, o.lo, 0)
	s.hi += o.hi + carry
}

// take returns the sum in parts of 32 bits, the lowest first, and begins again. The parts
// of up to 2^20 ranks add up exactly.
func (s *exactSum) take() []float64 {
	parts := []float64{float64(s.lo & 0xffffffff), float64(s.lo >> 32), float64(s.hi)}
	*s = exactSum{}
	return parts
}

// exactValue is the sum that such parts stand for.
func exactValue(parts []float64) float64 {
	return (parts[0] + parts[1]*(1<<32) + parts[2]*(1<<32)*(1<<32)) / (1 << 56)
}
