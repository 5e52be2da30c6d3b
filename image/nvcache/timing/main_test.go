package timing

import (
	"testing"

	"ckpt/internal/race"
)

func TestMain(m *testing.M) {
	race.Sample(100)
	m.Run()
}
