package image

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/vfs/memfs"
)

// takeAt takes checkpoints at some times of the local clock, like "28 20:15" in November 2026.
func takeAt(t *testing.T, times ...string) *taker {
	t.Helper()
	k := memJob(t)
	for i, text := range times {
		at, err := time.ParseInLocation("2006-01-02 15:04", "2026-11-"+text, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := k.job.Begin(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		m, err := k.write(tx)
		if err == nil {
			m.Created = at
			err = tx.Commit(context.Background(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		k.keep(m)
	}
	return k
}

func TestRetention(t *testing.T) {
	t.Parallel()
	times := []string{"26 09:00", "26 23:59", "27 00:00", "27 10:10", "27 10:50", "28 20:05", "28 21:00", "28 21:30"}
	for _, c := range []struct {
		r       Retention
		damaged int
		want    []int
	}{
		{Retention{}, 0, nil},
		{Retention{Hourly: 1}, 0, []int{8}},
		{Retention{Hourly: 3}, 0, []int{5, 6, 8}}, // hours without checkpoints do not count
		{Retention{Daily: 2}, 0, []int{5, 8}},
		{Retention{Hourly: 2, Daily: 9}, 0, []int{2, 5, 6, 8}},
		{Retention{Hourly: 2}, 8, []int{6, 7, 8}}, // a damaged one stands for no hour, and stays
		{Retention{Daily: 9}, 2, []int{1, 2, 5, 8}},
		{Retention{Daily: 9}, 4, []int{2, 5, 8}},
	} {
		k := takeAt(t, times...)
		if c.damaged > 0 {
			if err := k.fs.Remove(filepath.Join(k.job.NumberDir(c.damaged), "rank-0.img")); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := k.job.Retained(c.r, nil)
		var got []int
		for _, r := range kept {
			got = append(got, r.Number)
		}
		if err != nil && c.damaged == 0 || !slices.Equal(got, c.want) {
			t.Errorf("%+v with damage of %d: kept %v, %v; want %v", c.r, c.damaged, kept, err, c.want)
		}
	}
	k := takeAt(t, times...)
	kept, err := k.job.Retained(Retention{Hourly: 1, Daily: 1}, []int{1, 2, 3})
	if want := []Reason{{3, "newest of hour 2026-11-27 00, newest of day 2026-11-27"}}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("of the first three: %v, %v; want %v", kept, err, want)
	}
	if removed, _, err := k.job.Thin(1, []int{1, 2, 3, 4}, 2); err != nil || !slices.Equal(removed, []int{1, 3}) {
		t.Errorf("thinned %v, %v", removed, err)
	}
}

// TestRetentionReads: a checkpoint stays that cannot be read while a disk fails.
func TestRetentionReads(t *testing.T) {
	t.Parallel()
	k := takeAt(t, "26 09:00", "27 09:00")
	counted := memfs.WithFault(k.fs, memfs.Fault{})
	if kept, err := k.job.Through(counted).Retained(Retention{Daily: 5}, nil); err != nil || len(kept) != 2 {
		t.Fatalf("%v, %v", kept, err)
	}
	for op := range counted.Ops() {
		faulty := k.job.Through(memfs.WithFault(k.fs, memfs.Fault{At: op + 1, Err: syscall.EIO}))
		if kept, err := faulty.Retained(Retention{Daily: 5}, nil); err == nil && len(kept) != 2 {
			t.Errorf("operation %d fails: only %v would stay", op, kept)
		}
	}
}
