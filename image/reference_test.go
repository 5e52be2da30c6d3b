package image

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// begin writes a checkpoint that is yet to be committed.
func (k *taker) begin(t *testing.T, number int) (*Tx, *Manifest) {
	t.Helper()
	tx, err := k.job.Begin(number)
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.write(tx)
	if err != nil {
		t.Fatal(err)
	}
	return tx, m
}

// swapBase replaces the image that deltas refer to by a sound one of the same
// shape with other contents.
func swapBase(t *testing.T, k *taker) {
	t.Helper()
	name := filepath.Join(k.job.dir, k.base.Path)
	if err := k.fs.Remove(name); err != nil {
		t.Fatal(err)
	}
	regions := []zones.Region{
		region("fixed", zones.Data, 2*zones.PageSize, 7),
		region("moving", zones.Data, 10, 7),
	}
	h := container.Header{Job: testJob, Number: 1, Kind: container.KindRank, Rank: deltaRank}
	if _, err := container.Write(context.Background(), k.fs, name, h, regions, container.WriteOptions{Depth: 1, ExtentBytes: 8192, History: container.NewHistory()}); err != nil {
		t.Fatal(err)
	}
}

// TestCommitChecksReferences: a checkpoint does not come to exist when a file that
// its extents lie in is gone, or is another one.
func TestCommitChecksReferences(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, k *taker){
		"gone": func(t *testing.T, k *taker) {
			if err := k.fs.Remove(filepath.Join(k.job.dir, k.base.Path)); err != nil {
				t.Fatal(err)
			}
		},
		"another": swapBase,
	} {
		t.Run(name, func(t *testing.T) {
			k := memJob(t)
			if _, err := k.take(1); err != nil {
				t.Fatal(err)
			}
			tx, m := k.begin(t, 2)
			spoil(t, k)
			var damage *durable.DamageError
			err := tx.Commit(context.Background(), m)
			if !errors.As(err, &damage) || damage.File != filepath.Join(k.job.dir, k.base.Path) {
				t.Errorf("commit: %v", err)
			}
			if n, err := k.job.Latest(); n != 1 || err != nil {
				t.Errorf("checkpoint %d, %v", n, err)
			}
		})
	}
}

// TestBaseReplaced: an image knows the file that it refers to by its digest, not by
// its name alone.
func TestBaseReplaced(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	swapBase(t, k)
	const want = "index is not the one that"
	base := filepath.Join(k.job.dir, k.base.Path)
	var damage *durable.DamageError
	err := k.job.Load(context.Background(), m, m.Files[1].Path, deltaRank, empty(deltaRegions(2)), container.LoadOptions{})
	if !errors.As(err, &damage) || damage.File != base || !strings.Contains(damage.Reason, want) {
		t.Errorf("Load: %v", err)
	}
	rep, err := k.job.Verify(context.Background(), 2, nil)
	if err != nil || len(rep.Damage) != 1 || rep.Damage[0].File != base || !strings.Contains(rep.Damage[0].Reason, want) {
		t.Errorf("Verify: %+v, %v", rep.Damage, err)
	}
}
