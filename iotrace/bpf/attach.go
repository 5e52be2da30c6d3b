//go:build linux && amd64

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

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

// attached are programs that run, and what keeps them running.
type attached struct {
	links  []link.Link
	mounts []*os.File
	pins   int
}

// mounted makes a file system of the kernel available without mounting it anywhere.
func (a *attached) mounted(kind string) (string, error) {
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	a.mounts = append(a.mounts, os.NewFile(uintptr(fd), kind))
	return fmt.Sprint("/proc/self/fd/", fd), nil
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
	events, err := a.mounted("tracefs")
	if err != nil {
		return nil, err
	}
	pins, err := a.mounted("bpf")
	if err != nil {
		return nil, err
	}
	for _, t := range []struct {
		name string
		p    *program
	}{
		{"sched_process_fork", forkProgram(o, m)}, {"sched_process_exec", execProgram(o, m)}, {"sched_process_exit", endProgram(o, m)},
	} {
		prog, err := t.p.load(t.name, ebpf.Tracing, ebpf.AttachTraceRawTp, t.name)
		if err != nil {
			return nil, err
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		prog.Close()
		if err != nil {
			return nil, fmt.Errorf("the kernel does not run a program at %s: %w", t.name, err)
		}
		a.links = append(a.links, l)
	}
	for i := range syscalls {
		s := &syscalls[i]
		if !s.brief {
			if err := a.event(events, pins, "sys_enter_"+s.event, enterProgram(o, m, s.event == "close", i)); err != nil {
				return nil, err
			}
		}
		if err := a.event(events, pins, "sys_exit_"+s.event, exitProgram(o, m, i)); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// event runs a program at an event of the kernel, if there is such an event.
func (a *attached) event(events, pins, name string, p *program) error {
	b, err := os.ReadFile(events + "/events/syscalls/" + name + "/id")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(events + "/events/syscalls"); err != nil {
			return errors.New("the kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS)")
		}
		return nil // another version, or another configuration
	}
	if err != nil {
		return err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return err
	}
	prog, err := p.load("sys", ebpf.TracePoint, ebpf.AttachNone, "")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer prog.Close()
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Config: id, Sample: 1, Bits: unix.PerfBitDisabled,
	}, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the kernel does not open the event %s: %w", name, err)
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: prog, Attach: ebpf.AttachPerfEvent})
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("the kernel does not run a program at %s: %w", name, err)
	}
	a.links = append(a.links, l)
	a.pins++
	// The kernel takes some 50 ms to end each event. It does so by itself, later, if
	// the last reference goes with the file system that holds it.
	if err := l.Pin(fmt.Sprint(pins, "/", a.pins)); err != nil {
		unix.Close(fd)
		return fmt.Errorf("the kernel does not keep a program for %s: %w", name, err)
	}
	return unix.Close(fd)
}

// close stops the programs. Programs on system calls end somewhat later.
func (a *attached) close() {
	for _, l := range a.links {
		l.Close()
	}
	for _, m := range a.mounts {
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
	"pt_regs.r10", "pt_regs.r9", "pt_regs.r8", "pt_regs.ax", "pt_regs.dx", "pt_regs.si", "pt_regs.di",
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
