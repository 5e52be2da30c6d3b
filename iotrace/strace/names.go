package strace

import (
	"bytes"
	"cmp"
	"path"
	"strings"

	"ckpt/iotrace"
)

// A node is a file. It may have several paths.
type node struct {
	path string // the last path that it was given
	size int64  // iotrace.None if it is not known
	gone bool   // its first name may be that of another file by now
}

// names holds the paths seen so far and their files.
type names struct {
	nodes   map[string]*node
	entries map[string]map[string]bool // paths by directory, for renames of directories
	left    map[string]bool            // paths that files have lost; true once another has it
	links   map[string]string          // paths that contain a symbolic link, and their targets
}

func newNames() names {
	return names{make(map[string]*node), make(map[string]map[string]bool), make(map[string]bool), make(map[string]string)}
}

func (ns *names) nodeOf(name string) *node {
	n := ns.nodes[name]
	if n == nil {
		n = &node{path: name, size: iotrace.None}
		ns.put(name, n)
	}
	return n
}

func (ns *names) put(name string, n *node) {
	ns.nodes[name] = n
	if _, ok := ns.left[name]; ok {
		ns.left[name] = true
	}
	for dir := parent(name); dir != ""; name, dir = dir, parent(dir) {
		of := ns.entries[dir]
		if of[name] {
			return
		}
		if of == nil {
			of = make(map[string]bool)
			ns.entries[dir] = of
		}
		of[name] = true
	}
}

// parent returns the directory of a path, or "" if it is unknown. The result is always
// shorter than the path.
func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 || len(name) == 1 {
		return ""
	}
	return name[:max(i, 1)]
}

// remove forgets a path, but not what is below it.
func (ns *names) remove(name string) {
	if n := ns.nodes[name]; n != nil {
		n.gone = true
		ns.leave(name)
	}
	delete(ns.nodes, name)
	if len(ns.entries[name]) > 0 {
		return
	}
	delete(ns.entries, name)
	delete(ns.entries[parent(name)], name)
}

// leave notes that a file has lost a path.
func (ns *names) leave(name string) {
	if !ns.left[name] {
		ns.left[name] = false // as long as no other file has it
	}
}

// take removes the nodes at and below a path. It returns them by the rest of their
// path.
func (ns *names) take(name string) map[string]*node {
	taken := make(map[string]*node)
	var walk func(string)
	walk = func(at string) {
		if n := ns.nodes[at]; n != nil {
			taken[at[len(name):]] = n
			ns.leave(at)
		}
		for entry := range ns.entries[at] {
			walk(entry)
		}
		delete(ns.entries, at)
		delete(ns.nodes, at)
	}
	walk(name)
	delete(ns.entries[parent(name)], name)
	return taken
}

func (ns *names) give(taken map[string]*node, from, to string) {
	for rest, n := range taken {
		if rest == "" || n.path == from+rest { // else it has another path
			n.path = to + rest
		}
		ns.put(to+rest, n)
	}
}

// known reports whether the trace has shown a file at the path.
func (ns *names) known(name string) bool { return ns.nodes[name] != nil }

// linked gives a file one more path.
func (ns *names) linked(from, to string) { ns.put(to, ns.nodeOf(from)) }

// moved renames a file, or a directory with everything below it, and returns what take
// does.
func (ns *names) moved(from, to string) (taken map[string]*node) {
	if from == to || strings.HasPrefix(to, from+"/") {
		return nil
	}
	ns.nodeOf(from)
	taken = ns.take(from)
	for _, n := range taken {
		n.gone = true
	}
	for _, n := range ns.take(to) { // is replaced
		n.gone = true
	}
	ns.give(taken, from, to)
	return taken
}

// exchanged handles renameat2 with RENAME_EXCHANGE.
func (ns *names) exchanged(a, b string) (x, y map[string]*node) {
	ns.nodeOf(a)
	ns.nodeOf(b)
	x, y = ns.take(a), ns.take(b)
	ns.give(x, a, b)
	ns.give(y, b, a)
	return x, y
}

// learn records that -y gives a file another path than the program, which used a
// symbolic link. If the program created the file, the last name is no link, so the
// link is in the directory. Links such as /dev/stdin lead each process to a different
// file.
func (ns *names) learn(name, real string, made bool) {
	if !strings.HasPrefix(name, "/") || !strings.HasPrefix(real, "/") || strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/") {
		return
	}
	if name == real {
		delete(ns.links, name)
		delete(ns.links, path.Dir(name))
		return
	}
	ns.links[name] = real
	if made && path.Base(name) == path.Base(real) {
		ns.links[path.Dir(name)] = path.Dir(real)
	}
}

// follow resolves the symbolic links of a path, as far as the trace has shown them. If
// last is not set, it does not follow a link in the last name to another name.
func (ns *names) follow(name string, last bool) string {
	if len(ns.links) == 0 {
		return name
	}
	if real, ok := ns.links[name]; ok && (last || path.Base(real) == path.Base(name)) {
		return real
	}
	for dir := path.Dir(name); len(dir) > 1; dir = path.Dir(dir) {
		if real, ok := ns.links[dir]; ok {
			return path.Join(real, name[len(dir):])
		}
	}
	return name
}

// followRename is follow for both paths of a rename. Within one directory, both names
// are where the old one was found.
func (ns *names) followRename(from, to string) (old, name string) {
	old, name = ns.follow(from, false), ns.follow(to, false)
	if len(ns.links) == 0 {
		return old, name
	}
	if path.Dir(from) == path.Dir(to) && path.Base(old) == path.Base(from) {
		name = path.Join(path.Dir(old), path.Base(to))
	}
	leads, link := ns.links[from]
	delete(ns.links, from)
	delete(ns.links, to)
	switch {
	case link && old != leads: // the link itself is renamed
		ns.links[to] = leads
	case name != to:
		ns.links[to] = name
	}
	return old, name
}

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

func (c *call) pathArg(dir, arg []byte) (string, bool) {
	name, ok := c.givenPath(dir, arg)
	return c.im.follow(name, true), ok
}

// givenPath reads a path that is relative to the directory of a descriptor, or to
// the working directory if dir is nil.
func (c *call) givenPath(dir, arg []byte) (string, bool) {
	name, whole, ok := parseString(arg)
	if !ok || !whole {
		return "", false
	}
	if strings.HasPrefix(name, "/") {
		return path.Clean(name), true
	}
	base, fd := c.task.cwd.path, int64(atCWD)
	if dir != nil {
		var note []byte
		fd, note, ok = parseFD(dir)
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
	if base == "" && fd == atCWD {
		base = c.im.directoryOf(name)
		c.task.cwd.path = base
	}
	return absolute(base, name), true
}

// directoryOf returns the directory in which there is a file of a relative path, if the
// trace has shown one such file; else "".
func (ns *names) directoryOf(name string) string {
	found := ""
	for dir := range ns.entries {
		file := path.Join(dir, path.Base(name))
		base, ok := strings.CutSuffix(file, "/"+name)
		if !ok || ns.nodes[file] == nil || dir[0] != '/' {
			continue
		}
		if found != "" {
			return ""
		}
		found = cmp.Or(base, "/")
	}
	return found
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
	note, _ = deletedNote(note)
	if i := bytes.IndexByte(note, '<'); i >= 0 {
		note = note[:i]
	}
	return unescape(note)
}

// deletedNote cuts the mark of a deleted file off a note.
func deletedNote(note []byte) (name []byte, deleted bool) {
	if name, deleted = bytes.CutSuffix(note, deletedMark); deleted {
		name, deleted = bytes.CutSuffix(name, []byte(">"))
	}
	if !deleted {
		name = note
	}
	return name, deleted
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
