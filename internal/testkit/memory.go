package testkit

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	memory     = "/dev/shm"
	enough     = 2 << 30 // bytes
	memoryDirs = "ckt-"  // short, for the sockets below
)

var disk = os.TempDir()

// Disk is the directory for temporary files that have to be on a disk.
func Disk() string { return disk }

// InMemory has the other temporary files of a test, and those of its processes, in memory,
// where there is room for them and nobody has named a directory. The long forms of tests use
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
