package serve_test

import (
	"os"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/serve"
	"ckpt/coordinator"
)

// TestMain makes this binary a ckpt for the jobs that the service launches, and for commands that a
// test starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		coordinator.LibraryFile = os.Getenv("CKPT_TEST_LIBRARY")
		root.Main()
	}
	serve.TestTree = serve.Tree{New: root.New, Call: root.Call}
	os.Exit(m.Run())
}
