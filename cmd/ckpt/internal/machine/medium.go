package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errNoMount says that a directory has no mount, as where the root is not one (chroot).
var errNoMount = errors.New("not in /proc/self/mountinfo")

// A Class is a kind of storage, as the table of mounts and /sys tell it, without a measurement.
// Disks of virtual machines say of themselves that they rotate: such a disk is Virtual.
type Class string

// The classes, as they are printed.
const (
	Memory     Class = "memory"            // tmpfs and the like: a reboot loses it
	Persistent Class = "persistent memory" // a pmem device
	NVMe       Class = "NVMe"
	SSD        Class = "solid-state disk"
	Virtual    Class = "virtual disk" // of a virtual machine, with anything below
	Rotating   Class = "rotating disk"
	Network    Class = "network file system"
	Layered    Class = "layer of a container"
	Unknown    Class = "unknown storage"
)

// A Medium is what a directory is on.
type Medium struct {
	Class      Class
	FileSystem string // its kind, as in /proc/mounts
	Device     string // may be ""
	DAX        bool   // mapped files are the storage itself
}

// MediumOf returns what an existing directory is on.
func MediumOf(dir string) (Medium, error) {
	return system{Root: "/", Device: device}.medium(dir)
}

// A system is where MediumOf looks; tests have their own.
type system struct {
	Root   string // has proc and sys
	Device func(dir string) (major, minor uint32, err error)
}

func device(dir string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return unix.Major(st.Dev), unix.Minor(st.Dev), nil
}

// Of returns what an existing directory is on.
func (s system) medium(dir string) (Medium, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Medium{}, err
	}
	major, minor, err := s.Device(dir)
	if err != nil {
		return Medium{}, err
	}
	mounted, err := s.mountOf(dir, fmt.Sprintf("%d:%d", major, minor))
	if err != nil {
		return Medium{}, err
	}
	m := Medium{Class: Unknown, FileSystem: mounted.kind, DAX: mounted.dax()}
	switch {
	case slices.Contains(inMemory, m.FileSystem):
		m.Class = Memory
	case isNetwork(m.FileSystem):
		m.Class = Network
	case m.FileSystem == "overlay":
		m.Class = Layered
	default:
		m.Class, m.Device = s.disk(mounted)
	}
	if m.DAX && m.Class == Unknown {
		m.Class = Persistent
	}
	return m, nil
}

var inMemory = []string{"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"}

var networks = []string{"nfs", "nfs4", "lustre", "gpfs", "ceph", "beegfs", "cifs", "smb3", "9p", "pvfs2", "orangefs", "afs", "glusterfs", "virtiofs", "wekafs", "panfs"}

// isNetwork reports whether files are on other machines. Of file systems in user space
// the name behind the dot says more.
func isNetwork(kind string) bool {
	rest, user := strings.CutPrefix(kind, "fuse.")
	return slices.Contains(networks, kind) || user && (slices.Contains(networks, rest) || rest == "sshfs" || rest == "s3fs" || rest == "juicefs")
}

// A mount is a line of /proc/self/mountinfo.
type mount struct {
	device, point, kind, source string
	options                     []string
}

// dax reports whether it was mounted with direct access. With dax=inode the files
// themselves decide.
func (m *mount) dax() bool {
	return slices.Contains(m.options, "dax") || slices.Contains(m.options, "dax=always")
}

// mountOf finds the mount that a directory is in. The device number decides, where it is
// there: some file systems, as btrfs, show files another one than their mount.
func (s system) mountOf(dir, device string) (*mount, error) {
	text, err := os.ReadFile(filepath.Join(s.Root, "proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}
	var best *mount
	for line := range strings.Lines(string(text)) {
		m, ok := parseMount(line)
		if !ok || !below(dir, m.point) {
			continue
		}
		if best == nil || better(&m, best, device) {
			best = &m
		}
	}
	if best == nil {
		return nil, fmt.Errorf("mount of %s: %w", dir, errNoMount)
	}
	return best, nil
}

// better reports whether m rather than the mount before it holds the directory: the
// deeper one does, and of two on one point the later.
func better(m, before *mount, device string) bool {
	if (m.device == device) != (before.device == device) {
		return m.device == device
	}
	return len(m.point) >= len(before.point)
}

func below(dir, point string) bool {
	return point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
}

// parseMount reads a line: numbers, device, root, point, options, optional fields, a dash,
// kind, source, more options (proc_pid_mountinfo(5)).
func parseMount(line string) (m mount, ok bool) {
	front, back, ok := strings.Cut(strings.TrimSpace(line), " - ")
	f, b := strings.Fields(front), strings.Fields(back)
	if !ok || len(f) < 6 || len(b) < 2 {
		return m, false
	}
	m = mount{device: f[2], point: unescape(f[4]), kind: b[0], source: unescape(b[1]), options: strings.Split(f[5], ",")}
	if len(b) > 2 {
		m.options = append(m.options, strings.Split(b[2], ",")...)
	}
	return m, true
}

// unescape replaces \040 and the like, as the kernel writes spaces.
func unescape(s string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(s, '\\')
		if at < 0 || at+4 > len(s) {
			return b.String() + s
		}
		n, err := strconv.ParseUint(s[at+1:at+4], 8, 8)
		if err != nil {
			return b.String() + s
		}
		b.WriteString(s[:at])
		b.WriteByte(byte(n))
		s = s[at+4:]
	}
}

// disk returns the class of the block device of a mount, and its name.
func (s system) disk(m *mount) (Class, string) {
	dir, err := filepath.EvalSymlinks(filepath.Join(s.Root, "sys/dev/block", m.device))
	if name, found := strings.CutPrefix(m.source, "/dev/"); err != nil && found {
		// A file system of several devices has a number of its own.
		dir, err = filepath.EvalSymlinks(filepath.Join(s.Root, "sys/class/block", filepath.Base(name)))
	}
	if err != nil {
		return Unknown, ""
	}
	return s.blockDevice(dir), "/dev/" + filepath.Base(dir)
}

// blockDevice returns the class of a device in /sys. An LVM volume, made of
// several devices, is as slow as the slowest.
func (s system) blockDevice(dir string) Class {
	slaves, _ := filepath.Glob(filepath.Join(dir, "slaves", "*"))
	worst := Class("")
	for _, slave := range slaves {
		real, err := filepath.EvalSymlinks(slave)
		if err != nil {
			continue
		}
		if c := s.blockDevice(real); worst == "" || rank(c) > rank(worst) {
			worst = c
		}
	}
	if worst != "" {
		return worst
	}
	name := filepath.Base(dir)
	switch {
	case strings.HasPrefix(name, "pmem"):
		return Persistent
	case strings.HasPrefix(name, "nvme"):
		return NVMe
	case strings.HasPrefix(name, "ram"), strings.HasPrefix(name, "zram"):
		return Memory
	case strings.HasPrefix(name, "vd"), strings.HasPrefix(name, "xvd"):
		return Virtual
	case strings.HasPrefix(name, "nbd"), strings.HasPrefix(name, "rbd"):
		return Network
	}
	return rotation(dir)
}

// rank orders classes by speed.
func rank(c Class) int {
	for i, other := range []Class{Memory, Persistent, NVMe, SSD, Virtual, Unknown, Rotating, Network} {
		if c == other {
			return i
		}
	}
	return -1
}

// rotation asks the queue of a disk, which a partition shares with it.
func rotation(dir string) Class {
	for _, d := range []string{dir, filepath.Dir(dir)} {
		text, err := os.ReadFile(filepath.Join(d, "queue/rotational"))
		if err != nil {
			continue
		}
		if strings.TrimSpace(string(text)) == "0" {
			return SSD
		}
		return Rotating
	}
	return Unknown
}
