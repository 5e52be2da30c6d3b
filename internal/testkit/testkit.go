// Package testkit is what tests of several packages share: how long they may take, what they
// need of the machine, and what every file system passes.
package testkit

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"ckpt/internal/vfs"
)

// Conform holds a file system to what its interface promises, in an empty directory of it.
func Conform(t *testing.T, fsys vfs.FS, root string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	at := func(name string) string { return path.Join(root, name) }

	// Files.
	f, err := fsys.Create(at("a"))
	must(err)
	_, err = fsys.Create(at("a"))
	is(err, fs.ErrExist)
	_, err = fsys.Create(at("no/a"))
	is(err, fs.ErrNotExist)
	_, err = f.WriteAt([]byte("world"), 6)
	must(err)
	_, err = f.WriteAt([]byte("hello"), 0)
	must(err)
	must(f.Sync())
	if n, err := f.Size(); n != 11 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	b := make([]byte, 11)
	if n, err := f.ReadAt(b, 0); n != 11 || err != nil && err != io.EOF || !bytes.Equal(b, []byte("hello\x00world")) {
		t.Errorf("read %q, %v", b, err)
	}
	if n, err := f.ReadAt(b, 6); n != 5 || err != io.EOF {
		t.Errorf("read %d bytes across the end, %v", n, err)
	}
	must(f.Close())
	if err := f.Close(); err == nil {
		t.Error("closed twice")
	}
	r, err := fsys.Open(at("a"))
	must(err)
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a file open for reading")
	}
	must(r.Close())
	_, err = fsys.Open(at("no"))
	is(err, fs.ErrNotExist)
	_, err = fsys.OpenWrite(at("no"))
	is(err, fs.ErrNotExist)
	w, err := fsys.OpenWrite(at("a"))
	must(err)
	_, err = w.WriteAt([]byte("W"), 6)
	must(err)
	if n, err := w.ReadAt(b, 0); n != 11 || err != nil && err != io.EOF || !bytes.Equal(b, []byte("hello\x00World")) {
		t.Errorf("read %q, %v after another wrote", b, err)
	}
	must(w.Sync())
	must(w.Close())

	// Directories.
	must(fsys.Mkdir(at("d")))
	is(fsys.Mkdir(at("d")), fs.ErrExist)
	is(fsys.Mkdir(at("no/d")), fs.ErrNotExist)
	f, err = fsys.Create(at("d/x"))
	must(err)
	must(f.Close())
	is(fsys.Remove(at("d")), syscall.ENOTEMPTY)
	must(fsys.Remove(at("d/x")))
	is(fsys.Remove(at("d/x")), fs.ErrNotExist)
	_, err = fsys.Stat(at("a/b"))
	is(err, syscall.ENOTDIR)

	// Rename replaces.
	f, err = fsys.Create(at("b"))
	must(err)
	must(f.Close())
	must(fsys.Rename(at("a"), at("b")))
	is(fsys.Rename(at("a"), at("b")), fs.ErrNotExist)
	fi, err := fsys.Stat(at("b"))
	must(err)
	if fi.Size() != 11 || fi.IsDir() || fi.Name() != "b" || fi.Mode() != 0o600 {
		t.Errorf("stat: %v %v %v %v", fi.Size(), fi.IsDir(), fi.Name(), fi.Mode())
	}
	list, err := fsys.ReadDir(root)
	must(err)
	if len(list) != 2 || list[0].Name() != "b" || list[1].Name() != "d" || !list[1].IsDir() {
		t.Errorf("list: %v", list)
	}
	must(fsys.Remove(at("d")))
	must(fsys.SyncDir(root))
	is(fsys.SyncDir(at("no")), fs.ErrNotExist)

	// Locks.
	l, err := fsys.Lock(at("lock"))
	must(err)
	_, err = fsys.Lock(at("lock"))
	is(err, vfs.ErrLocked)
	locked := func(want bool) {
		if got, err := fsys.Locked(at("lock")); got != want || err != nil {
			t.Errorf("locked: %v, %v; want %v", got, err, want)
		}
	}
	locked(true)
	must(l.Close())
	locked(false)
	l, err = fsys.Lock(at("lock"))
	must(err)
	must(l.Close())

	if n, err := fsys.Free(root); n <= 0 || err != nil {
		t.Errorf("free %d, %v", n, err)
	}
}

// Needs that a machine lacks skip a test. All say so in the same words, "skipped: needs mpicc",
// and each adds a line to the file that CKPT_SKIPPED names, if it is set: the directory of the
// package, the test, the need.

// abilities are needs that are no programs.
var abilities = map[string]func() bool{
	"root":   sync.OnceValue(func() bool { return os.Getuid() == 0 }),
	"mounts": sync.OnceValue(mounts),
	"fuse":   sync.OnceValue(fuse),
	// The programs in Python use Debian's, since mpi4py belongs to its Open MPI.
	"numpy":  sync.OnceValue(func() bool { return exec.Command("/usr/bin/python3", "-c", "import numpy").Run() == nil }),
	"mpi4py": sync.OnceValue(func() bool { return exec.Command("/usr/bin/python3", "-c", "import mpi4py").Run() == nil }),
}

// mounts reports whether file systems can be mounted: root in a container may not.
func mounts() bool {
	dir, err := os.MkdirTemp("", "needs-mounts")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, syscall.MNT_DETACH) == nil
}

// fuse reports whether file systems in user space can be mounted.
func fuse() bool {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	_, err = exec.LookPath("fusermount3")
	return err == nil || os.Getuid() == 0
}

// Missing returns the first need that this machine lacks, or "". A need is root, mounts, fuse,
// numpy, mpi4py, or the name of a program.
func Missing(list ...string) string {
	for _, need := range list {
		if has, ok := abilities[need]; ok {
			if !has() {
				return need
			}
		} else if _, err := exec.LookPath(need); err != nil {
			return need
		}
	}
	return ""
}

// A T is a test, or a script of testscript.
type T interface {
	Name() string
	Log(args ...any)
	Skip(args ...any)
}

// All skips a test unless the machine has all that it needs.
func All(t T, list ...string) {
	if need := Missing(list...); need != "" {
		Skip(t, need)
	}
}

// Skip skips a test that lacks a need.
func Skip(t T, need string) {
	note(t, need)
	t.Skip(skipped + need)
}

// Left notes that a test leaves a part out, for the first need that the machine lacks.
func Left(t T, part string, list ...string) bool {
	need := Missing(list...)
	if need == "" {
		return false
	}
	note(t, need)
	t.Log(part + ": " + skipped + need)
	return true
}

const skipped = "skipped: needs "

func note(t T, need string) {
	dir, err := os.Getwd()
	if err != nil {
		return
	}
	f, err := os.OpenFile(os.Getenv("CKPT_SKIPPED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return // no list was asked for
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s %s\n", dir, t.Name(), need); err != nil {
		t.Log(err)
	}
}

const (
	memory     = "/dev/shm"
	enough     = 2 << 30 // bytes
	memoryDirs = "ckt-"  // short, for the sockets below
)

var disk = os.TempDir()

// Disk is the directory for temporary files that have to be on a disk.
func Disk() string { return disk }

// InMemory has the other temporary files of a test and its processes in memory,
// where there is room for them and the user has named no directory. The long forms of tests use
// the disk. Remove removes the files.
func InMemory() (remove func()) {
	remove = func() {}
	var st unix.Statfs_t
	if Nightly() || os.Getenv("TMPDIR") != "" || unix.Statfs(memory, &st) != nil || st.Bavail*uint64(st.Bsize) < enough {
		return remove
	}
	// A test that was killed has left its files.
	left, _ := filepath.Glob(filepath.Join(memory, memoryDirs+"*"))
	for _, dir := range left {
		if d, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			d.Close()
		}
	}
	dir, err := os.MkdirTemp(memory, memoryDirs)
	if err != nil {
		return remove
	}
	d, err := lockDir(dir)
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return func() {
		_ = os.RemoveAll(dir)
		d.Close()
	}
}

// lockDir opens a directory and locks it until it is closed.
func lockDir(path string) (*os.File, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Nightly reports whether the long forms of tests run: CKPT_NIGHTLY is set.
func Nightly() bool { return os.Getenv("CKPT_NIGHTLY") != "" }

// Seed is what a test draws from, RAPID_SEED; 0 without it.
func Seed() uint64 {
	seed, _ := strconv.ParseUint(os.Getenv("RAPID_SEED"), 10, 64)
	return seed
}

// Some are n cases of a test, in their order; at night they are all. Each commit draws its own
// in .ci/run, which sets RAPID_SEED.
func Some[T any](n int, all ...T) []T {
	if Nightly() || n >= len(all) {
		return all
	}
	drawn := rand.New(rand.NewPCG(Seed(), uint64(len(all)))).Perm(len(all))[:n]
	slices.Sort(drawn)
	some := make([]T, n)
	for i, k := range drawn {
		some[i] = all[k]
	}
	return some
}

// Parallel has more tests run at a time than there are processors, unless the user says how
// many: they wait for processes most of the time. TestMain calls it.
func Parallel() {
	flag.Parse()
	n := flag.Lookup("test.parallel").Value
	if n.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = n.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
}

// Patience is how long a test waits for another process at most. It is for what hangs: the longest
// of these waits took more than a minute beside 70 busy loops.
const Patience = 5 * time.Minute

// Frugal has the processes that a test starts collect less garbage, for which they live too
// short, and use one processor each, of which they share two. Ranks of jobs without an end
// compute slowly (Pace), except for benchmarks.
func Frugal() error {
	flag.Parse()
	pace := "2ms"
	if b := flag.Lookup("test.bench"); b != nil && b.Value.String() != "" {
		pace = ""
	}
	return errors.Join(os.Setenv("GOGC", "200"), os.Setenv("GOMAXPROCS", "1"), os.Setenv(EnvPace, pace))
}

// EnvPace tells the ranks of tests how long Pace sleeps: "2ms" in jobs that won't end by themselves,
// "each=2ms" in all jobs.
const EnvPace = "CKPT_TEST_PACE"

// Pace has a rank sleep after an iteration, once it has computed some, of a job that has so
// many that it won't end by itself, or after each.
func Pace(iter, iterations int) {
	pace, each := strings.CutPrefix(os.Getenv(EnvPace), "each=")
	if !each && (iterations < 10000 || iter < 100) {
		return
	}
	if d, err := time.ParseDuration(pace); err == nil {
		time.Sleep(d)
	}
}

// Sample has rapid draw so many cases of each property in the usual form, unless the user
// says how many, and collects garbage less often. TestMain calls it.
func Sample(checks int) {
	if Nightly() {
		return
	}
	debug.SetGCPercent(400)
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(checks))
	}
}

// Ratio is the geometric mean of the ratios of pairs, whose logarithms it takes, with its 95 % interval
// by Student's t: of a single pair it is from 0 to +Inf.
func Ratio(logs []float64) (mean, low, high float64) {
	mean, deviation := stat.MeanStdDev(logs, nil)
	n := float64(len(logs))
	if n < 2 {
		return math.Exp(mean), 0, math.Inf(1)
	}
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
	return math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)
}
