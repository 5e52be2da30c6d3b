package vfs

import "strings"

// mounts are the file systems that are no directories of the machine, by how the names in them
// begin.
var mounts = map[string]func(dir string) (FS, error){}

// Mount has At find a file system for the names below prefix. Open is called when one is needed
// first. It is for the beginning of a program.
func Mount(prefix string, open func(dir string) (FS, error)) { mounts[prefix] = open }

// Mounted reports whether a directory is on no file system of the machine.
func Mounted(dir string) bool { return mounted(dir) != nil }

func mounted(dir string) func(string) (FS, error) {
	for prefix, open := range mounts {
		if rest, ok := strings.CutPrefix(dir, prefix); ok && strings.HasPrefix(rest, "/") {
			return open
		}
	}
	return nil
}

// At returns the file system that has a directory: fsys itself, unless that is the machine's and
// the name is of another.
func At(fsys FS, dir string) (FS, error) {
	if _, machine := fsys.(OS); machine {
		if open := mounted(dir); open != nil {
			return open(dir)
		}
	}
	return fsys, nil
}
