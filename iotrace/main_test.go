package iotrace

import (
	"testing"

	"ckpt/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Sample(30)
	m.Run()
}
