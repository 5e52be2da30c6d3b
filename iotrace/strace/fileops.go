package strace

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"

	"ckpt/iotrace"
)

func (c *call) open(dir, pathArg, flags []byte) bool {
	name, ok := c.givenPath(dir, pathArg)
	if !ok && c.note == nil { // cut, or printed raw
		c.install(c.value, unknownDescriptor, [][]byte{flags})
	}
	if !ok && c.note == nil || flags == nil {
		return false
	}
	if c.note != nil {
		real := notePath(c.note)
		c.learnCWD(dir, pathArg, real)
		if !hasFlag(flags, "O_TMPFILE") {
			c.im.learn(name, real, hasFlag(flags, "O_CREAT"))
		}
		name = real
	} else {
		name = c.im.follow(name, true)
	}
	if hasFlag(flags, "O_TMPFILE") && c.note == nil {
		name += "/(O_TMPFILE)"
	}
	if was := c.task.fds.fds[c.value]; was.open != nil && was.kind == "" && !was.noted {
		c.im.reused = true
	}
	d := descriptor{open: &open{kind: kindOfPath(name)}, closeOnExec: hasFlag(flags, "O_CLOEXEC")}
	if c.note != nil {
		d.kind = kindOfNote(c.note)
	}
	if d.kind != "" {
		d.offset = iotrace.None
		c.task.fds.fds[c.value] = d
		c.im.rep.Other(d.kind)
		return true
	}
	empty := hasFlag(flags, "O_TRUNC") || hasFlag(flags, "O_TMPFILE") || hasFlag(flags, "O_EXCL") && hasFlag(flags, "O_CREAT")
	made := empty || hasFlag(flags, "O_CREAT") && !c.im.known(name)
	d.name, d.by = name, c.task.process
	d.node = c.im.nodeOf(name)
	d.append, d.direct = hasFlag(flags, "O_APPEND"), hasFlag(flags, "O_DIRECT")
	d.sync = hasFlag(flags, "O_SYNC") || hasFlag(flags, "O_DSYNC")
	if empty {
		d.node.size = 0
	}
	c.task.fds.fds[c.value] = d
	c.emit(iotrace.Open, name, iotrace.None, 0).Create = made
	return true
}

// learnCWD derives the working directory from a path that -y has made absolute.
func (c *call) learnCWD(dir, pathArg []byte, real string) {
	rel, whole, ok := parseString(pathArg)
	if c.task.cwd.path != "" || !ok || !whole || strings.HasPrefix(rel, "/") || dir != nil && string(dir) != "AT_FDCWD" {
		return
	}
	if base, ok := strings.CutSuffix(real, "/"+rel); ok && base != "" {
		c.task.cwd.path = base
	}
}

func (c *call) dup(to int64, closeOnExec bool) bool {
	fd, _, ok := parseFD(c.arg(0))
	if !ok {
		return false
	}
	o, ok := c.lookup(0)
	switch {
	case !ok:
		return false
	case o == nil:
		delete(c.task.fds.fds, to) // close the previous file
		if to >= 0 && to <= 2 {    // the descriptor is no longer the inherited stream
			c.install(to, unknownDescriptor, nil)
		}
	case to != fd:
		c.task.fds.fds[to] = descriptor{o, closeOnExec}
	}
	return true
}

func (c *call) fcntl() bool {
	fd, _, ok := parseFD(c.arg(0))
	if !ok {
		return false
	}
	switch command := c.arg(1); {
	case is(command, "F_DUPFD"):
		return c.dup(c.value, false)
	case is(command, "F_DUPFD_CLOEXEC"):
		return c.dup(c.value, true)
	case is(command, "F_SETFD"):
		c.task.fds.closeOnExec(fd, hasFlag(c.arg(2), "FD_CLOEXEC"))
	case is(command, "F_SETFL"):
		if o, _ := c.lookup(0); o != nil {
			o.append, o.direct, o.unseen = hasFlag(c.arg(2), "O_APPEND"), hasFlag(c.arg(2), "O_DIRECT"), false
		}
	case is(command, "F_SETLKW"), is(command, "F_SETLKW64"), is(command, "F_OFD_SETLKW"):
		return c.lockRange()
	}
	return true
}

// ioctl handles the requests that set close-on-exec, which Python uses, and those that
// share the blocks of another file.
func (c *call) ioctl() bool {
	request := c.arg(1)
	if i := bytes.Index(request, []byte("FI")); i > 0 { // with the name of another request before it
		request = request[i:]
	}
	switch {
	case is(request, "FICLONE"), is(request, "FICLONERANGE"):
		return c.reflink(is(request, "FICLONE"))
	case is(request, "FIDEDUPERANGE"): // the contents stay as they are
		c.im.rep.Other("FIDEDUPERANGE")
		return true
	case !is(request, "FIOCLEX") && !is(request, "FIONCLEX"):
		c.im.rep.Other(others(c.name))
		return true
	}
	fd, _, ok := parseFD(c.arg(0))
	if ok {
		c.task.fds.closeOnExec(fd, is(request, "FIOCLEX"))
	}
	return ok
}

func (c *call) closeOne() bool {
	fd, _, ok := parseFD(c.arg(0))
	if !ok {
		return false
	}
	o, ok := c.file(0)
	if !c.begun { // else it was removed when the call began
		delete(c.task.fds.fds, fd)
	}
	if o != nil {
		c.emit(iotrace.Close, o.name, iotrace.None, 0)
	}
	return ok
}

func (c *call) closeRange() bool {
	from, ok := c.number(0)
	to, ok2 := c.number(1)
	if !ok2 && bytes.HasPrefix(c.arg(1), []byte("~0")) {
		to, ok2 = math.MaxInt32, true
	}
	if !ok || !ok2 {
		return false
	}
	if hasFlag(c.arg(2), "CLOSE_RANGE_UNSHARE") {
		c.task.fds = &table{maps.Clone(c.task.fds.fds)}
	}
	fds := c.task.fds.fds
	for _, fd := range slices.Sorted(maps.Keys(fds)) {
		d := fds[fd]
		switch {
		case fd < from || fd > to:
		case hasFlag(c.arg(2), "CLOSE_RANGE_CLOEXEC"):
			d.closeOnExec = true
			fds[fd] = d
		default:
			delete(fds, fd)
			if d.kind != "" {
				c.im.rep.Other(d.kind)
			} else {
				c.emit(iotrace.Close, d.name, iotrace.None, 0)
			}
		}
	}
	return true
}

// stat handles a stat of a path. The structure has the length of the file.
func (c *call) stat(dir, arg, info []byte) bool {
	name, ok := c.pathArg(dir, arg)
	if !ok {
		return false
	}
	kind := kindOfMode(modeOf(info))
	if kind == "" {
		kind = kindOfPath(name)
	}
	if kind != "" {
		c.im.rep.Other(kind)
		return true
	}
	c.emit(iotrace.Stat, name, iotrace.None, 0)
	learnSize(c.im.nodeOf(name), info)
	return true
}

// statAt handles a stat relative to a descriptor, or of the descriptor.
func (c *call) statAt(info, flags []byte) bool {
	if name, _, ok := parseString(c.arg(1)); (ok && name == "" || string(c.arg(1)) == "NULL") && hasFlag(flags, "AT_EMPTY_PATH") {
		return c.fstat(info)
	}
	return c.stat(c.arg(0), c.arg(1), info)
}

func (c *call) fstat(info []byte) bool {
	fd, note, ok := parseFD(c.arg(0))
	if !ok {
		return false
	}
	if fd == atCWD {
		if note != nil {
			c.task.cwd.path = notePath(note)
		}
		c.im.rep.Other("stat of the working directory")
		return true
	}
	mode := modeOf(info)
	// This reveals the kind of a descriptor that was opened before the trace.
	switch o, _ := c.lookup(0); {
	case mode == nil:
	case o == nil, o.kind == unknownDescriptor:
		if kind := kindOfMode(mode); kind != "" {
			c.task.fds.fds[fd] = descriptor{open: &open{kind: kind, offset: iotrace.None}}
		}
	case o.kind == "":
		if o.kind = kindOfMode(mode); o.kind != "" { // a pipe or device under the name of a file
			o.offset = iotrace.None
		}
	case o.kind == standardStream:
		if o.kind = kindOfMode(mode); o.kind == "" {
			o.name = standardName(fd)
			o.node = &node{path: o.name, size: iotrace.None}
		}
	}
	o, ok := c.file(0)
	if o != nil {
		c.emit(iotrace.Stat, o.name, iotrace.None, 0)
		learnSize(o.node, info)
	}
	return ok
}

// standardName returns Darshan's name for a standard stream that is a file.
func standardName(fd int64) string {
	switch fd {
	case 0:
		return "<STDIN>"
	case 1:
		return "<STDOUT>"
	}
	return "<STDERR>"
}

// modeOf finds the file type in the structure of a stat.
func modeOf(info []byte) []byte {
	if mode := member(info, "st_mode"); mode != nil {
		return mode
	}
	return member(info, "stx_mode")
}

func learnSize(n *node, info []byte) {
	if !hasFlag(modeOf(info), "S_IFREG") {
		return
	}
	for _, m := range []string{"st_size", "stx_size"} {
		if size, ok := integer(member(info, m)); ok && size >= 0 {
			n.size = size
		}
	}
}

func (c *call) sync(offset, bytes int64) bool {
	o, ok := c.file(0)
	if o != nil {
		c.emit(iotrace.Sync, o.name, offset, bytes)
	}
	return ok
}

func (c *call) syncRange() bool {
	offset, ok := c.number(1)
	n, ok2 := c.number(2)
	return ok && ok2 && c.sync(offset, n)
}

func (c *call) syncAll() bool {
	c.emit(iotrace.Sync, "", iotrace.None, 0)
	return true
}

func (c *call) rename(fromDir, from, toDir, to, flags []byte) bool {
	old, ok := c.givenPath(fromDir, from)
	name, ok2 := c.givenPath(toDir, to)
	if !ok || !ok2 {
		return false
	}
	old, name = c.im.followRename(old, name)
	c.emit(iotrace.Rename, old, iotrace.None, 0)
	if hasFlag(flags, "RENAME_EXCHANGE") {
		x, y := c.im.exchanged(old, name)
		c.renamed(x, old, name)
		c.renamed(y, name, old)
	} else if old == name { // nothing changes
		c.renamed(map[string]*node{"": nil}, old, name)
	} else {
		c.renamed(c.im.moved(old, name), old, name)
	}
	return true
}

// renamed notes the new names of a file, or of a directory and the files below it.
func (c *call) renamed(taken map[string]*node, from, to string) {
	if c.err != nil { // its time is out of range
		return
	}
	for _, rest := range slices.Sorted(maps.Keys(taken)) {
		r := iotrace.Renaming{From: c.im.tables.File(from + rest), To: c.im.tables.File(to + rest), At: c.end}
		c.im.t.Renames = append(c.im.t.Renames, r)
	}
}

// link adds no event: it moves no bytes, and traces have no such operation.
func (c *call) link(fromDir, from, toDir, to []byte) bool {
	old, ok := c.givenPath(fromDir, from)
	name, ok2 := c.givenPath(toDir, to)
	if !ok || !ok2 {
		return false
	}
	c.im.rep.Other("link")
	c.im.linked(c.im.follow(old, false), c.im.follow(name, false))
	return true
}

func (c *call) unlink(dir, arg []byte) bool {
	name, ok := c.givenPath(dir, arg)
	if !ok {
		return false
	}
	file := c.im.follow(name, false)
	c.emit(iotrace.Unlink, file, iotrace.None, 0)
	c.im.remove(file)
	delete(c.im.links, name)
	return true
}

func (c *call) truncate() bool {
	name, ok := c.pathArg(nil, c.arg(0))
	n, ok2 := c.number(1)
	if !ok || !ok2 {
		return false
	}
	c.emit(iotrace.Truncate, name, iotrace.None, n)
	c.im.nodeOf(name).size = n
	return true
}

func (c *call) ftruncate() bool {
	o, ok := c.file(0)
	n, ok2 := c.number(1)
	if o != nil && ok2 {
		c.emit(iotrace.Truncate, o.name, iotrace.None, n)
		o.node.size = n
	}
	return ok && ok2
}

// fallocate adds an event if the length of the file is known and changes, because
// Truncate has the new length. If the length is unknown it adds no event: a replay might
// cut a longer file.
func (c *call) fallocate() bool {
	o, ok := c.file(0)
	mode := c.arg(1)
	offset, ok2 := c.number(2)
	n, ok3 := c.number(3)
	if !ok || !ok2 || !ok3 {
		return false
	}
	if o == nil {
		return true
	}
	if offset < 0 || n < 0 || offset > math.MaxInt64-n {
		c.emit(iotrace.Truncate, o.name, max(offset, 0), n) // reports the error
		return true
	}
	if hasFlag(mode, "FALLOC_FL_KEEP_SIZE") || hasFlag(mode, "FALLOC_FL_PUNCH_HOLE") {
		c.im.rep.Other("fallocate that keeps the length")
		return true
	}
	if o.node.size == iotrace.None {
		c.im.rep.Other("fallocate of a file whose length is not known")
		return true
	}
	size := max(o.node.size, offset+n) // with ZERO_RANGE and UNSHARE_RANGE too
	switch {
	case hasFlag(mode, "FALLOC_FL_COLLAPSE_RANGE"):
		size = max(o.node.size-n, 0)
	case hasFlag(mode, "FALLOC_FL_INSERT_RANGE"):
		size = o.node.size + min(n, math.MaxInt64-o.node.size)
	}
	if size == o.node.size {
		c.im.rep.Other("fallocate that keeps the length")
		return true
	}
	o.node.size = size
	c.emit(iotrace.Truncate, o.name, iotrace.None, size)
	return true
}
