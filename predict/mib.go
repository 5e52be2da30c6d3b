package predict

import (
	"encoding/json"
	"math"
)

// MiB is a size in MiB, which JSON has in whole bytes.
type MiB float64

const mebi = 1 << 20

// Bytes rounds a size to bytes.
func (m MiB) Bytes() int64 { return int64(math.Round(float64(m) * mebi)) }

// MarshalJSON writes bytes.
func (m MiB) MarshalJSON() ([]byte, error) { return json.Marshal(m.Bytes()) }

// UnmarshalJSON reads bytes.
func (m *MiB) UnmarshalJSON(b []byte) error {
	var bytes int64
	err := json.Unmarshal(b, &bytes)
	*m = MiB(bytes) / mebi
	return err
}
