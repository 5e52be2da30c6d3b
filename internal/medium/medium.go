// Package medium finds out what kind of storage a directory is on: memory, persistent
// memory, NVMe, another solid-state disk, a rotating disk, a network file system.
//
// The answer comes from the table of mounts and from /sys, not from a measurement, so
// that it costs nothing. Disks of virtual machines say of themselves that they rotate,
// whatever is below them; such a disk is [Virtual].
package medium

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

// A Class is a kind of storage.
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
	Device     string // "" if it has none
	DAX        bool   // mapped files are the storage itself
}

// Of returns what an existing directory is on.
func Of(dir string) (Medium, error) {
	return System{Root: "/", Device: device}.Of(dir)
}

// A System is where package medium looks; tests have their own.
type System struct {
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
func (s System) Of(dir string) (Medium, error) {
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
func (s System) mountOf(dir, device string) (*mount, error) {
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
