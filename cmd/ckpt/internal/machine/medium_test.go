package machine

import (
	"ckpt/internal/testkit"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// machine makes /proc and /sys of a machine with disks of many kinds.
func mediumMachine(t *testing.T) system {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(root, to), name); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/self/mountinfo", `27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
28 27 0:30 / /shm rw shared:3 - tmpfs tmpfs rw,size=1k
29 27 259:1 / /nvme rw - xfs /dev/nvme0n1p1 rw
30 27 259:9 / /pm rw,relatime - ext4 /dev/pmem0 rw,dax=always
31 27 0:44 / /home rw - nfs4 server:/home rw
32 27 8:17 / /with\040space rw - ext4 /dev/sdb1 rw
33 27 252:0 / /lvm rw - xfs /dev/mapper/vg-lv rw
34 27 254:0 / /vm rw - ext4 /dev/vda rw
35 27 0:50 / /b rw - btrfs /dev/sdb1 rw
36 27 0:51 / /layer rw - overlay overlay rw
37 27 0:52 / /remote rw - fuse.sshfs host:/ rw
38 29 0:30 / /nvme rw - tmpfs covered rw
a line of another kind
`)
	for _, d := range []struct{ number, path, rotational string }{
		{"8:1", "sda/sda1", "1"}, {"8:17", "sdb/sdb1", "0"}, {"259:1", "nvme0n1/nvme0n1p1", "0"}, {"259:9", "pmem0", "0"}, {"252:0", "dm-0", "0"}, {"254:0", "vda", "1"},
	} {
		write("sys/devices/"+d.path+"/dev", d.number)
		disk := filepath.Join("sys/devices", d.path)
		if dir := filepath.Dir(d.path); dir != "." {
			disk = filepath.Join("sys/devices", dir)
		}
		write(disk+"/queue/rotational", d.rotational+"\n")
		link("sys/dev/block/"+d.number, "sys/devices/"+d.path)
		link("sys/class/block/"+filepath.Base(d.path), "sys/devices/"+d.path)
	}
	link("sys/devices/dm-0/slaves/nvme0n1", "sys/devices/nvme0n1")
	link("sys/devices/dm-0/slaves/sda1", "sys/devices/sda/sda1")
	numbers := map[string][2]uint32{
		"/": {8, 1}, "/shm/x": {0, 30}, "/nvme/node": {259, 1}, "/pm": {259, 9}, "/home/u": {0, 44}, "/with space": {8, 17}, "/lvm": {252, 0},
		"/vm": {254, 0}, "/b/sub": {0, 77}, "/layer": {0, 51}, "/remote": {0, 52}, "/nvmeother": {8, 1},
	}
	return system{Root: root, Device: func(dir string) (uint32, uint32, error) {
		n, ok := numbers[dir]
		if !ok {
			return 0, 0, &os.PathError{Op: "stat", Path: dir, Err: os.ErrNotExist}
		}
		return n[0], n[1], nil
	}}
}

// TestMedium: every kind of storage is recognised, also partitions, devices made of others,
// and subvolumes with numbers of their own.
func TestMedium(t *testing.T) {
	s := mediumMachine(t)
	for dir, want := range map[string]Medium{
		"/":           {Rotating, "ext4", "/dev/sda1", false},
		"/nvmeother":  {Rotating, "ext4", "/dev/sda1", false},
		"/shm/x":      {Memory, "tmpfs", "", false},
		"/nvme/node":  {NVMe, "xfs", "/dev/nvme0n1p1", false},
		"/pm":         {Persistent, "ext4", "/dev/pmem0", true},
		"/home/u":     {Network, "nfs4", "", false},
		"/with space": {SSD, "ext4", "/dev/sdb1", false},
		"/lvm":        {Rotating, "xfs", "/dev/dm-0", false},
		"/vm":         {Virtual, "ext4", "/dev/vda", false},
		"/b/sub":      {SSD, "btrfs", "/dev/sdb1", false},
		"/layer":      {Layered, "overlay", "", false},
		"/remote":     {Network, "fuse.sshfs", "", false},
	} {
		got, err := s.medium(dir)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", dir, got, err, want)
		}
	}
	if _, err := s.medium("/missing"); err == nil {
		t.Error("a directory that does not exist has a medium")
	}
}

// TestMediumOfThis: the machine of the test answers, for memory and for the directory of the test.
func TestMediumOfThis(t *testing.T) {
	m, err := MediumOf("/proc")
	if err != nil || m.FileSystem != "proc" || m.Class != Unknown {
		t.Errorf("/proc: %+v, %v", m, err)
	}
	m, err = MediumOf(".")
	if errors.Is(err, errNoMount) {
		testkit.Skip(t, "a root that is a mount")
	}
	if err != nil || m.FileSystem == "" {
		t.Errorf("%+v, %v", m, err)
	}
}
