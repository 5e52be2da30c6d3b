package nodes

import (
	"testing"

	"ckpt/internal/race"
)

func TestMain(m *testing.M) {
	defer race.InMemory()()
	m.Run()
}
