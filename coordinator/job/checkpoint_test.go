package job

import (
	"encoding/json"
	"testing"

	"ckpt/zones"
)

// TestOldCheckpointLine: journals of earlier versions have the zones of a checkpoint
// in the field bytes.
func TestOldCheckpointLine(t *testing.T) {
	want := zones.Sizes{Library: 1, Data: 2, Shared: 3, IOBuffer: 4}
	for _, name := range []string{"bytes", "zones"} {
		line := `{"type":"checkpoint","number":7,"` + name + `":{"library":1,"data":2,"shared":3,"iobuffer":4},"pause_s":0.5}`
		var ev CheckpointEvent
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Type != "checkpoint" || ev.Number != 7 || ev.Pause != 0.5 || ev.Zones != want {
			t.Errorf("%s reads as %+v", line, ev)
		}
	}
}
