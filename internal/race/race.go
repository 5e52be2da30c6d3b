// Package race tells tests how long they may take: less under the race detector, more
// at night.
package race

import "os"

// Nightly reports whether the long forms of tests run: CKPT_NIGHTLY is set.
func Nightly() bool { return os.Getenv("CKPT_NIGHTLY") != "" }
