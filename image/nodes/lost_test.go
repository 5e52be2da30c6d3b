package nodes

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A sick file system fails what is read below a directory, or written.
type sick struct {
	vfs.Buffered
	below       string
	read, write error // nil: that works
}

func (s *sick) of(op, name string, err error) error {
	if err == nil || name != s.below && !strings.HasPrefix(name, s.below+"/") {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (s *sick) Open(name string) (vfs.File, error) {
	if err := s.of("open", name, s.read); err != nil {
		return nil, err
	}
	return s.FS.Open(name)
}

func (s *sick) Stat(name string) (fs.FileInfo, error) {
	if err := s.of("stat", name, s.read); err != nil {
		return nil, err
	}
	return s.FS.Stat(name)
}

func (s *sick) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := s.of("readdir", name, s.read); err != nil {
		return nil, err
	}
	return s.FS.ReadDir(name)
}

func (s *sick) Create(name string) (vfs.File, error) {
	if err := s.of("create", name, s.write); err != nil {
		return nil, err
	}
	return s.FS.Create(name)
}

func (s *sick) OpenWrite(name string) (vfs.File, error) {
	if err := s.of("open", name, s.write); err != nil {
		return nil, err
	}
	return s.FS.OpenWrite(name)
}

// Mkdir says that a directory is there before it says that the disk is read-only, as Linux does.
func (s *sick) Mkdir(name string) error {
	if err := s.of("mkdir", name, s.write); err != nil {
		if _, serr := s.FS.Stat(name); serr == nil {
			err = &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
		}
		return err
	}
	return s.FS.Mkdir(name)
}

func (s *sick) Rename(from, to string) error {
	if err := s.of("rename", to, s.write); err != nil {
		return err
	}
	return s.FS.Rename(from, to)
}

func (s *sick) Remove(name string) error {
	if err := s.of("remove", name, s.write); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return s.FS.Remove(name)
}

// An ailment is what has become of the directory of a node.
type ailment struct {
	name    string
	make    func(t *testing.T, fsys vfs.FS, dir string) vfs.FS
	cured   func(t *testing.T, fsys vfs.FS, dir string) // by the user; nil: a scrub makes it whole
	refused bool                                        // no version can be written until then
}

// failing returns the file system with errors below the directory.
func failing(read, write error) func(*testing.T, vfs.FS, string) vfs.FS {
	return func(_ *testing.T, fsys vfs.FS, dir string) vfs.FS { return &sick{vfs.Through(fsys), dir, read, write} }
}

// instead puts a file in the place of a name of the directory; of a directory that is there,
// nothing is left.
func instead(name, text string) func(*testing.T, vfs.FS, string) vfs.FS {
	return func(t *testing.T, fsys vfs.FS, dir string) vfs.FS {
		t.Helper()
		name := path.Join(dir, name)
		if fi, err := fsys.Stat(name); err == nil && fi.IsDir() {
			if err := durable.RemoveAll(fsys, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := durable.Replace(fsys, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return fsys
	}
}

// without removes a name of the directory.
func without(name string) func(*testing.T, vfs.FS, string) vfs.FS {
	return func(t *testing.T, fsys vfs.FS, dir string) vfs.FS {
		t.Helper()
		name := path.Join(dir, name)
		remove := durable.Remove
		if fi, err := fsys.Stat(name); err == nil && fi.IsDir() {
			remove = durable.RemoveAll
		}
		if err := errors.Join(remove(fsys, name), durable.MkdirAll(fsys, dir)); err != nil {
			t.Fatal(err)
		}
		return fsys
	}
}

// removed has the user move away what is in the place of a name.
func removed(name string) func(*testing.T, vfs.FS, string) {
	return func(t *testing.T, fsys vfs.FS, dir string) {
		t.Helper()
		if err := fsys.Remove(path.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// mounted has the file system work again.
func mounted(*testing.T, vfs.FS, string) {}

// unmounted leaves an empty directory that cannot be written to.
func unmounted(t *testing.T, fsys vfs.FS, dir string) vfs.FS {
	return failing(nil, syscall.EACCES)(t, without("")(t, fsys, dir), dir)
}

var ailments = []ailment{
	{"unreadable", failing(syscall.EACCES, syscall.EACCES), mounted, true},
	{"unwritable", failing(nil, syscall.EACCES), mounted, true},
	{"read-only", failing(nil, syscall.EROFS), mounted, true},
	{"full", failing(nil, syscall.ENOSPC), mounted, true},
	{"over quota", failing(nil, syscall.EDQUOT), mounted, true},
	{"failing", failing(syscall.EIO, syscall.EIO), mounted, true},
	{"stale", failing(syscall.ESTALE, syscall.ESTALE), mounted, true},
	{"a loop of links", failing(syscall.ELOOP, syscall.ELOOP), mounted, true},
	{"a dead link", failing(syscall.ENOENT, syscall.ENOENT), mounted, true},
	{"a file", instead("", "a file\n"), removed(""), true},
	{"empty", without(""), nil, false},
	{"unmounted", unmounted, mounted, true},
	{"an empty format", instead("format", ""), nil, false},
	{"a wrong format", instead("format", "ckpX-store 1\n"), nil, false},
	{"a long format", instead("format", strings.Repeat("x", 5000)), nil, false},
	{"no format", without("format"), nil, false},
	{"a newer format", instead("format", "ckpt-store 999\n"), removed("format"), true},
	{"a broken mark", instead("jobs/"+testJob+"/node", "{\"job\""), nil, false},
	{"no mark", without("jobs/" + testJob + "/node"), nil, false},
	{"a broken description", instead("jobs/"+testJob+"/job", "ckpt-job"), nil, false},
	{"no description", without("jobs/" + testJob + "/job"), nil, false},
	{"no jobs", without("jobs"), nil, false},
	{"a file for the jobs", instead("jobs", ""), removed("jobs"), true},
	{"a file for the job", instead("jobs/"+testJob, ""), removed("jobs/" + testJob), true},
	{"a file for the version", instead("jobs/"+testJob+"/0001", ""), removed("jobs/" + testJob + "/0001"), false},
}

// TestLostDirectories has the directory of a node in each state: all ranks recover what was
// written, verifying names the node, scrubbing makes it whole as soon as that can be, and
// then the node takes versions again.
func TestLostDirectories(t *testing.T) {
	for _, protection := range []string{"partner", "xor:3", "rs:2+2"} {
		for _, s := range ailments {
			t.Run(protection+"/"+s.name, func(t *testing.T) { s.check(t, protection) })
		}
	}
}

func (s *ailment) check(t *testing.T, protection string) {
	ctx := context.Background()
	w := newWorld(t, protection, 4, 1)
	m := w.version(t, 1)
	const node = 2
	disk, dir := w.disks[node], w.setting.NodeDir(node)
	w.disks[node] = s.make(t, disk, dir)
	w.reopen(t)

	named := func(list []Finding) bool {
		return slices.ContainsFunc(list, func(f Finding) bool {
			return f.Node == node && f.Condition != Sound && f.Condition != Unreachable && !f.Restored && f.Err != nil
		})
	}
	list, err := w.tier.Verify(ctx, m, nil)
	if err != nil || !named(list) {
		t.Errorf("verified: %+v, %v", list, err)
	}
	if slices.ContainsFunc(list, func(f Finding) bool { return f.Node != node && f.Condition != Sound }) {
		t.Errorf("other nodes: %+v", list)
	}
	s.prepare(t, w, node)

	w.reopen(t)
	for rank := range w.nodeOf {
		from, err := w.tier.Recover(ctx, m, rank)
		if err == nil {
			err = check(ctx, from.Job, m, rank)
		}
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	if list, err = w.tier.Scrub(ctx, m, nil); err != nil || soundOn(list) != (s.cured == nil) || s.cured != nil && !named(list) {
		t.Errorf("scrubbed: %+v, %v", list, err)
	}
	if s.cured != nil {
		w.disks[node] = disk
		s.cured(t, disk, dir)
		w.reopen(t)
		if list, err = w.tier.Scrub(ctx, m, nil); err != nil || !soundOn(list) {
			t.Errorf("scrubbed after the remedy: %+v, %v", list, err)
		}
	}
	if list, err = w.tier.Verify(ctx, m, nil); err != nil || slices.ContainsFunc(list, func(f Finding) bool { return f.Condition != Sound }) {
		t.Errorf("verified at the end: %+v, %v", list, err)
	}
	if _, err := w.recovered(ctx, w.version(t, 2)); err != nil {
		t.Errorf("the next version: %v", err)
	}
}

// prepare tries to write a version, and whether the node works.
func (s *ailment) prepare(t *testing.T, w *world, node int) {
	t.Helper()
	err := w.tier.Prepare(node, 9)
	if s.refused != (err != nil) || s.refused && !Lost(err) {
		t.Errorf("prepared for a version: %v", err)
	}
	if rerr := w.tier.Regain(nil, map[int]bool{1: true}); s.refused != (rerr != nil) {
		t.Errorf("regained: %v", rerr)
	}
	if err == nil {
		if err := w.tier.Discard(9); err != nil {
			t.Error(err)
		}
	}
}

// TestRegain removes what a node has of versions that were reclaimed while it was away, and
// no other.
func TestRegain(t *testing.T) {
	w := newWorld(t, "partner", 3, 1)
	w.version(t, 1)
	m := w.version(t, 2)
	disk := w.disks[1]
	w.disks[1] = memfs.New()
	w.reopen(t)
	if err := w.tier.Reclaim(1); err != nil {
		t.Fatal(err)
	}
	w.disks[1] = disk
	w.reopen(t)
	if err := w.tier.Regain(m, map[int]bool{2: true}); err != nil {
		t.Fatal(err)
	}
	if versions, errs := w.tier.Versions(context.Background()); len(errs) > 0 || len(versions) != 1 || versions[0].Number != 2 || len(versions[0].Nodes) != 3 {
		t.Errorf("%+v, %v", versions, errs)
	}
}

// TestForeignDirectory has a directory belong to another job of this name: it is no lost
// node, and nothing in it is touched.
func TestForeignDirectory(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "partner", 3, 1)
	m := w.version(t, 1)
	other := newWorld(t, "partner", 3, 1)
	nodes := []Node{}
	for n, disk := range other.disks {
		nodes = append(nodes, Node{ID: n, FS: disk, Dir: other.setting.NodeDir(n)})
	}
	var err error
	if other.tier, err = Open(testJob, []byte("another\n"), other.setting, other.nodeOf, nodes); err != nil {
		t.Fatal(err)
	}
	theirs := other.version(t, 1)
	w.disks[1] = other.disks[1]
	w.reopen(t)
	if _, err := w.tier.Recover(ctx, m, 1); !Foreign(err) {
		t.Errorf("recovered into the directory of another job: %v", err)
	}
	if err := w.tier.Regain(m, map[int]bool{1: true}); !Foreign(err) {
		t.Errorf("regained the directory of another job: %v", err)
	}
	if list, err := w.tier.Scrub(ctx, m, nil); err != nil || soundOn(list) {
		t.Errorf("scrubbed: %+v, %v", list, err)
	}
	if list, err := other.tier.Verify(ctx, theirs, nil); err != nil || slices.ContainsFunc(list, func(f Finding) bool { return f.Condition != Sound }) {
		t.Errorf("the other job: %+v, %v", list, err)
	}
}
