package export

import (
	"testing"

	"ckpt/internal/race"
)

func TestMain(m *testing.M) {
	race.Sample(25)
	m.Run()
}
