package image

import (
	"testing"

	"ckpt/zones"
)

// TestMemoryCountsOnce: ranks of a node share their segment, and all share the library.
// Images of single ranks repeat both.
func TestMemoryCountsOnce(t *testing.T) {
	t.Parallel()
	m := &Manifest{}
	for rank, node := range []int{0, 0, 1} {
		m.Ranks = append(m.Ranks, Rank{Rank: rank, Node: node, Zones: zones.Sizes{Library: 1000, Data: 10, Shared: 100 * int64(node+1), IOBuffer: 1}})
	}
	want := zones.Sizes{Library: 1000, Data: 30, Shared: 100 + 200, IOBuffer: 3}
	if got := m.Summary().Memory; got == nil || *got != want {
		t.Errorf("memory is %+v, want %+v", got, want)
	}
	m.Origin = "dmtcp"
	if got := m.Summary().Memory; got != nil {
		t.Errorf("memory of an imported checkpoint is %+v", got)
	}
}
