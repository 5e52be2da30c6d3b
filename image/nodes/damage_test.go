package nodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// version has all ranks write one, and commits it.
func (w *world) version(t *testing.T, number int) *image.Manifest {
	t.Helper()
	return w.versionAt(t, number, 10*number)
}

// versionAt is version at an iteration.
func (w *world) versionAt(t *testing.T, number, iteration int) *image.Manifest {
	t.Helper()
	m, err := w.write(context.Background(), number, iteration)
	if err == nil {
		err = w.tier.Commit(context.Background(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// reopen opens the tier anew, with what has become of the nodes.
func (w *world) reopen(t *testing.T) {
	t.Helper()
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
}

// spoil flips a byte of a file of a node.
func spoil(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	if err := durable.ReadAt(f, name, b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if err := durable.WriteAt(f, name, b, at); err != nil {
		t.Fatal(err)
	}
}

// file returns where a node has the file of a rank.
func (w *world) file(node, number, rank int) string {
	return w.setting.NodeDir(node) + "/jobs/" + testJob + "/" + RankFile(number, rank)
}

// TestLostNode loses the directory of a node: its ranks are recovered from copies, and
// scrubbing makes the version whole.
func TestLostNode(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "partner", 3, 2)
	m := w.version(t, 1)
	w.disks[1] = memfs.New()
	w.reopen(t)
	sources, err := w.recovered(ctx, m)
	if want := []Source{FromLocal, FromLocal, FromCopy, FromCopy, FromLocal, FromLocal}; err != nil || !slices.Equal(sources, want) {
		t.Fatalf("recovered from %v, %v", sources, err)
	}
	list, err := w.tier.Scrub(ctx, m, nil)
	if err != nil || !soundOn(list) {
		t.Fatalf("after scrubbing: %+v, %v", list, err)
	}
	list, err = w.tier.Verify(ctx, m, nil)
	if err != nil || slices.ContainsFunc(list, func(f Finding) bool { return f.Condition != Sound }) || len(list) != 6+6+3 {
		t.Fatalf("verified: %+v, %v", list, err)
	}
	w.disks[0] = nil // node 0 had the copies that were lost
	w.nodeOf = []int{1, 1, 1, 1, 2, 2}
	w.reopen(t)
	if _, err := w.recovered(ctx, m); err != nil {
		t.Errorf("the second node lost: %v", err)
	}
}

// TestDamagedCopies damages each file of a rank in turn: the next one serves, and when
// nothing is left the error says so, and why.
func TestDamagedCopies(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "partner:2", 3, 1)
	m := w.version(t, 1)
	spoil(t, w.disks[0], w.file(0, 1, 0), 5000)
	partners := w.setting.Protect.Partners(w.tier.Topology(), 0)
	from, err := w.tier.Recover(ctx, m, 0)
	if err != nil || from.Source != FromCopy || !slices.Equal(from.Nodes, partners[:1]) || len(from.Passed) != 1 {
		t.Fatalf("damaged on the node: %+v, %v", from, err)
	}
	spoil(t, w.disks[0], w.file(0, 1, 0), 5000)
	spoil(t, w.disks[partners[0]], w.file(partners[0], 1, 0), 9000)
	from, err = w.tier.Recover(ctx, m, 0)
	if err != nil || !slices.Equal(from.Nodes, partners[1:]) || len(from.Passed) != 2 {
		t.Fatalf("damaged on the partner: %+v, %v", from, err)
	}
	spoil(t, w.disks[0], w.file(0, 1, 0), 0)
	if err := w.disks[partners[1]].Remove(w.file(partners[1], 1, 0)); err != nil {
		t.Fatal(err)
	}
	_, err = w.tier.Recover(ctx, m, 0)
	if damage := (*durable.DamageError)(nil); !errors.Is(err, ErrNotHere) || !errors.As(err, &damage) {
		t.Errorf("damaged everywhere: %v", err)
	}
	list, err := w.tier.Verify(ctx, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		want := Sound
		switch {
		case f.Role == RoleManifest || f.Rank != 0:
		case f.Node == partners[1]:
			want = Missing
		default:
			want = Damaged
		}
		if f.Condition != want {
			t.Errorf("%s of rank %d on node %d is %s, want %s: %v", f.Role, f.Rank, f.Node, f.Condition, want, f.Err)
		}
	}
}

// TestTornManifests damages manifests: one that is sound is enough, and without a sound one the
// version does not exist.
func TestTornManifests(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "none", 3, 1)
	w.version(t, 1)
	for n := range w.disks {
		spoil(t, w.disks[n], w.setting.NodeDir(n)+"/jobs/"+testJob+"/0001/manifest", 40)
		versions, errs := w.tier.Versions(ctx)
		if len(versions) != min(1, 2-n) || len(errs) != n+1 {
			t.Errorf("%d manifests damaged: %d versions, errors %v", n+1, len(versions), errs)
		}
	}
}

// TestFormatLost loses the file that makes a directory a store: the versions are there.
func TestFormatLost(t *testing.T) {
	w := newWorld(t, "none", 2, 1)
	m := w.version(t, 1)
	if err := w.disks[1].Remove("/nvme/1/format"); err != nil {
		t.Fatal(err)
	}
	w.reopen(t)
	if versions, errs := w.tier.Versions(context.Background()); len(errs) > 0 || len(versions) != 1 || len(versions[0].Nodes) != 2 {
		t.Errorf("%+v, %v", versions, errs)
	}
	if _, err := w.recovered(context.Background(), m); err != nil {
		t.Error(err)
	}
}

// TestOtherNode refuses a directory that belongs to another node, or to another job.
func TestOtherNode(t *testing.T) {
	w := newWorld(t, "none", 2, 1)
	w.version(t, 1)
	w.disks[0], w.disks[1] = w.disks[1], w.disks[0]
	w.setting.Dir = "/nvme/{node}"
	nodes := []Node{{ID: 0, FS: w.disks[0], Dir: "/nvme/1"}, {ID: 1, FS: w.disks[1], Dir: "/nvme/0"}}
	swapped, err := Open(testJob, testSpec, w.setting, w.nodeOf, nodes)
	if err != nil {
		t.Fatal(err)
	}
	if err := swapped.Prepare(0, 2); !errors.Is(err, ErrOtherNode) {
		t.Errorf("the directory of node 1 for node 0: %v", err)
	}
	if versions, errs := swapped.Versions(context.Background()); len(versions) > 0 || len(errs) != 2 {
		t.Errorf("%d versions, errors %v", len(versions), errs)
	}
	if _, err := Open(testJob, testSpec, w.setting, w.nodeOf, []Node{nodes[1], nodes[0]}); err == nil {
		t.Error("nodes in the wrong order are taken")
	}
	other, err := Open(testJob, []byte("another\n"), w.setting, w.nodeOf, []Node{{ID: 0, FS: w.disks[1], Dir: "/nvme/0"}, {ID: 1, FS: w.disks[0], Dir: "/nvme/1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Prepare(0, 2); !errors.As(err, new(*OwnerError)) {
		t.Errorf("a directory of another job of this name: %v", err)
	}
}

// TestStale has the store and the nodes contradict each other, and nodes contradict nodes.
func TestStale(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "none", 2, 1)
	m := w.version(t, 1)
	if err := w.drain(ctx, m); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t, "none", 2, 1)
	other.version(t, 1)
	w.disks[1] = other.disks[1] // came back from another life
	w.reopen(t)
	versions, errs := w.tier.Versions(ctx)
	if len(versions) != 2 || len(errs) > 0 {
		t.Fatalf("%+v, %v", versions, errs)
	}
	kept, warnings := w.tier.Settle(ctx, versions, nil, &Record{Versions: []Known{KnownOf(m, Local)}})
	if len(kept) != 1 || kept[0].ID != m.ID || len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "record") {
		t.Fatalf("as the record says: %+v, %v", kept, warnings)
	}
	w.disks[1] = newWorld(t, "none", 2, 1).disks[1]
	w.disks[0] = other.disks[0] // all nodes have another than the store
	w.reopen(t)
	versions, _ = w.tier.Versions(ctx)
	kept, warnings = w.tier.Settle(ctx, versions, w.store, nil)
	if len(kept) != 0 || len(warnings) != 1 {
		t.Fatalf("as the store says: %+v, %v", kept, warnings)
	}
	if versions, errs := w.tier.Versions(ctx); len(versions) > 0 || len(errs) > 0 {
		t.Errorf("a stale version is still there: %+v, %v", versions, errs)
	}
}
