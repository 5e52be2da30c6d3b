package medium

import (
	"os"
	"path/filepath"
	"strings"
)

// disk returns the class of the block device of a mount, and its name.
func (s System) disk(m *mount) (Class, string) {
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

// blockDevice returns the class of a device in /sys. A device that is made of others, as
// those of LVM, is as slow as the slowest.
func (s System) blockDevice(dir string) Class {
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
