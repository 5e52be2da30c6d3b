package strace

import (
	"ckpt/iotrace"
)

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
		if size, ok := iotrace.Int(member(info, m)); ok && size >= 0 {
			n.size = size
		}
	}
}
