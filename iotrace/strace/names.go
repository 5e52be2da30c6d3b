package strace

import (
	"path"
	"strings"

	"ckpt/iotrace"
)

// A node is a file, whatever its paths.
type node struct {
	path string // the last one that it was given
	size int64  // iotrace.None if it is not known
}

// names are the paths that were seen, and what is there.
type names struct {
	nodes   map[string]*node
	entries map[string]map[string]bool // paths by their directory, for when that is renamed
	links   map[string]string          // paths that have a symbolic link in them, and where they lead
}

func newNames() names {
	return names{make(map[string]*node), make(map[string]map[string]bool), make(map[string]string)}
}

// nodeOf returns what is known at a path.
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

// parent returns the directory of a path, or nothing if that is not known. It is
// shorter, whatever the path.
func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 || len(name) == 1 {
		return ""
	}
	return name[:max(i, 1)]
}

// remove forgets a path, but not what is below it.
func (ns *names) remove(name string) {
	delete(ns.nodes, name)
	if len(ns.entries[name]) > 0 {
		return
	}
	delete(ns.entries, name)
	delete(ns.entries[parent(name)], name)
}

// take removes all that is at a path and below it, and returns it by what follows
// the path.
func (ns *names) take(name string) map[string]*node {
	taken := make(map[string]*node)
	var walk func(string)
	walk = func(at string) {
		if n := ns.nodes[at]; n != nil {
			taken[at[len(name):]] = n
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

// give puts at a path what was taken from another.
func (ns *names) give(taken map[string]*node, from, to string) {
	for rest, n := range taken {
		if rest == "" || n.path == from+rest { // else it has yet another path
			n.path = to + rest
		}
		ns.put(to+rest, n)
	}
}

// known reports whether there is something at a path, as far as was seen.
func (ns *names) known(name string) bool { return ns.nodes[name] != nil }

// linked: one more path of a file.
func (ns *names) linked(from, to string) { ns.put(to, ns.nodeOf(from)) }

// moved: a file is renamed, or a directory with all that is in it.
func (ns *names) moved(from, to string) {
	if from == to || strings.HasPrefix(to, from+"/") {
		return
	}
	ns.nodeOf(from)
	taken := ns.take(from)
	ns.take(to) // is replaced
	ns.give(taken, from, to)
}

// exchanged: renameat2 with RENAME_EXCHANGE.
func (ns *names) exchanged(a, b string) {
	ns.nodeOf(a)
	ns.nodeOf(b)
	x, y := ns.take(a), ns.take(b)
	ns.give(x, a, b)
	ns.give(y, b, a)
}

// learn notes that -y gives a file another path than the program, which went by a
// symbolic link. If the file was made by it, the last name is no link, so that all
// of the directory is elsewhere. Links as /dev/stdin lead each process elsewhere.
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

// follow returns where a path leads, as far as that was seen. The last name, if it
// is a link that leads to another name, is followed only if last says so.
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

// followRename is follow of the two paths of a rename. In one directory both names
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
