package coordinator

import (
	"time"
)

// beatsPerSecond bounds the signs of life of all ranks together, as long as those
// that Limits.Silence asks for are fewer.
const beatsPerSecond = 500

// beatPeriod is short where that is cheap: a rank that dies is known to have come
// as far as it has told.
func beatPeriod(np int, silence time.Duration) time.Duration {
	return min(silence/4, max(100*time.Millisecond, time.Duration(np)*time.Second/beatsPerSecond))
}
