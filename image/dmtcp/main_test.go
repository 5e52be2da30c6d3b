package dmtcp_test

import (
	"testing"

	"ckpt/internal/testkit"
)

func TestMain(m *testing.M) {
	defer testkit.InMemory()()
	m.Run()
}
