package image

import (
	"encoding/json"
	"path/filepath"
	"time"

	"ckpt/image/container"
	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
)

// storageName is the file of a store that says how fast its storage reads.
const storageName = "storage.json"

// Storage describes how fast the storage of a store reads. It decides how large a
// hole between two extents may be to be read along, never what is read.
type Storage struct {
	Bandwidth float64       `json:"bytes_per_s"`
	Call      time.Duration `json:"call_ns"` // cost of a call however short it is
	Measured  time.Time     `json:"measured,omitzero"`
}

// usualStorage serves a store that was not measured.
var usualStorage = Storage{Bandwidth: container.UsualDevice.Bandwidth, Call: container.UsualDevice.Latency}

// BreakEven returns the bytes that the storage reads in the time of a call.
func (s Storage) BreakEven() int64 { return int64(s.Bandwidth * s.Call.Seconds()) }

// Device describes the storage to the rules of data sieving.
func (s Storage) Device() fileview.Device {
	return fileview.Device{Bandwidth: s.Bandwidth, Latency: s.Call, Block: container.BlockSize}
}

// sound reports whether the numbers can be those of a storage.
func (s Storage) sound() bool {
	return s.Bandwidth >= 1<<10 && s.Bandwidth <= 1<<50 && s.Call > 0 && s.Call <= time.Minute
}

// Storage returns what SetStorage has kept. A store without it, or whose file is
// damaged, is assumed to be usual: the numbers only cost time.
func (s *Store) Storage() Storage {
	b, err := durable.ReadFile(s.fs, filepath.Join(s.dir, storageName), 4096)
	kept := Storage{}
	if err != nil || json.Unmarshal(b, &kept) != nil || !kept.sound() {
		return usualStorage
	}
	return kept
}

// SetStorage keeps what was measured of the storage, for all jobs of the store.
func (s *Store) SetStorage(measured Storage) error {
	b, err := json.Marshal(measured)
	if err != nil {
		return err
	}
	return durable.Replace(s.fs, filepath.Join(s.dir, storageName), append(b, '\n'))
}
