package nodes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ckpt/image"
	"ckpt/internal/vfs"
)

// placed opens the tier of a job of a store in dir, on nodes below base.
func placed(t *testing.T, dir, base string, description []byte) (*image.Store, *Tier) {
	t.Helper()
	store, err := image.CreateStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Own(); err != nil {
		t.Fatal(err)
	}
	setting := Setting{Dir: filepath.Join(base, "{node}"), Protect: scheme(t, "none"), Drain: Drain{Mode: DrainNone}}
	nodes := []Node{{ID: 0, FS: vfs.OS{}, Dir: setting.NodeDir(0)}}
	tier, err := Open(testJob, description, setting, []int{0}, nodes)
	if err != nil {
		t.Fatal(err)
	}
	tier.For(store)
	return store, tier
}

// TestOwner keeps the directories of a job from a copy of its store, from other jobs of its
// name, and from itself after a launch anew.
func TestOwner(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	a, tier := placed(t, filepath.Join(dir, "a"), base, testSpec)
	tier.Hold()
	if err := tier.Ready(0); err != nil {
		t.Fatal(err)
	}

	// While it is held, also without a checkpoint.
	_, other := placed(t, filepath.Join(dir, "b"), base, []byte("another\n"))
	if err := other.Ready(0); !errors.Is(err, image.ErrInUse) {
		t.Errorf("another job of this name takes a directory that is held: %v", err)
	}
	if err := os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(a.Dir())); err != nil {
		t.Fatal(err)
	}
	_, copied := placed(t, filepath.Join(dir, "copy"), base, testSpec)
	copied.Hold()
	if err := copied.Ready(0); !Foreign(err) {
		t.Errorf("the same job of a copy takes a directory that is held: %v", err)
	}

	// With a checkpoint, held or not.
	j, err := tier.Job(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(j.NumberDir(1), 0o700); err != nil {
		t.Fatal(err)
	}
	m := &image.Manifest{Job: testJob, App: testJob, NP: 1, Number: 1, Mapping: []int{1}, MPI: "mpich", Mode: "coordinated", ID: image.NewID(), Ranks: []image.Rank{{Rank: 0}}}
	m.Tier = tier.Describe(nil)
	if err := j.Announce(m); err != nil {
		t.Fatal(err)
	}
	tier.Release()
	for name, tier := range map[string]*Tier{"another job": other, "a copy": copied} {
		owner := (*OwnerError)(nil)
		if err := tier.Ready(0); !errors.As(err, &owner) || owner.Store != a.Dir() {
			t.Errorf("%s takes the directory: %v", name, err)
		}
		if versions, errs := tier.Versions(context.Background()); len(versions) > 0 || len(errs) != 1 || !Foreign(errs[0]) {
			t.Errorf("%s has versions %+v, errors %v", name, versions, errs)
		}
	}
	if err := tier.Ready(0); err != nil {
		t.Errorf("its own job: %v", err)
	}

	// Without its checkpoint and its coordinator, it is free.
	if err := j.Withdraw(1); err != nil {
		t.Fatal(err)
	}
	if err := other.Ready(0); err != nil {
		t.Errorf("another job does not get a directory without a checkpoint: %v", err)
	}
	_, tier = placed(t, a.Dir(), base, testSpec)
	if _, err := tier.Job(0); !Foreign(err) {
		t.Errorf("the first job finds the directory of another: %v", err)
	}
}

// TestMarkOfBefore: a directory that an earlier version has marked is taken, and marked for
// the store.
func TestMarkOfBefore(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	_, tier := placed(t, filepath.Join(dir, "a"), base, testSpec)
	tier.For(nil)
	if err := tier.Ready(0); err != nil {
		t.Fatal(err)
	}
	a, again := placed(t, filepath.Join(dir, "a"), base, testSpec)
	if err := again.Ready(0); err != nil {
		t.Fatal(err)
	}
	j, err := again.Job(0)
	if err != nil {
		t.Fatal(err)
	}
	is, err := again.owned(j, 0)
	if err != nil || is.Owner == nil {
		t.Fatalf("%+v, %v", is, err)
	}
	if same, err := a.Is(*is.Owner); err != nil || !same {
		t.Errorf("marked for %+v: %v", is.Owner, err)
	}
}
