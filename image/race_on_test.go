//go:build race

package image

import "flag"

const raceEnabled = true

// The detector slows drawing and comparing down tenfold: CI runs the whole number
// without it.
func init() {
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
}
