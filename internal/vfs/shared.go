package vfs

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The modes of what is made in a directory. A group shares a directory that is setgid and
// writable for the group: what is made there belongs to that group, and its members may use
// it, whatever the umask. Others stay out.
const (
	ownFile    = 0o600
	ownDir     = 0o700
	sharedFile = 0o660
	sharedDir  = 0o770 | unix.S_ISGID
)

func isShared(mode uint32) bool { return mode&unix.S_ISGID != 0 && mode&0o020 != 0 }

// Shared reports whether a group shares a directory.
func Shared(dir fs.FileInfo) bool {
	return dir.IsDir() && dir.Mode()&fs.ModeSetgid != 0 && dir.Mode()&0o020 != 0
}

// inShared reports whether a name lies in a directory that a group shares.
func inShared(name string) bool {
	dir, err := os.Stat(filepath.Dir(name))
	return err == nil && Shared(dir)
}

// share lets the group of its directory use a file. Of a file of somebody else, or on a file
// system without modes, there is nothing to change.
func share(f *os.File, shared bool) {
	if shared {
		_ = f.Chmod(sharedFile)
	}
}
