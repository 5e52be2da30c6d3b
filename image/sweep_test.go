package image

import (
	"path/filepath"
	"slices"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
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
	t.Parallel()
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
	t.Parallel()
	k := taken(t, 2)
	if err := k.job.Drop(1); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(k.job.NumberDir(2), "rank-1.img")
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

// TestThin: only checkpoints that the ranks descend from count; those between stay.
func TestThin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keep        int
		of, removed []int
	}{
		{2, []int{1, 2, 3, 4, 5}, []int{1, 2, 3}},
		{2, []int{1, 5}, nil}, // 2 to 4 are of a run that was left
		{1, []int{1, 5}, []int{1, 2, 3, 4}},
		{2, []int{1, 2, 5}, []int{1}},
		{9, []int{1, 2, 3, 4, 5}, nil},
		{1, nil, nil},
		{1, []int{7}, nil}, // a prune was quicker
	} {
		k := taken(t, 5)
		removed, _, err := k.job.Thin(c.keep, c.of)
		if err != nil || !slices.Equal(removed, c.removed) {
			t.Errorf("keeping %d of %v: removed %v, %v, want %v", c.keep, c.of, removed, err, c.removed)
		}
		left, err := k.job.Checkpoints()
		if err != nil || len(left) != 5-len(c.removed) {
			t.Errorf("keeping %d of %v: %v are left, %v", c.keep, c.of, left, err)
		}
		for _, n := range left {
			if err := checkCheckpoint(k.job, n); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestThinDamaged: a damaged checkpoint does not count.
func TestThinDamaged(t *testing.T) {
	t.Parallel()
	k := taken(t, 4)
	replace(t, k, k.job.manifestPath(3), []byte("nothing"))
	if removed, _, err := k.job.Thin(2, []int{1, 2, 3, 4}); err != nil || !slices.Equal(removed, []int{1}) {
		t.Errorf("removed %v, %v, want 1", removed, err)
	}
}

// TestPrunePreview: the preview changes nothing and says what the prune does then.
func TestPrunePreview(t *testing.T) {
	t.Parallel()
	for keep := range 5 {
		for _, also := range [][]int{nil, {1}, {2}} {
			k := taken(t, 4)
			if err := k.job.Drop(3); err != nil { // its files are debris, or in use
				t.Fatal(err)
			}
			if keep == 1 {
				replace(t, k, k.job.manifestPath(4), []byte("nothing"))
			}
			before := k.fs.(*memfs.FS).Digest()
			remove, frees, err := k.job.PrunePreview(keep, also...)
			if err != nil || k.fs.(*memfs.FS).Digest() != before {
				t.Fatalf("%v, or something changed", err)
			}
			again := secondOpening(t, k)
			removed, freed, err := again.Prune(keep, also...)
			if err != nil || !slices.Equal(removed, remove) || freed != frees {
				t.Errorf("keeping %d and %v: %v and %d bytes, then %v and %d, %v", keep, also, remove, frees, removed, freed, err)
			}
		}
	}
}

// secondOpening is the job as another process sees it that takes its lock.
func secondOpening(t *testing.T, k *taker) *Job {
	t.Helper()
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(k.fs, "/store")
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.Job(testJob)
	if err == nil {
		err = again.Lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestSweepLeavesRecords: records of a job, such as its standard input, are written while its loop sweeps.
func TestSweepLeavesRecords(t *testing.T) {
	t.Parallel()
	k := taken(t, 1)
	for _, name := range []string{RecordName, NextName, "stdin.json", "other"} {
		if err := durable.Replace(k.fs, filepath.Join(k.job.dir, name+durable.TempSuffix), []byte("half")); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := k.job.Sweep()
	if err != nil || !slices.Equal(removed, []string{"other" + durable.TempSuffix}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}
