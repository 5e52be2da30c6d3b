package image

import (
	"flag"
	"os"
	"testing"

	"ckpt/internal/testkit"
)

// The race detector slows drawing and comparing down tenfold: by day there are 15 without
// it, and all 100 at night.
func init() {
	checks := "100"
	switch {
	case testkit.Enabled:
		checks = "10"
	case !testkit.Nightly():
		checks = "15"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) {
	remove := testkit.InMemory()
	code := m.Run()
	remove()
	os.Exit(code)
}
