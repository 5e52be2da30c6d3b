package traces

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// TestMounts: only mounts with files of the trace count, the longest one first, and a
// mount over another hides it.
func TestMounts(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:20 / /proc rw - proc proc rw
30 22 0:30 / /scratch rw,nosuid shared:4 - tmpfs tmpfs rw
31 22 0:31 / /scratch rw shared:5 master:2 - lustre mgs@tcp:/l rw
32 31 0:32 / /scratch/my\040own rw - nfs4 server:/x rw
short line
`
	tr := &iotrace.Trace{Files: []string{"/scratch/a", "/scratch/my own/b", "/scratchy", "relative", ""}}
	addMounts(tr, strings.NewReader(mountinfo))
	want := []iotrace.Property{{Name: "mount /", Value: "ext4"}, {Name: "mount /scratch", Value: "lustre"}, {Name: "mount /scratch/my own", Value: "nfs4"}}
	if diff := cmp.Diff(want, tr.Properties); diff != "" {
		t.Error(diff)
	}
}
