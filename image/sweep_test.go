package image

import (
	"path/filepath"
	"slices"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
)

// taken is a job with checkpoints 1 to n.
func taken(t *testing.T, n int) *taker {
	t.Helper()
	k := memJob(t)
	for number := range n {
		if _, err := k.take(number + 1); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// TestPruneAlso: checkpoints that are named are kept as well, unless none is.
func TestPruneAlso(t *testing.T) {
	k := taken(t, 3)
	if removed, _, err := k.job.Prune(1, 1); err != nil || !slices.Equal(removed, []int{2}) {
		t.Errorf("removed %v, %v, want 2", removed, err)
	}
	if removed, _, err := k.job.Prune(0, 1); err != nil || !slices.Equal(removed, []int{1, 3}) {
		t.Errorf("removed %v, %v, want all", removed, err)
	}
}

// TestSweepWithoutIndex: what an image refers to is not known when its index cannot be
// read. It may be whatever is older, which stays.
func TestSweepWithoutIndex(t *testing.T) {
	k := taken(t, 2)
	if err := k.job.Drop(1); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(k.job.numberDir(2), "rank-1.img")
	b, err := durable.ReadFile(k.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-container.BlockSize] ^= 1 // in the trailer
	replace(t, k, name, b)
	if removed, err := k.job.Sweep(); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
}
