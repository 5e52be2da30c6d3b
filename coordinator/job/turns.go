package job

import (
	"ckpt/internal/wording"
	"fmt"
)

// StorageTurns says whether a job takes turns with others on the storage of the store.
type StorageTurns string

const (
	NoTurns   StorageTurns = ""     // it writes and reads when it wants to
	UseTurns  StorageTurns = "on"   // if the storage has a controller
	AutoTurns StorageTurns = "auto" // and starts one if it has none
)

// ParseTurns reads the value of an option: on, off or auto.
func ParseTurns(text string) (StorageTurns, error) {
	if text == "off" {
		return NoTurns, nil
	}
	t := StorageTurns(text)
	if t == NoTurns {
		return t, badTurns(text)
	}
	return t, t.Check()
}

// Check refuses what no description has.
func (t StorageTurns) Check() error {
	switch t {
	case NoTurns, UseTurns, AutoTurns:
		return nil
	}
	return badTurns(string(t))
}

func badTurns(text string) error {
	return &UsageError{fmt.Sprintf("storage turns %q are unknown", text), wording.Sprintf("{storage-turns} takes on, off or auto")}
}

// TurnsName names a job among those that share a storage, which may be of several stores.
func TurnsName(storeDir, job string) string { return job + " in " + storeDir }
