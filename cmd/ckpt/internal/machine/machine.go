package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/vfs"
)

// A Machine is all that the checks look at.
type Machine struct {
	FS       vfs.FS
	TempDir  func() string
	Statfs   func(dir string) (Volume, error)
	Medium   func(dir string) (Medium, error)
	Sample   int64                             // bytes that a measurement writes: a multiple of 64 KiB
	ReadFile func(name string) ([]byte, error) // of /proc and /sys
	Limit    func(resource int) (soft uint64, err error)
	LookPath func(program string) (string, error)
	// Clock returns the time of day, and the time since some moment.
	Clock func() (wall time.Time, monotonic time.Duration)
	Sleep func(time.Duration)
	// Tasks returns how many processes and threads this user has, if a limit counts them.
	Tasks func() (n int64, counts bool)
	// OpenMemory opens the memory of a process of this user that is no child.
	OpenMemory func() error
	Build      func() ui.Build
}

// sharedMemory examines /dev/shm, which holds the segment of each node. A segment that
// does not fit goes into the directory for temporary files.
func (m *Machine) sharedMemory(r *Report) {
	const (
		dir    = "/dev/shm"
		least  = 16 << 20
		little = 256 << 20 // one segment of bt.D on 16 ranks has 160 MiB
	)
	v, err := m.Statfs(dir)
	if err == nil && v.Free >= least {
		err = m.probe(dir, m.FS.Create)
	}
	severity, other := Warning, m.TempDir()
	if t, terr := m.Statfs(other); (err != nil || v.Free < least) && (terr != nil || t.Free < least) {
		severity = Problem
		other += ", which is full too"
	}
	switch {
	case err != nil:
		r.add(dir, severity, "mount -t tmpfs tmpfs "+dir, "%v: the segments of nodes go to %s", err, other)
	case v.Free < little:
		r.add(dir, severity, "remove files there, or mount -o remount,size=2G "+dir+"; of a container, raise its shm size",
			"%s of %s MiB free: larger segments of nodes go to %s", ui.MiB(v.Free), ui.MiB(v.Bytes), other)
	default:
		r.fine(dir, "%s", v.space())
	}
}

// memory examines what may be allocated: of the machine, of the control group, and
// by the limit of address space.
func (m *Machine) memory(r *Report) {
	free, of := int64(math.MaxInt64), "the machine"
	if text, err := m.ReadFile("/proc/meminfo"); err == nil {
		if kib, ok := field(string(text), "MemAvailable:"); ok {
			free = kib << 10
		}
	}
	if n, ok := m.groupLeft("memory.max", "memory.current", "memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"); ok && n < free {
		free, of = n, "its control group (container or batch job)"
	}
	if n, err := m.Limit(unix.RLIMIT_AS); err == nil && n < uint64(free) {
		free, of = int64(n), "ulimit -v"
	}
	switch {
	case free == math.MaxInt64:
		r.add("memory", Warning, "", "nothing says how much is free")
	case free < 64<<20:
		r.add("memory", Problem, "end other processes, or raise the limit", "%s MiB left of %s", ui.MiB(free), of)
	case free < 1<<30:
		r.add("memory", Warning, "small classes fit; end other processes, or raise the limit", "%s MiB left of %s", ui.MiB(free), of)
	default:
		r.fine("memory", "%s MiB left of %s", ui.MiB(free), of)
	}
}

// field finds a number after a name at the beginning of a line.
func field(text, name string) (n int64, ok bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name); found {
			words := strings.Fields(rest)
			if len(words) == 0 {
				return 0, false
			}
			n, err := strconv.ParseInt(words[0], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// groupLeft returns what is left in the control group of this process and those
// above it: a limit less its use, of version 2 or, below /sys/fs/cgroup, of version 1.
func (m *Machine) groupLeft(limit, used, limit1, used1 string) (left int64, ok bool) {
	left = math.MaxInt64
	take := func(limit, used string) {
		most, err := m.number(limit)
		if err != nil {
			return
		}
		if now, err := m.number(used); err == nil && max(0, most-now) < left {
			left, ok = max(0, most-now), true
		}
	}
	const root = "/sys/fs/cgroup"
	text, _ := m.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		of := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, group
		if len(of) < 3 || !strings.HasPrefix(of[2], "/") {
			continue
		}
		dir, limit, used := root, limit, used
		if of[1] != "" { // version 1
			if !slices.Contains(strings.Split(of[1], ","), path.Dir(limit1)) {
				continue
			}
			dir, limit, used = path.Join(root, path.Dir(limit1)), path.Base(limit1), path.Base(used1)
		}
		for group := of[2]; ; group = path.Dir(group) {
			take(path.Join(dir, group, limit), path.Join(dir, group, used))
			if group == "/" {
				break
			}
		}
	}
	take(path.Join(root, limit1), path.Join(root, used1)) // of a container, whose group is elsewhere
	return left, ok
}

// number reads a file with one number. "max", and the largest that version 1 writes,
// are no limit.
func (m *Machine) number(name string) (int64, error) {
	text, err := m.ReadFile(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err == nil && n > 1<<62 {
		err = fs.ErrNotExist
	}
	return n, err
}

// descriptors examines how many files may be open: the coordinator has one for each
// rank, and ranks have some for each other.
func (m *Machine) descriptors(r *Report) {
	n, err := m.Limit(unix.RLIMIT_NOFILE)
	switch {
	case err != nil:
		r.add("descriptors", Warning, "", "%v", err)
	case n < 64:
		r.add("descriptors", Problem, "ulimit -n 4096", "at most %d open files", n)
	case n < 1024:
		r.add("descriptors", Warning, "ulimit -n 4096, for jobs of more than a few ranks", "at most %d open files", n)
	default:
		r.fine("descriptors", "at most %d open files", n)
	}
}

// processes examines how many processes may run: one for each rank.
func (m *Machine) processes(r *Report) {
	most, of := m.tasksLeft()
	switch {
	case most < 32:
		r.add("processes", Problem, "raise the limit of "+of, "%d more processes and threads at most (%s)", most, of)
	case most < 1024:
		r.add("processes", Warning, "raise the limit of "+of+", for more than a few ranks", "%d more processes and threads at most (%s)", most, of)
	case most == math.MaxInt64:
		r.fine("processes", "no limit")
	default:
		r.fine("processes", "%d more processes and threads at most (%s)", most, of)
	}
}

const (
	clockPause = 50 * time.Millisecond
	clockJump  = 10 * time.Millisecond
	firstYear  = 2024 // of this program
)

// clock compares the time of day with the monotonic clock. Latencies come from the
// second; checkpoints and traces are dated by the first.
func (m *Machine) clock(r *Report) {
	wall, mono := m.Clock()
	m.Sleep(clockPause)
	wall2, mono2 := m.Clock()
	jump := wall2.Sub(wall) - (mono2 - mono)
	switch {
	case mono2 <= mono:
		r.add("clock", Problem, "reboot, or leave this virtual machine: heartbeats need a clock", "the monotonic clock stands still")
	case wall2.Year() < firstYear:
		r.add("clock", Warning, "set it, as with timedatectl set-ntp true: checkpoints carry its date", "the time of day is %s", wall2.Format(time.DateOnly))
	case jump.Abs() > clockJump:
		r.add("clock", Warning, "wait until it is synchronised: dates of checkpoints may be out of order", "the time of day jumps: %v in %v", ui.Span(jump), clockPause)
	default:
		r.fine("clock", "the time of day and the monotonic clock agree")
	}
}

// otherMemory examines whether ckpt zones can read processes that it did not start.
func (m *Machine) otherMemory(r *Report) {
	err := m.OpenMemory()
	if err == nil {
		r.fine("ptrace", "ckpt zones can read the memory of your other processes")
		return
	}
	remedy := "run ckpt zones as root; jobs do not need it"
	why := err.Error()
	if text, rerr := m.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); rerr == nil && strings.TrimSpace(string(text)) != "0" {
		why = "kernel.yama.ptrace_scope is " + strings.TrimSpace(string(text))
		remedy = "as root: sysctl kernel.yama.ptrace_scope=0; jobs do not need it"
	}
	r.add("ptrace", Warning, remedy, "ckpt zones cannot read the memory of your other processes: %s", why)
}

// programs looks for programs that some commands start.
func (m *Machine) programs(r *Report) {
	for _, p := range []struct{ name, use, get string }{
		{"mpiexec", "ckpt launch --launcher mpiexec", "install MPICH or Open MPI"},
		{"srun", "ckpt launch --launcher srun", "it is part of Slurm"},
		{"strace", "ckpt trace record without the rights for eBPF", "apt-get install strace"},
		{"dmtcp_launch", "checkpoints of programs that are not changed, with --engine dmtcp", "install DMTCP"},
	} {
		if path, err := m.LookPath(p.name); err == nil {
			r.fine(p.name, "%s", path)
		} else {
			r.add(p.name, Warning, p.get, "not found; only for %s", p.use)
		}
	}
}

// build says which ckpt this is.
func (m *Machine) build(r *Report) {
	b := m.Build()
	r.fine("ckpt", "%s, %s %s", b, b.Go, b.Platform)
}

// kinds are the names of file systems by their magic numbers (statfs(2)).
var kinds = map[int64]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x6969: "nfs", 0x0bd00bd0: "lustre",
	0x47504653: "gpfs", 0x794c7630: "overlay", 0x2fc12fc1: "zfs", 0x00c36400: "ceph", 0x65735546: "fuse", 0x19830326: "beegfs",
	0xff534d42: "cifs", 0xfe534d42: "smb2", 0xf2f52010: "f2fs", 0x01021997: "9p",
}

func kindOf(magic int64) string {
	if name := kinds[magic&math.MaxUint32]; name != "" {
		return name
	}
	return fmt.Sprintf("unknown kind %#x", magic&math.MaxUint32)
}

// statfs asks the kernel.
func statfs(dir string) (Volume, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Volume{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free, err := vfs.OS{}.Free(dir)
	v := Volume{Kind: kindOf(int64(st.Type)), Bytes: int64(st.Blocks) * st.Bsize, Free: free, Inodes: int64(st.Files), FreeInodes: int64(st.Ffree)}
	if v.Kind == "lustre" {
		v.Targets = targetsOf("lfs", "df", dir)
	}
	return v, err
}

// lfsTime bounds lfs df, which waits for each target that does not answer.
const lfsTime = 10 * time.Second

// targetsOf runs a command that prints targets. They are unknown if it fails.
func targetsOf(name string, args ...string) []TargetSpace {
	ctx, cancel := context.WithTimeout(context.Background(), lfsTime)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = time.Second // a child may keep its output open
	text, err := c.Output()
	if err != nil {
		return nil
	}
	return readTargets(string(text))
}

func limit(resource int) (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(resource, &l)
	if err != nil {
		err = errors.Join(errors.New("getrlimit"), err)
	}
	return l.Cur, err
}

// ThisMachine returns the machine that runs this program.
func ThisMachine() *Machine {
	start := time.Now()
	return &Machine{
		FS:       vfs.OS{},
		TempDir:  os.TempDir,
		Statfs:   statfs,
		Medium:   MediumOf,
		Sample:   32 << 20,
		ReadFile: os.ReadFile,
		Limit:    limit,
		LookPath: exec.LookPath,
		Clock: func() (time.Time, time.Duration) {
			now := time.Now()
			return now.Round(0), now.Sub(start) // Round drops the monotonic reading
		},
		Sleep:      time.Sleep,
		Tasks:      tasks,
		OpenMemory: openMemory,
		Build:      ui.ThisBuild,
	}
}

// openMemory opens the memory of the process that started this one: it is of the same
// user and no child, as are those that ckpt zones reads.
func openMemory() error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", os.Getppid()))
	if err != nil {
		return err
	}
	return f.Close()
}
