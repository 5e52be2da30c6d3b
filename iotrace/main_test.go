package iotrace

import (
	"testing"

	"ckpt/internal/race"
)

func TestMain(m *testing.M) {
	race.Sample(30)
	m.Run()
}
