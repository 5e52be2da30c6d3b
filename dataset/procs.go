package dataset

import (
	"fmt"
	"math"
	"math/bits"
)

// maxProcs bounds process counts. It is larger than any job that the models were
// checked against, and small enough that an expression cannot overflow by it.
const maxProcs = 1 << 20

// A procRule describes the process counts that an application can run with.
type procRule string

const (
	procsSquare procRule = "square"       // BT, SP: multipartition of q x q
	procsPower2 procRule = "power-of-two" // CG
	procsAny    procRule = "any"
)

func (r procRule) valid() bool {
	return r == procsSquare || r == procsPower2 || r == procsAny
}

// allows reports whether a job may have np processes.
func (r procRule) allows(np int) bool {
	if np < 1 || np > maxProcs {
		return false
	}
	switch r {
	case procsSquare:
		q := int(math.Sqrt(float64(np)))
		return q*q == np
	case procsPower2:
		return bits.OnesCount(uint(np)) == 1
	}
	return true
}

// nearest returns the allowed counts next to np: the largest below and the smallest
// above, or 0 if there is none.
func (r procRule) nearest(np int) (below, above int) {
	np = max(0, min(np, maxProcs+1))
	switch r {
	case procsSquare:
		q := int(math.Sqrt(float64(np)))
		below, above = q*q, (q+1)*(q+1)
	case procsPower2:
		if np > 0 {
			below = 1 << (bits.Len(uint(np)) - 1)
		}
		above = 1 << bits.Len(uint(np))
	default:
		below, above = min(np, maxProcs), np+1
	}
	if above > maxProcs {
		above = 0
	}
	return below, above
}

// hint advises counts to use instead of np.
func (r procRule) hint(np int) string {
	below, above := r.nearest(np)
	switch {
	case below == 0:
		return fmt.Sprintf("the nearest allowed count is %d", above)
	case above == 0:
		return fmt.Sprintf("the nearest allowed count is %d", below)
	}
	return fmt.Sprintf("the nearest allowed counts are %d and %d", below, above)
}
