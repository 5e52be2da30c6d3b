package nvcache

import (
	"testing"

	"ckpt/internal/race"
)

func TestMain(m *testing.M) {
	race.Sample(100)
	defer race.InMemory()()
	m.Run()
}
