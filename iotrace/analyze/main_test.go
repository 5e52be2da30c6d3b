package analyze

import (
	"testing"

	"ckpt/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Sample(25)
	m.Run()
}
