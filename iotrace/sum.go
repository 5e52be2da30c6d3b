package iotrace

import "math"

// Sum adds two amounts that are not negative. Traces may have any numbers: a sum that
// is too large is the largest number.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
