package images

import (
	"testing"

	"ckpt/zones"
)

// TestJobSize: the size of a job is what the launcher told its ranks, even if one of them
// is all that was found; else what is there.
func TestJobSize(t *testing.T) {
	rank := func(host string, rank, job, node int) *zones.Process {
		return &zones.Process{Host: host, Rank: rank, JobRanks: job, NodeRanks: node}
	}
	for name, c := range map[string]struct {
		ranks     []*zones.Process
		job, node int
	}{
		"one of many":                {[]*zones.Process{rank("a", 3, 16, 8)}, 16, 8},
		"the nodes not told":         {[]*zones.Process{rank("a", 3, 16, 0), rank("a", 4, 16, 0)}, 16, 2},
		"nothing told":               {[]*zones.Process{rank("a", -1, 0, 0), rank("a", -1, 0, 0)}, 2, 2},
		"ranks only":                 {[]*zones.Process{rank("a", 4, 0, 0), rank("b", 6, 0, 0)}, 7, 1},
		"two nodes":                  {[]*zones.Process{rank("a", 0, 3, 0), rank("a", 1, 3, 0), rank("b", 2, 3, 0)}, 3, 2},
		"more than told (two tasks)": {[]*zones.Process{rank("a", 0, 1, 1), rank("a", 0, 1, 1)}, 2, 2},
	} {
		if job, node := jobSize(c.ranks); job != c.job || node != c.node {
			t.Errorf("%s: %d ranks, %d on a node; want %d and %d", name, job, node, c.job, c.node)
		}
	}
}
