package images_test

import (
	"os"
	"testing"

	"ckpt/cmd/ckpt/internal/scripttest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(fsxVariable); dir != "" {
		serveFSX(dir)
		return
	}
	scripttest.Main(m)
}

func TestScripts(t *testing.T) {
	scripttest.Run(t, scripttest.Commands{"fsx": fsxCommand, "killed": killedCommand})
}
