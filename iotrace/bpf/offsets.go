//go:build linux && amd64

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

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

// readOffsets finds the members in the description of the kernel.
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
