package predictions_test

import (
	"testing"

	"ckpt/cmd/ckpt/internal/scripttest"
)

func TestMain(m *testing.M) { scripttest.Main(m) }

func TestScripts(t *testing.T) {
	scripttest.Run(t, scripttest.Commands{"figures": figures, "ownjobs": ownJobs, "ranksizes": rankSizes})
}
