package finding

import (
	"strings"
	"testing"
)

// TestAssumedBandwidth: the model says why the severity of a large gain is low.
func TestAssumedBandwidth(t *testing.T) {
	r := &Run{Wall: 1, Time: 1, Timed: true, Files: []File{{Name: "log"}}}
	r.Syncs = Work{Count: 100, Bytes: 39 << 20, Time: 0.42, Wall: 0.42}
	r.EagerSyncs, r.Files[0].EagerSyncs = r.Syncs, r.Syncs
	found := Find(r, Default())
	const want = " (1 GB/s). The bandwidth is assumed: on a disk of 100 MB/s, the gain would be 0.011 s, and the severity is that of such a gain."
	if len(found) != 1 || found[0].Code != "CK12" || found[0].Severity != Info || *found[0].Gain < 0.37 || !strings.HasSuffix(found[0].Model, want) {
		t.Errorf("%+v", found)
	}
}
