package image

import (
	"flag"

	"ckpt/internal/race"
)

// The race detector slows drawing and comparing down tenfold: CI runs the whole number
// without it.
func init() {
	if !race.Enabled {
		return
	}
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
}
