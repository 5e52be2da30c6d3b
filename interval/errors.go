package interval

import (
	"fmt"
	"math"
	"time"
)

// RangeError reports a quantity outside of the range in which an answer is meaningful.
type RangeError struct {
	Quantity string // what is out of range, like "checkpoint cost"
	Value    string // with its unit
	Reason   string // which range it leaves
	Remedy   string // what to do about it
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s of %s: %s", e.Quantity, e.Value, e.Reason)
}

// Hint returns the remedy.
func (e *RangeError) Hint() string { return e.Remedy }

func outOfRange(quantity string, value any, reason, remedy string) *RangeError {
	return &RangeError{Quantity: quantity, Value: fmt.Sprint(value), Reason: reason, Remedy: remedy}
}

// positive and notNegative check a duration.
func positive(quantity string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return outOfRange(quantity, d, "must be over 0", "give a time like 90s, 5m or 24h")
}

func notNegative(quantity string, d time.Duration) error {
	if d >= 0 {
		return nil
	}
	return outOfRange(quantity, d, "must not be negative", "give 0, or a time like 90s or 5m")
}

// longest is the longest duration that time.Duration holds, 292 years, less the
// rounding of float64 at that size.
const longest = float64(math.MaxInt64-1<<11) / 1e9

// duration converts seconds, or refuses them if no run can last that long.
func duration(quantity string, seconds float64) (time.Duration, error) {
	if !(seconds < longest) { // also NaN
		return 0, outOfRange(quantity, "over 292 years", "the job makes no progress worth the name",
			"give a shorter interval or work, a cheaper checkpoint or restart, or a longer MTBF")
	}
	return time.Duration(math.Round(seconds * 1e9)), nil
}
