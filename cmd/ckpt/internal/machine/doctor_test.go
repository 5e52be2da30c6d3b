package machine

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// lockless has no locks, or locks that everybody gets.
type lockless struct {
	direct
	err error
}

func (l lockless) Lock(name string) (io.Closer, error) {
	if f, err := l.Create(name); err == nil {
		f.Close()
	}
	return io.NopCloser(nil), l.err
}

// TestUnknownSpace: a file system that does not say how much is free is not full.
func TestUnknownSpace(t *testing.T) {
	m := healthy(t)
	m.Statfs = func(string) (Volume, error) { return Volume{Kind: "xfs", Free: vfs.Unbounded}, nil }
	if r := Examine(m, "/data/store", "/data"); !r.Usable || r.NodeDirectory.Free != 0 {
		t.Errorf("%+v, node directory %+v", r.Checks, r.NodeDirectory)
	}
}

// healthy is a machine on which nothing is wrong.
func healthy(t *testing.T) *Machine {
	t.Helper()
	fsys := memfs.New()
	for _, dir := range []string{"/data", "/tmp", "/dev", "/dev/shm"} {
		if err := fsys.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	var now time.Duration
	return &Machine{
		FS:      direct{fsys},
		TempDir: func() string { return "/tmp" },
		Sample:  64 << 10,
		Statfs: func(string) (Volume, error) {
			return Volume{Kind: "xfs", Bytes: 1 << 40, Free: 1 << 39, Inodes: 1e6, FreeInodes: 9e5}, nil
		},
		Medium: func(string) (Medium, error) {
			return Medium{Class: NVMe, FileSystem: "xfs", Device: "/dev/nvme0n1"}, nil
		},
		ReadFile: files(map[string]string{"/proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\n"}),
		Limit:    func(int) (uint64, error) { return 1 << 40, nil },
		LookPath: func(name string) (string, error) { return "/usr/bin/" + name, nil },
		Clock: func() (time.Time, time.Duration) {
			return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(now), now
		},
		Sleep:      func(d time.Duration) { now += d },
		Tasks:      func() (int64, bool) { return 2, true },
		OpenMemory: func() error { return nil },
		Build:      func() ui.Build { return ui.Build{Version: "1.2.3", Go: "go1.26", Platform: "linux/amd64"} },
	}
}

func files(contents map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := contents[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

// sealed is a file system whose /dev/shm is read-only.
type sealed struct{ direct }

func (s sealed) Create(name string) (vfs.File, error) {
	if strings.HasPrefix(name, "/dev/shm/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	return s.direct.Create(name)
}

// direct is a file system with direct I/O.
type direct struct{ *memfs.FS }

func (d direct) CreateDirect(name string) (vfs.File, error) { return d.Create(name) }

func TestHealthy(t *testing.T) {
	r := Examine(healthy(t), "/data/new/store", "")
	if !r.Usable || r.verdict() != nil {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Checks {
		if c.State != OK || c.Remedy != "" || c.Text == "" {
			t.Errorf("%+v", c)
		}
	}
}

// TestEachProbe makes each probe fail alone. Only its check notices, says what to do,
// and problems alone make the machine unusable.
func TestEachProbe(t *testing.T) {
	limit := func(of int, n uint64) func(*Machine) {
		return func(m *Machine) {
			m.Limit = func(resource int) (uint64, error) {
				if resource == of {
					return n, nil
				}
				return 1 << 40, nil
			}
		}
	}
	volume := func(v Volume) func(*Machine) {
		return func(m *Machine) {
			before := m.Statfs
			m.Statfs = func(dir string) (Volume, error) {
				if dir == "/dev/shm" {
					return before(dir)
				}
				return v, nil
			}
		}
	}
	full := func(dirs ...string) func(*Machine) {
		return func(m *Machine) {
			before := m.Statfs
			m.Statfs = func(dir string) (Volume, error) {
				if slices.Contains(dirs, dir) {
					return Volume{Kind: "ext4", Bytes: 1 << 30}, nil
				}
				return before(dir)
			}
		}
	}
	shm := func(v Volume, err error) func(*Machine) {
		return func(m *Machine) {
			before := m.Statfs
			m.Statfs = func(dir string) (Volume, error) {
				if dir == "/dev/shm" {
					return v, err
				}
				return before(dir)
			}
		}
	}
	read := func(contents map[string]string) func(*Machine) {
		return func(m *Machine) {
			if contents["/proc/meminfo"] == "" {
				contents["/proc/meminfo"] = "MemAvailable: 16777216 kB\n"
			}
			m.ReadFile = files(contents)
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Machine)
		check string
		state State
		says  string
	}{
		"read-only store": {func(m *Machine) {
			m.FS = memfs.WithFault(m.FS, memfs.Fault{At: operation(t, "create"), Err: syscall.EROFS})
		}, "store", Problem, "read-only"},
		"full store": {func(m *Machine) {
			m.FS = memfs.WithFault(m.FS, memfs.Fault{At: operation(t, "write"), Err: syscall.ENOSPC})
		}, "store", Problem, "no space"},
		"no sync": {func(m *Machine) {
			m.FS = memfs.WithFault(m.FS, memfs.Fault{At: operation(t, "sync"), Err: syscall.EIO})
		}, "store", Problem, "input/output"},
		"no locks":      {func(m *Machine) { m.FS = lockless{m.FS.(direct), vfs.ErrNoLocks} }, "locks", Problem, "no locks"},
		"useless locks": {func(m *Machine) { m.FS = lockless{m.FS.(direct), nil} }, "locks", Problem, "keeps nobody out"},
		"no direct I/O": {func(m *Machine) { m.FS = m.FS.(direct).FS }, "direct I/O", Warning, "unsupported operation"},
		"in memory":     {volume(Volume{Kind: "tmpfs", Bytes: 1 << 40, Free: 1 << 39}), "file system", Warning, "reboot"},
		"no inodes":     {volume(Volume{Kind: "ext4", Bytes: 1 << 40, Free: 1 << 39, Inodes: 10}), "inodes", Problem, "all 10"},
		"few inodes":    {volume(Volume{Kind: "ext4", Bytes: 1 << 40, Free: 1 << 39, Inodes: 1e6, FreeInodes: 7}), "inodes", Warning, "only 7"},
		"full target": {volume(Volume{Kind: "lustre", Bytes: 1 << 40, Free: 459 << 30, Targets: []TargetSpace{{"fs-OST0000", 459 << 30}, {"fs-OST0001", 0}}}),
			"targets", Problem, "the fullest of 2 targets, fs-OST0001, has 0.00 MiB free"},
		"no space":         {volume(Volume{Kind: "ext4", Bytes: 1 << 40, Free: 1000}), "space", Problem, "0.00 MiB free"},
		"temporary":        {func(m *Machine) { m.TempDir = func() string { return "/nosuch" } }, "temporary", Problem, "/nosuch"},
		"no /dev/shm":      {shm(Volume{}, fs.ErrNotExist), "/dev/shm", Warning, "not exist: the segments of nodes go to /tmp"},
		"full /dev/shm":    {shm(Volume{Bytes: 1 << 30}, nil), "/dev/shm", Warning, "0.00 of 1024.00 MiB free: larger segments of nodes go to /tmp"},
		"both full":        {full("/dev/shm", "/tmp"), "/dev/shm", Problem, "/tmp, which is full too"},
		"sealed /dev/shm":  {func(m *Machine) { m.FS = sealed{m.FS.(direct)} }, "/dev/shm", Warning, "read-only file system: the segments of nodes go to /tmp"},
		"small /dev/shm":   {shm(Volume{Bytes: 64 << 20, Free: 64 << 20}, nil), "/dev/shm", Warning, "64.00 of 64.00"},
		"little memory":    {read(map[string]string{"/proc/meminfo": "MemAvailable: 500000 kB\n"}), "memory", Warning, "of the machine"},
		"no memory":        {read(map[string]string{"/proc/meminfo": "MemAvailable: 5000 kB\n"}), "memory", Problem, "4.88"},
		"unknown memory":   {func(m *Machine) { m.ReadFile = files(nil); m.Limit = func(int) (uint64, error) { return 1 << 63, nil } }, "memory", Warning, "nothing says"},
		"memory of group":  {read(map[string]string{"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/memory.max": "209715200\n", "/sys/fs/cgroup/a/memory.current": "104857600\n"}), "memory", Warning, "100.00 MiB left of its control group"},
		"memory, below v1": {read(map[string]string{"/proc/self/cgroup": "9:cpu,memory:/job/step\n", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1048576", "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "0"}), "memory", Problem, "1.00 MiB"},
		"memory, group v1": {read(map[string]string{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "0"}), "memory", Problem, "1.00 MiB"},
		"address space":    {limit(unix.RLIMIT_AS, 1<<28), "memory", Warning, "ulimit -v"},
		"no descriptors":   {limit(unix.RLIMIT_NOFILE, 20), "descriptors", Problem, "20 open"},
		"few descriptors":  {limit(unix.RLIMIT_NOFILE, 256), "descriptors", Warning, "256 open"},
		"no processes":     {limit(unix.RLIMIT_NPROC, 3), "processes", Problem, "ulimit -u"},
		"few processes":    {read(map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/pids.max": "512", "/sys/fs/cgroup/pids.current": "12"}), "processes", Warning, "500 more processes"},
		"clock jumps": {func(m *Machine) {
			before, calls := m.Clock, 0
			m.Clock = func() (time.Time, time.Duration) {
				wall, mono := before()
				calls++
				return wall.Add(time.Duration(calls) * time.Hour), mono
			}
		}, "clock", Warning, "jumps: 1h0m0s"},
		"clock stands still": {func(m *Machine) { m.Sleep = func(time.Duration) {} }, "clock", Problem, "stands still"},
		"clock not set": {func(m *Machine) {
			before := m.Clock
			m.Clock = func() (time.Time, time.Duration) {
				_, mono := before()
				return time.Unix(0, 0).Add(mono), mono
			}
		}, "clock", Warning, "1970"},
		"ptrace": {func(m *Machine) { m.OpenMemory = func() error { return fs.ErrPermission } }, "ptrace", Warning, "permission"},
		"yama": {func(m *Machine) {
			m.OpenMemory = func() error { return fs.ErrPermission }
			read(map[string]string{"/proc/sys/kernel/yama/ptrace_scope": "1\n"})(m)
		}, "ptrace", Warning, "ptrace_scope is 1"},
		"no strace": {func(m *Machine) {
			m.LookPath = func(name string) (string, error) {
				if name == "strace" {
					return "", errors.New("not found")
				}
				return name, nil
			}
		}, "strace", Warning, "ckpt trace record"},
	} {
		t.Run(name, func(t *testing.T) {
			m := healthy(t)
			c.spoil(m)
			r := Examine(m, "/data/store", "")
			if r.Usable != (c.state != Problem) || (r.verdict() == nil) != r.Usable {
				t.Errorf("usable is %v", r.Usable)
			}
			found := false
			for _, got := range r.Checks {
				if got.State == OK {
					continue
				}
				found = true
				if got.Name != c.check || got.State != c.state || !strings.Contains(got.Text, c.says) || got.Remedy == "" && name != "unknown memory" {
					t.Errorf("%+v", got)
				}
			}
			if !found {
				t.Error("no check noticed")
			}
		})
	}
}

// TestTargets: the OSTs of lfs df are found, others and inactive ones are left out.
func TestTargets(t *testing.T) {
	list := readTargets(`UUID                   1K-blocks        Used   Available Use% Mounted on
fs-MDT0000_UUID         4194304       40960     4150000   1% /lustre[MDT:0]
fs-OST0000_UUID        10485760     1048576     9437184  10% /lustre[OST:0]
fs-OST0001_UUID        10485760    10485760           0 100% /lustre[OST:1]
OST0002             : inactive device

filesystem_summary:    20971520    11534336     9437184  55% /lustre
`)
	if want := []TargetSpace{{"fs-OST0000", 9 << 30}, {"fs-OST0001", 0}}; !slices.Equal(list, want) {
		t.Errorf("%+v, want %+v", list, want)
	}
	var r Report
	fullest(&r, &Volume{Free: 9 << 30, Targets: []TargetSpace{{"a", 9 << 30}, {"b", 1 << 30}}}, 2<<30)
	if len(r.Checks) != 1 || r.Checks[0].State != Warning || !strings.Contains(r.Checks[0].Text, "less than a checkpoint of the store took (2048.00 MiB)") {
		t.Errorf("%+v", r.Checks)
	}
}

// TestNodeDirectory: the medium, the space and the rate of a node directory are said, and
// those that do not suit are warned of.
func TestNodeDirectory(t *testing.T) {
	on := func(class Class) func(*Machine) {
		return func(m *Machine) {
			m.Medium = func(string) (Medium, error) { return Medium{Class: class, FileSystem: "fs"}, nil }
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Machine)
		dir   string
		check string
		state State
		says  string
	}{
		"fine":       {func(*Machine) {}, "/data", "local medium", OK, "NVMe, xfs on /dev/nvme0n1"},
		"to be made": {func(*Machine) {}, "/data/{node}/ckpt", "local", OK, "/data/0/ckpt does not exist"},
		"DAX": {func(m *Machine) {
			m.Medium = func(string) (Medium, error) {
				return Medium{Class: Persistent, FileSystem: "ext4", Device: "/dev/pmem0", DAX: true}, nil
			}
		}, "/data", "local medium", OK, "persistent memory, ext4 on /dev/pmem0, DAX"},
		"memory":    {on(Memory), "/data", "local medium", Warning, "reboot"},
		"network":   {on(Network), "/data", "local medium", Warning, "failures of a store"},
		"rotating":  {on(Rotating), "/data", "local medium", Warning, "rotating"},
		"container": {on(Layered), "/data", "local medium", Warning, "container"},
		"unknown": {func(m *Machine) {
			m.Medium = func(string) (Medium, error) { return Medium{}, errors.New("no table of mounts") }
		}, "/data", "local medium", Warning, "no table"},
		"a file": {func(m *Machine) {
			f, err := m.FS.Create("/data/file")
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}, "/data/file", "local", Problem, "not a directory"},
		"read-only": {func(m *Machine) { m.FS = sealed{m.FS.(direct)} }, "/dev/shm/{node}", "local", Problem, "read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			m := healthy(t)
			c.spoil(m)
			r := Examine(m, "/data/store", c.dir)
			i := slices.IndexFunc(r.Checks, func(got Check) bool { return got.Name == c.check })
			if i < 0 || r.Checks[i].State != c.state || !strings.Contains(r.Checks[i].Text, c.says) || (r.Checks[i].Remedy == "") != (c.state == OK || name == "unknown") {
				t.Errorf("%+v", r.Checks)
			}
			if r.Usable != (c.state != Problem) {
				t.Errorf("usable is %v", r.Usable)
			}
		})
	}
}

// TestLocalRate: a node directory that is no faster than the store is warned of.
func TestLocalRate(t *testing.T) {
	for _, c := range []struct {
		slow  string // files below it take a second to sync, others a tenth
		state State
		says  string
	}{{"/data/store", OK, "10.0 times the store's"}, {"/dev/shm", Warning, "0.1 times the store's"}} {
		m := healthy(t)
		if err := m.FS.Mkdir("/data/store"); err != nil {
			t.Fatal(err)
		}
		var now time.Duration
		m.Clock = func() (time.Time, time.Duration) {
			return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(now), now
		}
		m.Sleep = func(d time.Duration) { now += d }
		m.FS = slowly{m.FS.(direct), c.slow, &now}
		r := Examine(m, "/data/store", "/dev/shm")
		i := slices.IndexFunc(r.Checks, func(got Check) bool { return got.Name == "local rate" })
		if i < 0 || r.Checks[i].State != c.state || !strings.Contains(r.Checks[i].Text, c.says) {
			t.Errorf("slow %s: %+v", c.slow, r.Checks)
		}
		if r.NodeDirectory.Rate == 0 || r.NodeDirectory.StoreRate == 0 {
			t.Errorf("%+v", r.NodeDirectory)
		}
	}
}

// slowly is a file system whose syncs take a second below one directory, a tenth elsewhere.
type slowly struct {
	direct
	below string
	now   *time.Duration
}

type slowFile struct {
	vfs.File
	takes time.Duration
	now   *time.Duration
}

func (s slowly) CreateDirect(name string) (vfs.File, error) {
	takes := time.Second / 10
	if strings.HasPrefix(name, s.below) {
		takes = time.Second
	}
	f, err := s.direct.CreateDirect(name)
	return slowFile{f, takes, s.now}, err
}

func (f slowFile) Sync() error {
	*f.now += f.takes
	return f.File.Sync()
}

// operation returns the number of the first operation of a name in a directory that
// a healthy examination does.
func operation(t *testing.T, name string) int {
	t.Helper()
	m := healthy(t)
	f := memfs.WithFault(m.FS, memfs.Fault{})
	m.FS = f
	Examine(m, "/data/store", "")
	for i, op := range f.Ops() {
		if op.Name == name && strings.HasPrefix(op.Path, "/data/.ckpt-doctor") {
			return i + 1
		}
	}
	t.Fatalf("no %s among %v", name, f.Ops())
	return 0
}

// TestNothingLeft fails each operation in turn: what was made is removed again, but
// for the file whose removal fails.
func TestNothingLeft(t *testing.T) {
	m := healthy(t)
	counted := memfs.WithFault(m.FS, memfs.Fault{})
	m.FS = counted
	Examine(m, "/data", "/dev/shm/{node}")
	ops := counted.Ops()
	if len(ops) < 10 {
		t.Fatalf("only %d operations", len(ops))
	}
	for at := range len(ops) + 1 {
		m := healthy(t)
		disk := m.FS
		m.FS = memfs.WithFault(disk, memfs.Fault{At: at, Err: syscall.EIO})
		Examine(m, "/data", "/dev/shm/{node}")
		for _, dir := range []string{"/data", "/tmp", "/dev/shm"} {
			entries, err := disk.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if most := map[bool]int{true: 1}[at > 0 && ops[at-1].Name == "remove"]; len(entries) > most {
				t.Errorf("operation %d (%v) failed: %v is left in %s", at, ops[max(0, at-1)], entries, dir)
			}
		}
	}
}

// TestStoreItself: the directory of the store may be a file, or of a newer version.
func TestStoreItself(t *testing.T) {
	m := healthy(t)
	f, err := m.FS.Create("/data/file")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, store := range []string{"/data/file", "/data/file/below"} {
		if r := Examine(m, store, ""); r.Usable || r.Checks[0].Name != "store" || r.Checks[0].State != Problem {
			t.Errorf("%s: %+v", store, r.Checks[0])
		}
	}
	if _, err := image.CreateStore(m.FS, "/data/store"); err != nil {
		t.Fatal(err)
	}
	if r := Examine(m, "/data/store", ""); !r.Usable || r.Checks[0].Text != "/data/store can be written" {
		t.Errorf("%+v", r.Checks[0])
	}
}
