package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := OpenStore(vfs.OS{}, dir); !errors.Is(err, ErrNoStore) || !strings.Contains(err.Error(), dir) {
		t.Errorf("before: %v", err)
	}
	k := newJob(t, vfs.OS{}, dir)
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	s, err := OpenStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := s.Jobs(); err != nil || !slices.Equal(jobs, []string{testJob}) || s.Dir() != dir {
		t.Errorf("jobs %v, %v", jobs, err)
	}
	if _, err := s.CreateJob(testJob, nil); !errors.Is(err, ErrJobExists) {
		t.Errorf("create again: %v", err)
	}
	if _, err := s.Job("nobody"); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("no job: %v", err)
	}
	if spec, err := k.job.Spec(); err != nil || string(spec) != "{}\n" {
		t.Errorf("spec %q, %v", spec, err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "-a", "a b", "ä", strings.Repeat("x", 102)} {
		if _, err := s.CreateJob(name, nil); err == nil {
			t.Errorf("job %q was made", name)
		}
		if _, err := s.Job(name); !errors.Is(err, ErrJobNotFound) {
			t.Errorf("job %q: %v", name, err)
		}
	}
	if _, err := k.job.Manifest(1); !errors.Is(err, ErrCheckpointNotFound) {
		t.Errorf("manifest: %v", err)
	}
	if _, err := k.job.Verify(context.Background(), 1, nil); !errors.Is(err, ErrCheckpointNotFound) {
		t.Errorf("verify: %v", err)
	}
	if n, err := k.job.Latest(); n != 0 || err != nil {
		t.Errorf("latest %d, %v", n, err)
	}
	want, err := k.take(3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.job.Manifest(3)
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("manifest: %v, %s", err, cmp.Diff(got, want))
	}
	if _, err := k.take(3); err == nil {
		t.Error("checkpoint 3 was taken twice")
	}
	if _, err := k.take(2); err == nil {
		t.Error("checkpoint 2 was taken after 3")
	}
	if err := checkCheckpoint(k.job, 3); err != nil {
		t.Error(err)
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	k := newJob(t, vfs.OS{}, t.TempDir())
	s, err := OpenStore(vfs.OS{}, filepath.Dir(filepath.Dir(k.job.Dir())))
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(); !errors.Is(err, ErrInUse) {
		t.Errorf("lock: %v", err)
	}
	_, _, prune := other.Prune(1)
	_, sweep := other.Sweep()
	_, begin := other.Begin(1)
	for _, err := range []error{prune, sweep, begin} {
		if err == nil || !strings.Contains(err.Error(), "not locked") {
			t.Errorf("without the lock: %v", err)
		}
	}
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Latest(); n != 1 || err != nil {
		t.Errorf("reading without the lock: %d, %v", n, err)
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(); err != nil {
		t.Error(err)
	}
}

// TestOtherJob puts files of one job into the directory of another.
func TestOtherJob(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(k.fs, "/store")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.CreateJob("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.fs.Mkdir(other.NumberDir(1)); err != nil {
		t.Fatal(err)
	}
	m, err := k.job.Manifest(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest", "rank-0.img"} {
		b, err := durable.ReadFile(k.fs, filepath.Join(k.job.NumberDir(1), name), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, k, filepath.Join(other.NumberDir(1), name), b)
	}
	if _, err := other.Manifest(1); !errors.Is(err, durable.ErrOtherJob) {
		t.Errorf("manifest: %v", err)
	}
	if rep, err := other.Verify(context.Background(), 1, nil); err != nil || len(rep.Damage) != 1 || !strings.Contains(rep.Damage[0].Reason, "of job "+testJob) {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	err = other.Load(context.Background(), m, "0001/rank-0.img", 0, empty(rankRegions(1, 0)), container.LoadOptions{})
	if !errors.Is(err, durable.ErrOtherJob) || !strings.Contains(err.Error(), "rank-0.img") {
		t.Errorf("image: %v", err)
	}
}

// TestReadOnlyStore uses a store that cannot be written. The superuser may
// write anywhere, so as root it runs again as somebody else.
func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// A directory that nobody can get to, with the test and its data.
		dir, err := os.MkdirTemp("", "ckpt-readonly-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		b, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, "image.test")
		if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(copied, b, 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(copied, "-test.run=^TestReadOnlyStore$", "-test.v")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, os.ErrPermission) {
			testkit.Skip(t, fmt.Sprintf("a directory that nobody may enter: %v", err))
		}
		if err != nil || strings.Contains(string(out), "no tests") {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	k := newJob(t, vfs.OS{}, filepath.Join(dir, "store"))
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	chmod := func(mode os.FileMode) {
		for _, d := range []string{dir, filepath.Join(dir, "store"), filepath.Join(dir, "store/jobs"), k.job.Dir(), k.job.NumberDir(1)} {
			if err := os.Chmod(d, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	chmod(0o500)
	defer chmod(0o700)
	if _, err := CreateStore(vfs.OS{}, filepath.Join(dir, "new")); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("create store: %v", err)
	}
	s, err := CreateStore(vfs.OS{}, filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err) // it is there, and opening it takes no writing
	}
	if _, err := s.CreateJob("new", nil); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "jobs/new") {
		t.Errorf("create job: %v", err)
	}
	j, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkCheckpoint(j, 1); err != nil {
		t.Errorf("reading: %v", err)
	}
	if err := j.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(2); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "0002") {
		t.Errorf("begin: %v", err)
	}
}

// TestCommitChecks commits manifests that do not fit what was written.
func TestCommitChecks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(k *taker, tx *Tx, m *Manifest){
		"length":         func(_ *taker, _ *Tx, m *Manifest) { m.Files[0].Bytes += container.BlockSize },
		"digest":         func(_ *taker, _ *Tx, m *Manifest) { m.Files[0].IndexBlake3 = m.Files[1].IndexBlake3 },
		"kind":           func(_ *taker, _ *Tx, m *Manifest) { m.Files[0].Kind = container.KindShared },
		"no file":        func(_ *taker, _ *Tx, m *Manifest) { m.Files[0].Path = "0001/rank-7.img" },
		"path":           func(_ *taker, _ *Tx, m *Manifest) { m.Files[0].Path = "../x/0001/rank-0.img" },
		"absolute":       func(_ *taker, _ *Tx, m *Manifest) { m.Files[0].Path = "/store/jobs/x/0001/rank-0.img" },
		"twice":          func(_ *taker, _ *Tx, m *Manifest) { m.Files[1] = m.Files[0] },
		"rank":           func(_ *taker, _ *Tx, m *Manifest) { m.Ranks = []Rank{{Rank: 2}} },
		"rank's file":    func(_ *taker, _ *Tx, m *Manifest) { m.Ranks = []Rank{{File: "0001/rank-9.img"}} },
		"mapping":        func(_ *taker, _ *Tx, m *Manifest) { m.Mapping = []int{1} },
		"number":         func(_ *taker, _ *Tx, m *Manifest) { m.Number = 7 },
		"job":            func(_ *taker, _ *Tx, m *Manifest) { m.Job = "other" },
		"later":          func(_ *taker, _ *Tx, m *Manifest) { m.Parent = 1 },
		"lost":           func(k *taker, tx *Tx, _ *Manifest) { _ = k.fs.Remove(tx.RankPath(0)) },
		"aborted before": func(_ *taker, tx *Tx, _ *Manifest) { _ = tx.Abort() },
	} {
		k := memJob(t)
		tx, err := k.job.Begin(1)
		if err != nil {
			t.Fatal(err)
		}
		m, err := k.write(tx)
		if err != nil {
			t.Fatal(err)
		}
		change(k, tx, m)
		if err := tx.Commit(context.Background(), m); err == nil || !strings.Contains(err.Error(), "checkpoint 1") {
			t.Errorf("%s: %v", name, err)
		}
		if err := checkNoDebris(k.job); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n, err := k.job.Latest(); n != 0 || err != nil {
			t.Errorf("%s: checkpoint %d, %v", name, n, err)
		}
	}
	k := memJob(t)
	tx, err := k.job.Begin(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.write(tx)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tx.Commit(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run.json", "coordinator.log", "manifest.tmp", "0001/rank-9.img", "0001/manifest.tmp"} {
		replace(t, k, filepath.Join(k.job.Dir(), name), []byte("x"))
	}
	for _, dir := range []string{"logs", "12", "0005"} {
		if err := k.fs.Mkdir(filepath.Join(k.job.Dir(), dir)); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := k.job.Sweep()
	want := []string{"0001/manifest.tmp", "0001/rank-9.img", "0005", "manifest.tmp"}
	if err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v; %v", removed, want, err)
	}
	if err := checkCheckpoint(k.job, 1); err != nil {
		t.Error(err)
	}
	tx, err := k.job.Begin(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.job.Sweep(); err == nil {
		t.Error("swept while a checkpoint was being written")
	}
	if err := tx.Abort(); err != nil {
		t.Error(err)
	}
}

// TestPrune checks that files live as long as a checkpoint uses them.
func TestPrune(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	for n := 1; n <= 3; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	removed, freed, err := k.job.Prune(1)
	if err != nil || !slices.Equal(removed, []int{1, 2}) || freed <= 0 {
		t.Errorf("removed %v, freed %d, %v", removed, freed, err)
	}
	if err := checkCheckpoint(k.job, 3); err != nil {
		t.Error(err)
	}
	entries, err := k.fs.ReadDir(k.job.NumberDir(1))
	if err != nil || len(entries) != 2 || entries[0].Name() != "library.img" || entries[1].Name() != "rank-1.img" {
		t.Errorf("left in 1: %v, %v", entries, err)
	}
	if removed, freed, err := k.job.Prune(1); err != nil || len(removed) > 0 || freed != 0 {
		t.Errorf("again: %v, %d, %v", removed, freed, err)
	}
	// The space is freed once, and all of it when nothing is left.
	before := k.fs.(*memfs.FS).Digest()
	if _, _, err := k.job.Prune(-1); err == nil || k.fs.(*memfs.FS).Digest() != before {
		t.Errorf("keeping -1: %v", err)
	}
	if _, _, err := k.job.Prune(0); err != nil {
		t.Error(err)
	}
	if entries, err := k.fs.ReadDir(k.job.Dir()); err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestSpecDamage flips each bit of the description of a job and cuts it at each
// byte.
func TestSpecDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := CreateStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte(`{"iterations": 40}`))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	path := filepath.Join(j.Dir(), specName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, n int, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var damage *durable.DamageError
		if spec, err := j.Spec(); !errors.As(err, &damage) && !errors.Is(err, durable.ErrNewerVersion) {
			t.Errorf("%s %d: spec %q, error %v", what, n, spec, err)
		}
	}
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		check("bit", bit, bad)
	}
	for n := range good {
		check("cut at", n, good[:n])
	}
}

// TestPruneCountsSound keeps the newest checkpoint that can be restored, not
// the newest.
func TestPruneCountsSound(t *testing.T) {
	t.Parallel()
	j := memJob(t)
	for n := 1; n <= 3; n++ {
		if _, err := j.take(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.job.fs.Remove(j.job.manifestPath(3)); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(j.job.fs, filepath.Join(j.job.NumberDir(3), manifestName), []byte("rot")); err != nil {
		t.Fatal(err)
	}
	removed, _, err := j.job.Prune(1)
	if err != nil || !slices.Equal(removed, []int{1}) {
		t.Errorf("removed %v, %v; want 1", removed, err)
	}
	damaged, err := j.job.Damaged(1)
	if err != nil || !slices.Equal(damaged, []int{3}) {
		t.Errorf("damaged %v, %v; want 3", damaged, err)
	}
	if _, err := j.job.Manifest(2); err != nil {
		t.Errorf("the last sound checkpoint is gone: %v", err)
	}
}

// A lateStore is a file system on which another process makes the store between a failed
// attempt to open it and the look at its format.
type lateStore struct {
	vfs.FS
	made bool
}

func (l *lateStore) Stat(name string) (os.FileInfo, error) {
	if filepath.Base(name) == formatName && !l.made {
		l.made = true
		if _, err := CreateStore(l.FS, filepath.Dir(name)); err != nil {
			return nil, err
		}
	}
	return l.FS.Stat(name)
}

// TestCreateStoreBesideAnother holds that of two processes that make a store, the slower
// opens it.
func TestCreateStoreBesideAnother(t *testing.T) {
	t.Parallel()
	fsys := &lateStore{FS: memfs.New()}
	if _, err := CreateStore(fsys, "/store"); err != nil || !fsys.made {
		t.Errorf("made by another: %t, %v", fsys.made, err)
	}
}
