package dmtcp_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

const mib = 1 << 20

// scratch makes a directory in memory if there is room: these tests are about
// what is written, not about a disk.
func scratch(t testing.TB) string {
	t.Helper()
	const dir = "/dev/shm"
	if free, err := (vfs.OS{}).Free(dir); err != nil || free < 6<<30 {
		return t.TempDir()
	}
	name, err := os.MkdirTemp(dir, "ckpt-dmtcp-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(name) })
	return name
}

// images writes a checkpoint of n ranks into a new directory.
func images(t testing.TB, n int, o dmtcptest.Options) string {
	t.Helper()
	dir := scratch(t)
	if err := dmtcptest.Job(n, o).WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newJob(t testing.TB, fsys vfs.FS) *image.Job {
	t.Helper()
	store, err := image.CreateStore(fsys, filepath.Join(scratch(t), "store"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := store.CreateJob("app", []byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { job.Unlock() })
	return job
}

func collect(t testing.TB, names ...string) *dmtcp.Set {
	t.Helper()
	set, err := dmtcp.Collect(context.Background(), names, dmtcp.CollectOptions{Rules: zones.DefaultRules()})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func importDir(t testing.TB, job *image.Job, dir string) *image.Manifest {
	t.Helper()
	m, err := collect(t, dir).Import(context.Background(), job, dmtcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tree reads a directory: contents, modes, times and targets of links.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		what := fi.Mode().String()
		if fi.Mode()&fs.ModeSymlink == 0 {
			what += fi.ModTime().String()
		}
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += string(b)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			what += to
		}
		out[rel] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameTree(t testing.TB, got, want string) {
	t.Helper()
	a, b := tree(t, got), tree(t, want)
	for name := range b {
		if a[name] != b[name] {
			t.Errorf("%s is not what was imported", name)
		}
		delete(a, name)
	}
	for name := range a {
		t.Errorf("%s was not imported", name)
	}
}

func export(t testing.TB, job *image.Job, m *image.Manifest) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "out")
	if _, err := dmtcp.Export(context.Background(), job, m, dir, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExportIsIdentical(t *testing.T) {
	for name, o := range map[string]dmtcptest.Options{
		"mpich":   {Seed: 1, Nodes: 2},
		"openmpi": {Seed: 2, OpenMPI: true},
		"gzip":    {Seed: 3, Gzip: true},
		"arena":   {Seed: 4, Arena: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, job := images(t, 3, o), newJob(t, vfs.OS{})
			m := importDir(t, job, dir)
			if rep, err := job.Verify(context.Background(), 1, nil); err != nil || len(rep.Damage) > 0 {
				t.Errorf("verify: %v, %v", rep.Damage, err)
			}
			sameTree(t, export(t, job, m), dir)
			if m.NP != 3 || len(m.Ranks) != 3 || m.Origin != "dmtcp" || m.MPI != strings.Fields("mpich openmpi")[btoi(o.OpenMPI)] {
				t.Errorf("manifest: np %d, %d ranks, origin %q, MPI %q", m.NP, len(m.Ranks), m.Origin, m.MPI)
			}
		})
	}
}

// TestJoinedRuns: pages between which few zeros lie are packed together. A page by itself cannot
// be, and the export is the same.
func TestJoinedRuns(t *testing.T) {
	for _, gap := range []int64{1, 16, 17, 63} {
		c := dmtcptest.Job(1, dmtcptest.Options{Seed: 8})
		const pages = 200
		var runs []dmtcptest.Run
		for range pages {
			runs = append(runs, dmtcptest.Touched(1), dmtcptest.Untouched(gap))
		}
		im := c.Images[0]
		im.Areas = slices.Insert(im.Areas, 1, dmtcptest.Anonymous(0x7e0000000000, "", dmtcptest.Repeated(dmtcptest.Noise(1), 64), runs...))
		slices.SortFunc(im.Areas, func(a, b dmtcptest.Area) int { return cmp.Compare(a.Start, b.Start) })
		dir, stored := scratch(t), map[string]int64{}
		if err := c.WriteDir(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"none", "zstd"} {
			job := newJob(t, vfs.OS{})
			setting, err := codec.ParseSetting(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := collect(t, dir).Import(context.Background(), job, dmtcp.Options{Codec: container.NewCodec(setting, 0)})
			if err != nil {
				t.Fatal(err)
			}
			sameTree(t, export(t, job, m), dir)
			stored[name] = m.StoredBytes
		}
		if saved := stored["none"] - stored["zstd"]; gap <= 16 && saved < pages*zones.PageSize/2 {
			t.Errorf("a gap of %d pages: %d KiB stored, without a codec %d", gap, stored["zstd"]>>10, stored["none"]>>10)
		}
	}
}

// TestZonesAfterRestart: DMTCP restores some memory without a name, and no later image tells what
// it was, nor its rank. The checkpoint from which the processes restarted does.
func TestZonesAfterRestart(t *testing.T) {
	c := dmtcptest.Job(2, dmtcptest.Options{Seed: 9})
	first, second := scratch(t), scratch(t)
	if err := c.WriteDir(first); err != nil {
		t.Fatal(err)
	}
	for _, im := range c.Images {
		for i := range im.Areas {
			if a := &im.Areas[i]; a.Name == "[stack]" {
				a.Name = ""
			}
		}
	}
	if err := c.WriteDir(second); err != nil {
		t.Fatal(err)
	}
	job := newJob(t, vfs.OS{})
	m := importDir(t, job, first)
	earlier, err := dmtcp.EarlierOf(context.Background(), job, m)
	if err != nil {
		t.Fatal(err)
	}
	want := collect(t, first)
	for name, known := range map[string]dmtcp.Earlier{"without": nil, "with": earlier} {
		set, err := dmtcp.Collect(context.Background(), []string{second}, dmtcp.CollectOptions{Rules: zones.DefaultRules(), Earlier: known})
		if err != nil {
			t.Fatal(err)
		}
		same := !set.Guessed
		for i := range want.NP { // launchers count in no zone
			same = same && set.Images[i].Sizes() == want.Images[i].Sizes()
		}
		if same != (known != nil) {
			t.Errorf("%s what was known: zones as before %v, ranks guessed %v", name, same, set.Guessed)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestStoredOnce imports 8 images of a job that share libraries and a segment of 5 MiB,
// at night 16 that share 100 MiB: each is stored once.
func TestStoredOnce(t *testing.T) {
	ranks, shared, libraries, private := int64(8), int64(5*mib), int64(mib), int64(mib/4)
	if testkit.Nightly() {
		ranks, shared, libraries, private = 16, 100*mib, 8*mib, 2*mib
	}
	o := dmtcptest.Options{Seed: 5, Shared: shared, Libraries: libraries, Private: private}
	dir, job := images(t, int(ranks), o), newJob(t, vfs.OS{})
	m := importDir(t, job, dir)
	const rest = 16 * mib // headers, stacks, other libraries
	want := shared + libraries + ranks*private
	if m.StoredBytes < want || m.StoredBytes > want+rest {
		t.Errorf("%d MiB stored, want %d and up to %d more", m.StoredBytes/mib, want/mib, rest/mib)
	}
	var images int64
	for name := range tree(t, dir) {
		if strings.HasSuffix(name, ".dmtcp") {
			fi, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			images += fi.Size()
		}
	}
	t.Logf("%d MiB of images, %d MiB stored", images/mib, m.StoredBytes/mib)
	if images < ranks*(shared+libraries) {
		t.Errorf("the images are only %d MiB", images/mib)
	}
	sameTree(t, export(t, job, m), dir)
}

// TestNextCheckpoint imports two checkpoints of a job that differ in their data:
// the second takes libraries and segment from the first, and outlives it.
func TestNextCheckpoint(t *testing.T) {
	first := images(t, 2, dmtcptest.Options{Seed: 6})
	second := t.TempDir()
	c := dmtcptest.Job(2, dmtcptest.Options{Seed: 6})
	changed := 0
	for _, im := range c.Images {
		for i, a := range im.Areas {
			if a.Name == "" && a.End-a.Start == mib+mib/4+zones.PageSize { // the private data
				im.Areas[i].Data = dmtcptest.Noise(99)
				changed++
			}
		}
	}
	if changed != 2 {
		t.Fatalf("%d areas of private data, want 2", changed)
	}
	if err := c.WriteDir(second); err != nil {
		t.Fatal(err)
	}
	job := newJob(t, vfs.OS{})
	m1 := importDir(t, job, first)
	m2 := importDir(t, job, second)
	if m2.StoredBytes > m1.StoredBytes/2 {
		t.Errorf("%d and %d bytes stored: the second shares too little with the first", m1.StoredBytes, m2.StoredBytes)
	}
	changes, err := image.Diff(context.Background(), image.Side{Job: job, Manifest: m1}, image.Side{Job: job, Manifest: m2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var total image.Change
	for _, ch := range changes {
		total = total.Plus(ch.Change)
		if ch.Zone == zones.Library && ch.Region != "layout" && ch.Region != "catalog" && ch.Changed > 0 {
			t.Errorf("%s of zone library has changed", ch.Region)
		}
	}
	if total.Changed < 2*mib || total.Changed > 2*mib+mib/4 || total.New+total.Gone != 0 {
		t.Errorf("changes: %+v, want 2 MiB", total)
	}
	if removed, _, err := job.Prune(1); err != nil || len(removed) != 1 {
		t.Fatalf("pruned %v, %v", removed, err)
	}
	sameTree(t, export(t, job, m2), second)
}

func TestCollectRefuses(t *testing.T) {
	dir := images(t, 2, dmtcptest.Options{Seed: 7})
	other := images(t, 2, dmtcptest.Options{Seed: 8})
	ranks, err := filepath.Glob(filepath.Join(dir, "ckpt_app_*.dmtcp"))
	if err != nil || len(ranks) != 2 {
		t.Fatalf("images %v, %v", ranks, err)
	}
	launcher, _ := filepath.Glob(filepath.Join(dir, "ckpt_mpiexec_*.dmtcp"))
	// The next checkpoint of the same job, which was overwriting this one.
	next := dmtcptest.Job(2, dmtcptest.Options{Seed: 7})
	nextDir := scratch(t)
	for _, im := range next.Images {
		im.Group.Generation++
	}
	if err := next.WriteDir(nextDir); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(nextDir, next.Images[1].FileName())
	copied := filepath.Join(t.TempDir(), "copy.dmtcp")
	b, err := os.ReadFile(ranks[0])
	if err == nil {
		err = os.WriteFile(copied, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	script, _ := filepath.Glob(filepath.Join(dir, "dmtcp_restart_script_*.sh"))
	for want, names := range map[string][]string{
		"of different checkpoints": {dir, other},
		"app_7f0100-43000":         {ranks[0], newer},
		"2 images are given":       {ranks[0], ranks[1]},
		"the same process":         {dir, copied},
		"is not an image":          {script[0]},
		"no image of DMTCP is":     {t.TempDir()},
		"none of a rank":           launcher,
	} {
		opt := dmtcp.CollectOptions{Rules: zones.DefaultRules(), Partial: want == "none of a rank"}
		_, err := dmtcp.Collect(context.Background(), names, opt)
		var set *dmtcp.SetError
		if !errors.As(err, &set) || !strings.Contains(err.Error(), want) || set.Hint() == "" {
			t.Errorf("%v: %v, want %q", names, err, want)
		}
	}
	if _, err := dmtcp.Collect(context.Background(), []string{filepath.Join(dir, "nowhere")}, dmtcp.CollectOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	set, err := dmtcp.Collect(context.Background(), ranks, dmtcp.CollectOptions{Rules: zones.DefaultRules(), Partial: true})
	if err != nil || set.NP != 2 || set.Peers <= 2 {
		t.Errorf("partial: %+v, %v", set, err)
	}
	if err := os.Truncate(ranks[0], int64(len(b))-5000); err != nil {
		t.Fatal(err)
	}
	_, err = dmtcp.Collect(context.Background(), []string{dir}, dmtcp.CollectOptions{Rules: zones.DefaultRules()})
	var bad *zones.FormatError
	if !errors.As(err, &bad) || bad.File != ranks[0] {
		t.Errorf("a truncated image: %v", err)
	}
}

// ofCatalog reports whether an operation is on the catalog of a job.
func ofCatalog(op memfs.Op) bool { return strings.HasPrefix(filepath.Base(op.Path), "catalog.tmp") }

// ofLock reports whether an operation looks whether the job is still in its place. If
// it cannot be told, the next operation tells.
func ofLock(op memfs.Op) bool { return filepath.Base(op.Path) == "lock" }

// TestImportFails fails operations of an import, at night each, and cuts an image
// short between the two passes: nothing of the checkpoint remains, and the next
// import succeeds.
func TestImportFails(t *testing.T) {
	if testkit.Enabled {
		t.Skip("TestExportIsIdentical has the goroutines; .ci/run does it without the race detector")
	}
	dir := images(t, 2, dmtcptest.Options{Seed: 9, Private: mib / 4, Shared: mib / 4, Libraries: mib / 4})
	set := collect(t, dir)
	// open opens a store as the next process does, through a faulty file system.
	open := func(root string, fault memfs.Fault) (*image.Job, *memfs.FaultFS) {
		fsys := memfs.WithFault(vfs.OS{}, fault)
		store, err := image.OpenStore(fsys, root)
		if err != nil {
			t.Fatal(err)
		}
		job, err := store.Job("app")
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Lock(); err != nil {
			t.Fatal(err)
		}
		return job, fsys
	}
	kinds, every := []error{syscall.ENOSPC, syscall.EIO}, 3
	if testkit.Nightly() {
		every = 1
	}
	for first := range kinds {
		if first > 0 && !testkit.Nightly() {
			continue // the kinds take turns
		}
		for op := 1; ; op += every {
			kind := kinds[(first+op)%len(kinds)]
			own := newJob(t, vfs.OS{})
			own.Unlock()
			root := filepath.Dir(filepath.Dir(own.Dir()))
			job, fsys := open(root, memfs.Fault{})
			before := len(fsys.Ops())
			job.Unlock()
			job, fsys = open(root, memfs.Fault{At: before + op, Err: kind})
			m, err := set.Import(context.Background(), job, dmtcp.Options{})
			if ops := fsys.Ops(); err == nil && len(ops) >= before+op && (ofCatalog(ops[before+op-1]) || ofLock(ops[before+op-1])) {
				job.Unlock()
				continue // it is no loss: without a catalog, the manifests are read
			}
			if err == nil {
				if op < 20 {
					t.Errorf("an import has only %d operations", op)
				}
				sameTree(t, export(t, job, m), dir)
				job.Unlock()
				break
			}
			if !errors.Is(err, kind) {
				t.Fatalf("operation %d: %v, want %v", op, err, kind)
			}
			job.Unlock()
			job, _ = open(root, memfs.Fault{})
			if left, err := job.Checkpoints(); err != nil || len(left) > 0 {
				t.Fatalf("operation %d: checkpoints %v are left, %v", op, left, err)
			}
			if _, err := job.Sweep(); err != nil {
				t.Fatalf("operation %d: sweep: %v", op, err)
			}
			if m, err = set.Import(context.Background(), job, dmtcp.Options{}); err != nil || m.Number != 1 {
				t.Fatalf("operation %d: the import after it: %v", op, err)
			}
			job.Unlock()
		}
	}
	victim := set.Images[0].Path
	if err := os.Truncate(victim, 200_000); err != nil {
		t.Fatal(err)
	}
	job := newJob(t, vfs.OS{})
	_, err := set.Import(context.Background(), job, dmtcp.Options{})
	var bad *zones.FormatError
	if !errors.As(err, &bad) {
		t.Errorf("an image that was cut meanwhile: %v", err)
	}
	if left, _ := job.Checkpoints(); len(left) > 0 {
		t.Errorf("checkpoints %v are left", left)
	}
}

func TestExportRefuses(t *testing.T) {
	dir, job := images(t, 2, dmtcptest.Options{Seed: 10}), newJob(t, vfs.OS{})
	m := importDir(t, job, dir)
	out := export(t, job, m)
	before := tree(t, out)
	if _, err := dmtcp.Export(context.Background(), job, m, out, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("export over what is there: %v", err)
	}
	if after := tree(t, out); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("a refused export has changed the directory")
	}
	own := *m
	own.Origin = ""
	var set *dmtcp.SetError
	if _, err := dmtcp.Export(context.Background(), job, &own, t.TempDir(), nil); !errors.As(err, &set) {
		t.Errorf("export of a checkpoint of our own: %v", err)
	}
	// Damage is found before anybody restarts from it, and nothing is left.
	pack := filepath.Join(job.Dir(), "0001", "library.img")
	b, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pack, bytes.Replace(b, b[8192:8200], []byte("damaged!"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	var damage *durable.DamageError
	if _, err := dmtcp.Export(context.Background(), job, m, fresh, nil); !errors.As(err, &damage) || damage.File != pack {
		t.Errorf("export of a damaged checkpoint: %v", err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed export leaves its directory: %v", err)
	}
}

// BenchmarkImport imports a job of 4 images of 128 MiB of data each, a quarter
// of it shared; bytes are those of the images.
func BenchmarkImport(b *testing.B) {
	dir := images(b, 4, dmtcptest.Options{Seed: 11, Private: 96 * mib, Shared: 24 * mib, Libraries: 8 * mib})
	set := collect(b, dir)
	_, bytes := set.Files()
	b.SetBytes(bytes)
	for b.Loop() {
		b.StopTimer()
		job := newJob(b, vfs.OS{})
		b.StartTimer()
		if _, err := set.Import(context.Background(), job, dmtcp.Options{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		os.RemoveAll(job.Dir())
		b.StartTimer()
	}
}
