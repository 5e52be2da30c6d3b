package ui

import (
	"fmt"

	"ckpt/coordinator"
)

// storageTurns says whether a job takes turns on the storage.
func storageTurns(ev *coordinator.TurnsEvent) string {
	switch {
	case ev.Reason != "":
		return "the job goes on without turns on the storage: " + ev.Reason
	case ev.Started:
		return fmt.Sprintf("the job takes turns on %s, whose controller it has started", ev.Unit)
	}
	return "the job takes turns on " + ev.Unit
}
