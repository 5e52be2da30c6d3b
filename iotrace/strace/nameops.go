package strace

import (
	"maps"
	"math"
	"slices"

	"ckpt/iotrace"
)

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
