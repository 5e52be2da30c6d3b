package strace

import (
	"bytes"
	"path"
	"strings"
)

// absolute makes a path absolute, if the directory is known.
func absolute(dir, name string) string {
	switch {
	case name == "":
		return dir
	case strings.HasPrefix(name, "/"):
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// pathArg reads a path and follows the links in it.
func (c *call) pathArg(dir, arg []byte) (string, bool) {
	name, ok := c.givenPath(dir, arg)
	return c.im.follow(name, true), ok
}

// givenPath reads a path that is relative to the directory of a descriptor, or to
// the working directory if dir is nil.
func (c *call) givenPath(dir, arg []byte) (string, bool) {
	name, whole, ok := parseString(arg)
	if !ok {
		return "", false
	}
	if !whole {
		name += "..."
	}
	if strings.HasPrefix(name, "/") {
		return path.Clean(name), true
	}
	base := c.task.cwd.path
	if dir != nil {
		fd, note, ok := parseFD(dir)
		switch {
		case !ok:
			return "", false
		case note != nil:
			base = notePath(note)
			if fd == atCWD {
				c.task.cwd.path = base
			}
		case fd != atCWD:
			base = c.task.fds.fds[fd].pathNow()
		}
	}
	return absolute(base, name), true
}

// pathNow returns the current path of a descriptor's file.
func (d descriptor) pathNow() string {
	if d.open == nil || d.node == nil {
		return ""
	}
	return d.node.path
}

// notePath returns the path in the text that -y adds to a descriptor. More may follow
// the path: </dev/pts/0<char 136:0>>.
func notePath(note []byte) string {
	s := string(note)
	if i := strings.IndexByte(s, '<'); i >= 0 {
		s = s[:i]
	}
	return unescape([]byte(s))
}

// isPath reports whether a note has this path. It avoids making a string of a note
// that is nothing but the path.
func isPath(note []byte, name string) bool {
	return string(note) == name && bytes.IndexByte(note, '<') < 0 && bytes.IndexByte(note, '\\') < 0 || notePath(note) == name
}

// kindOfNote derives the kind of a descriptor from the text of -y; "" is a file.
func kindOfNote(note []byte) string {
	if bytes.HasPrefix(note, []byte(`\x`)) { // of strace -xx
		note = []byte(unescape(note))
	}
	switch {
	case bytes.HasPrefix(note, []byte("/")):
		if bytes.Contains(note, []byte("<char ")) || bytes.Contains(note, []byte("<block ")) {
			return "device"
		}
		return kindOfPath(notePath(note))
	case bytes.HasPrefix(note, []byte("pipe:")):
		return "pipe"
	case bytes.HasPrefix(note, []byte("anon_inode:")):
		return strings.Trim(string(note[len("anon_inode:"):]), "[]")
	case bytes.HasPrefix(note, []byte("pid:")):
		return "pidfd"
	}
	return "socket"
}

// kindOfPath recognises devices by their directory. Shared memory counts as files.
func kindOfPath(name string) string {
	if strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/dev/shm/") {
		return "device"
	}
	return ""
}

// kindOfMode derives the kind of a descriptor from st_mode of a stat.
func kindOfMode(mode []byte) string {
	for flag, kind := range map[string]string{"S_IFIFO": "pipe", "S_IFSOCK": "socket", "S_IFCHR": "device", "S_IFBLK": "device"} {
		if hasFlag(mode, flag) {
			return kind
		}
	}
	return ""
}
