//go:build linux && amd64

package bpf

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// maps are the memory that the programs share with the recorder.
type memory struct {
	states  *ebpf.Map // of threads
	buffers *ebpf.Map // for pieces
	lost    *ebpf.Map // uint64: records that found the ring full
	armed   *ebpf.Map // uint64: not 0 if a process that the recorder starts is recorded
	ring    *ebpf.Map
}

var ringSize uint32 = 64 << 20 // less in a test

func newMemory() (_ *memory, err error) {
	m := &memory{}
	word := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	long := &btf.Int{Name: "long", Size: 8}
	for _, s := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&m.states, ebpf.MapSpec{Type: ebpf.TaskStorage, KeySize: 4, ValueSize: stateSize, Flags: unix.BPF_F_NO_PREALLOC,
			Key: word, Value: &btf.Array{Index: word, Type: long, Nelems: stateSize / 8}}},
		{&m.buffers, ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 2 * maxText, MaxEntries: 1}},
		{&m.lost, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
		{&m.armed, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
		{&m.ring, ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: ringSize}},
	} {
		if *s.to, err = ebpf.NewMap(&s.spec); err != nil {
			m.close()
			return nil, fmt.Errorf("the kernel gives no memory to share (%v): %w", s.spec.Type, err)
		}
	}
	return m, nil
}

func (m *memory) close() {
	for _, x := range []*ebpf.Map{m.states, m.buffers, m.lost, m.armed, m.ring} {
		x.Close() // nil is fine
	}
}

// attached are programs that run, and the table through which they find each other.
type attached struct {
	links  []link.Link
	tables []*ebpf.Map
}

// attach loads all programs and starts them.
func attach(m *memory) (_ *attached, err error) {
	a := &attached{}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	o, err := readOffsets()
	if err != nil {
		return nil, err
	}
	enter, exit, err := a.newTables()
	if err != nil {
		return nil, err
	}
	points := map[string]*program{
		"sched_process_fork": forkProgram(o, m), "sched_process_exec": execProgram(o, m), "sched_process_exit": endProgram(o, m),
		sysEnter: o.dispatch(m, enter, sysEnter), sysExit: o.dispatch(m, exit, sysExit),
	}
	all := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{}}
	for at, p := range points {
		all.Programs[at] = p.spec(at)
	}
	for i := range syscalls {
		s := &syscalls[i]
		if !s.brief {
			all.Programs[sysEnter+" "+s.name] = enterProgram(o, m, i).spec(sysEnter)
		}
		all.Programs[sysExit+" "+s.name] = exitProgram(o, m, i).spec(sysExit)
	}
	loaded, err := ebpf.NewCollection(all)
	if err != nil {
		return nil, fmt.Errorf("the kernel refuses a program: %w", err)
	}
	defer loaded.Close()
	for name, number := range numbers {
		for at, table := range map[string]*ebpf.Map{sysEnter: enter, sysExit: exit} {
			if p := loaded.Programs[at+" "+name]; p != nil {
				if err := table.Put(number, p); err != nil {
					return nil, fmt.Errorf("the kernel does not enter the program for %s: %w", name, err)
				}
			}
		}
	}
	for at := range points {
		l, err := link.AttachTracing(link.TracingOptions{Program: loaded.Programs[at]})
		if err != nil {
			return nil, fmt.Errorf("the kernel does not run a program at %s: %w", at, err)
		}
		a.links = append(a.links, l)
	}
	return a, nil
}

// newTables makes the tables of programs by the number of a call. One tracepoint for all
// calls ends at once; the kernel took some 50 ms to end each of 150 events, in which the
// next recording could not begin.
func (a *attached) newTables() (enter, exit *ebpf.Map, err error) {
	size := slices.Max(slices.Collect(maps.Values(numbers))) + 1
	for _, to := range []**ebpf.Map{&enter, &exit} {
		*to, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: size})
		if err != nil {
			return nil, nil, fmt.Errorf("the kernel gives no table of programs: %w", err)
		}
		a.tables = append(a.tables, *to)
	}
	return enter, exit, nil
}

// close stops the programs.
func (a *attached) close() {
	for _, l := range a.links {
		l.Close()
	}
	for _, m := range a.tables {
		m.Close()
	}
}

// offsets are the places of members in structures of the running kernel, in bytes. The
// kernel describes them itself (/sys/kernel/btf/vmlinux).
type offsets map[string]int16

// members are the members that the programs read.
var members = []string{
	"task_struct.group_leader", "task_struct.tgid", "task_struct.thread_pid",
	"task_struct.files", "task_struct.fs", "task_struct.mm",
	"task_struct.thread_info", "thread_info.status", "pt_regs.orig_ax", "pt_regs.r10", "pt_regs.r9", "pt_regs.r8", "pt_regs.ax", "pt_regs.dx", "pt_regs.si", "pt_regs.di",
	"pid.level", "pid.numbers", "upid.nr",
	"files_struct.fdt", "fdtable.fd", "fdtable.max_fds", "file.f_path", "path.dentry", "path.mnt",
	"dentry.d_parent", "dentry.d_name", "qstr.name", "vfsmount.mnt_root", "mount.mnt", "mount.mnt_parent", "mount.mnt_mountpoint",
	"mm_struct.arg_start", "mm_struct.arg_end", "mm_struct.env_start", "mm_struct.env_end",
	"linux_binprm.filename", "linux_binprm.buf",
}

func readOffsets() (offsets, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("the kernel does not describe its structures (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	out := offsets{}
	for _, name := range members {
		at, size, err := member(spec, name)
		if err != nil {
			return nil, err
		}
		out[name] = at
		if name == "upid.nr" { // the size of an element of pid.numbers
			out["upid"] = size
		}
	}
	return out, nil
}

// member finds structure.member, and the size of the structure.
func member(spec *btf.Spec, name string) (offset, size int16, err error) {
	var of, in string
	for i := range name {
		if name[i] == '.' {
			of, in = name[:i], name[i+1:]
		}
	}
	var s *btf.Struct
	if err := spec.TypeByName(of, &s); err != nil {
		return 0, 0, fmt.Errorf("the kernel does not describe struct %s: %w", of, err)
	}
	bits, ok := find(s.Members, in)
	if !ok {
		return 0, 0, fmt.Errorf("struct %s of this kernel has no member %s", of, in)
	}
	return int16(bits / 8), int16(s.Size), nil
}

// find looks for a member, also in structures and unions without a name.
func find(list []btf.Member, name string) (btf.Bits, bool) {
	for _, m := range list {
		if m.Name == name {
			return m.Offset, true
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if at, ok := find(inner, name); ok {
			return m.Offset + at, true
		}
	}
	return 0, false
}

// numbers are the numbers of the calls.
var numbers = map[string]uint32{
	"read": unix.SYS_READ, "write": unix.SYS_WRITE, "pread64": unix.SYS_PREAD64,
	"pwrite64": unix.SYS_PWRITE64, "readv": unix.SYS_READV, "writev": unix.SYS_WRITEV,
	"preadv": unix.SYS_PREADV, "pwritev": unix.SYS_PWRITEV, "preadv2": unix.SYS_PREADV2,
	"pwritev2": unix.SYS_PWRITEV2, "lseek": unix.SYS_LSEEK, "open": unix.SYS_OPEN,
	"openat": unix.SYS_OPENAT, "openat2": unix.SYS_OPENAT2, "creat": unix.SYS_CREAT,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "close": unix.SYS_CLOSE,
	"close_range": unix.SYS_CLOSE_RANGE, "dup": unix.SYS_DUP, "dup2": unix.SYS_DUP2,
	"dup3": unix.SYS_DUP3, "fcntl": unix.SYS_FCNTL, "flock": unix.SYS_FLOCK,
	"ioctl": unix.SYS_IOCTL, "sendfile": unix.SYS_SENDFILE,
	"copy_file_range": unix.SYS_COPY_FILE_RANGE, "splice": unix.SYS_SPLICE,
	"io_submit": unix.SYS_IO_SUBMIT, "io_getevents": unix.SYS_IO_GETEVENTS,
	"io_pgetevents": unix.SYS_IO_PGETEVENTS, "io_destroy": unix.SYS_IO_DESTROY,
	"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
	"mmap": unix.SYS_MMAP, "mremap": unix.SYS_MREMAP, "msync": unix.SYS_MSYNC,
	"fsync": unix.SYS_FSYNC, "fdatasync": unix.SYS_FDATASYNC, "syncfs": unix.SYS_SYNCFS,
	"sync": unix.SYS_SYNC, "sync_file_range": unix.SYS_SYNC_FILE_RANGE,
	"truncate": unix.SYS_TRUNCATE, "ftruncate": unix.SYS_FTRUNCATE,
	"fallocate": unix.SYS_FALLOCATE, "readahead": unix.SYS_READAHEAD, "rename": unix.SYS_RENAME,
	"renameat": unix.SYS_RENAMEAT, "renameat2": unix.SYS_RENAMEAT2, "link": unix.SYS_LINK,
	"linkat": unix.SYS_LINKAT, "unlink": unix.SYS_UNLINK, "unlinkat": unix.SYS_UNLINKAT,
	"rmdir": unix.SYS_RMDIR, "stat": unix.SYS_STAT, "lstat": unix.SYS_LSTAT,
	"fstat": unix.SYS_FSTAT, "newfstatat": unix.SYS_NEWFSTATAT, "statx": unix.SYS_STATX,
	"access": unix.SYS_ACCESS, "faccessat": unix.SYS_FACCESSAT, "faccessat2": unix.SYS_FACCESSAT2,
	"chdir": unix.SYS_CHDIR, "fchdir": unix.SYS_FCHDIR, "unshare": unix.SYS_UNSHARE,
	"pipe": unix.SYS_PIPE, "pipe2": unix.SYS_PIPE2, "socketpair": unix.SYS_SOCKETPAIR,
	"socket": unix.SYS_SOCKET, "accept": unix.SYS_ACCEPT, "accept4": unix.SYS_ACCEPT4,
	"eventfd": unix.SYS_EVENTFD, "eventfd2": unix.SYS_EVENTFD2,
	"epoll_create": unix.SYS_EPOLL_CREATE, "epoll_create1": unix.SYS_EPOLL_CREATE1,
	"inotify_init": unix.SYS_INOTIFY_INIT, "inotify_init1": unix.SYS_INOTIFY_INIT1,
	"timerfd_create": unix.SYS_TIMERFD_CREATE, "signalfd": unix.SYS_SIGNALFD,
	"signalfd4": unix.SYS_SIGNALFD4, "memfd_create": unix.SYS_MEMFD_CREATE,
	"userfaultfd": unix.SYS_USERFAULTFD, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"pidfd_open": unix.SYS_PIDFD_OPEN, "fanotify_init": unix.SYS_FANOTIFY_INIT,
}
