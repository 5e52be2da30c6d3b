package strace

import (
	"bytes"
	"fmt"

	"ckpt/iotrace"
)

// moves lists the calls that move bytes of their first descriptor.
var moves = map[string]bool{
	"read": true, "readv": true, "pread64": true, "pread": true, "preadv": true, "preadv2": true,
	"write": true, "writev": true, "pwrite64": true, "pwrite": true, "pwritev": true, "pwritev2": true,
}

// passes lists the calls that move bytes from one descriptor to another.
var passes = map[string]bool{"sendfile": true, "sendfile64": true, "copy_file_range": true, "splice": true}

// transfer handles a read or write of the first descriptor at an offset, or at the
// position if there is no offset.
func (c *call) transfer(op iotrace.Op, offset []byte) bool {
	o, ok := c.dataFile(0)
	if o == nil {
		return ok
	}
	if c.overfull() {
		return true
	}
	at := int64(iotrace.None)
	if offset != nil {
		at, ok = integer(offset)
		// For preadv2 and pwritev2, -1 means the position. The other calls refuse it.
		if !ok || at < 0 && (at != -1 || c.name != "preadv2" && c.name != "pwritev2") {
			c.err = fmt.Errorf("invalid offset %.30s", offset)
			return true
		}
	}
	c.move(op, o, at)
	return true
}

// overfull refuses a call that returned more bytes than the program asked for. The
// lengths of readv and similar calls are not known.
func (c *call) overfull() bool {
	asked := -1
	switch c.name {
	case "read", "write", "pread64", "pwrite64", "pread", "pwrite":
		asked = 2
	case "sendfile", "sendfile64":
		asked = 3
	case "copy_file_range", "splice":
		asked = 4
	}
	n, ok := c.number(asked)
	if ok && c.value > n {
		c.err = fmt.Errorf("returned %d bytes, %d requested", c.value, n)
	}
	return c.err != nil
}

// move adds the event of a transfer of c.value bytes at an offset, or at the position
// if there is no offset, and moves the position.
func (c *call) move(op iotrace.Op, o *open, at int64) {
	n := c.value
	positioned := at == iotrace.None
	if positioned {
		at = o.offset
	}
	switch {
	case op != iotrace.Write:
	case c.appends(o): // Linux appends even if pwrite names an offset
		at = o.node.size
	case positioned && o.unseen && at != o.node.size: // either is possible
		at = iotrace.None
	}
	c.on(o, op, at, n)
	if c.err != nil {
		return
	}
	if c.unnoted {
		c.im.unnoted++
	}
	if c.timeless {
		c.im.unseen.of(noDurations, o.index-1, n)
	}
	if o.direct {
		c.im.unseen.of(directIO, o.index-1, n)
	}
	if op == iotrace.Write && c.syncs(o) {
		c.im.unseen.of(syncWrites, o.index-1, n)
		c.synced(o)
	}
	end := int64(iotrace.None)
	if at != iotrace.None {
		end = at + n
	}
	if positioned {
		o.offset = end
	}
	switch {
	case op != iotrace.Write || o.node.size == iotrace.None:
	case end == iotrace.None && n > 0: // the file may have become longer
		o.node.size = iotrace.None
	case end > o.node.size:
		o.node.size = end
	}
}

// appends reports whether a write goes to the end of the file. Flags of pwritev2 apply
// to a single write.
func (c *call) appends(o *open) bool {
	if c.name != "pwritev2" {
		return o.append
	}
	return (o.append || hasFlag(c.arg(4), "RWF_APPEND")) && !hasFlag(c.arg(4), "RWF_NOAPPEND")
}

// syncs reports whether a write ends only when its bytes are on the storage.
func (c *call) syncs(o *open) bool {
	return o.sync || c.name == "pwritev2" && (hasFlag(c.arg(4), "RWF_DSYNC") || hasFlag(c.arg(4), "RWF_SYNC"))
}

// synced adds a sync of no time behind a synchronous write, so that syncs are counted and
// a replay repeats them.
func (c *call) synced(o *open) {
	begin := c.start
	c.start = c.end
	c.on(o, iotrace.Sync, iotrace.None, 0)
	c.start = begin
}

// pass handles sendfile and similar calls: a read of one file and a write of another.
// The numbers are of the arguments, -1 without such an argument.
func (c *call) pass(in, inOffset, out, outOffset int) bool {
	if c.overfull() {
		return true
	}
	for _, side := range []struct {
		op         iotrace.Op
		fd, offset int
	}{{iotrace.Read, in, inOffset}, {iotrace.Write, out, outOffset}} {
		o, ok := c.dataFile(side.fd)
		if !ok {
			return false
		}
		if o == nil || side.op == iotrace.Write && c.value == 0 { // the end of the other side
			continue
		}
		at := int64(iotrace.None)
		if side.offset >= 0 && string(c.arg(side.offset)) != "NULL" {
			if at, ok = pointedOffset(c.arg(side.offset)); !ok {
				return false
			}
		}
		c.move(side.op, o, at)
	}
	return true
}

// pointedOffset reads [0] => [4096], the values before and after the call.
func pointedOffset(b []byte) (int64, bool) {
	if len(b) == 0 || b[0] != '[' {
		return 0, false
	}
	i := bytes.IndexByte(b, ']')
	if i < 0 {
		return 0, false
	}
	n, ok := iotrace.Int(bytes.TrimSpace(b[1:i]))
	return n, ok && n >= 0
}

func (c *call) seek() bool {
	o, ok := c.file(0)
	if o == nil {
		return ok
	}
	by, ok := c.number(1)
	c.seekTo(o, c.value, by, c.arg(2))
	return ok
}

// seekLarge handles _llseek of 32-bit systems, which returns the position in an
// argument.
func (c *call) seekLarge() bool {
	o, ok := c.file(0)
	if o == nil {
		return ok
	}
	by, ok := c.number(1)
	to, ok2 := pointedOffset(c.arg(2))
	if !ok || !ok2 {
		return false
	}
	c.seekTo(o, to, by, c.arg(3))
	return true
}

func (c *call) seekTo(o *open, to, by int64, whence []byte) {
	o.offset = to
	if !is(whence, "SEEK_CUR") || by != 0 {
		o.unseen = false // a descriptor that seeks does not append
	}
	if is(whence, "SEEK_END") {
		o.node.size = max(to-by, 0)
	}
	c.on(o, iotrace.Seek, to, 0)
}

// lockRange handles a call that may wait for a lock on a part of a file. ROMIO locks the
// block that it reads, changes and writes (data sieving), and its processes wait for
// each other. Calls that do not wait, and those that unlock, are no events.
func (c *call) lockRange() bool {
	kind := member(c.arg(2), "l_type")
	if kind == nil {
		return false
	}
	if is(kind, "F_UNLCK") {
		return true
	}
	o, ok := c.file(0)
	if o == nil {
		return ok
	}
	offset := int64(iotrace.None)
	if is(member(c.arg(2), "l_whence"), "SEEK_SET") {
		at, ok := integer(member(c.arg(2), "l_start"))
		if !ok {
			return false
		}
		if at >= 0 {
			offset = at
		}
	}
	c.on(o, iotrace.LockWait, offset, 0)
	return true
}

// flock handles a call that may wait for a lock on a whole file.
func (c *call) flock() bool {
	if hasFlag(c.arg(1), "LOCK_UN") || hasFlag(c.arg(1), "LOCK_NB") {
		return true
	}
	o, ok := c.file(0)
	if o == nil {
		return ok
	}
	c.on(o, iotrace.LockWait, 0, 0)
	return true
}

// ringSetup handles io_uring_setup. With IORING_SETUP_SQPOLL, the kernel takes requests
// from memory without a call.
func (c *call) ringSetup() bool {
	c.install(c.value, "io_uring", [][]byte{[]byte("O_CLOEXEC")})
	if hasFlag(c.arg(1), "IORING_SETUP_SQPOLL") {
		c.im.unseen.add(ringPolled, 1, 0)
	}
	return true
}

// ringEnter handles io_uring_enter, which returns the number of requests that it took
// from memory. strace does not show them.
func (c *call) ringEnter() bool {
	c.im.rep.Other("io_uring_enter")
	c.im.unseen.add(ringRequests, c.value, 0)
	return true
}

// openHandle handles open_by_handle_at, which names no path. -y does.
func (c *call) openHandle() bool {
	if c.note == nil || kindOfNote(c.note) != "" {
		c.install(c.value, unknownDescriptor, nil)
		return true
	}
	d := descriptor{open: &open{name: notePath(c.note)}, closeOnExec: hasFlag(c.arg(2), "O_CLOEXEC")}
	d.node = c.im.nodeOf(d.name)
	d.append = hasFlag(c.arg(2), "O_APPEND")
	c.task.fds.fds[c.value] = d
	c.emit(iotrace.Open, d.name, iotrace.None, 0)
	return true
}

// reflink handles FICLONE and FICLONERANGE: the file gets contents that no call moves.
func (c *call) reflink(whole bool) bool {
	to, ok := c.file(0)
	if to == nil {
		return ok
	}
	n := int64(iotrace.None)
	if whole {
		if from, ok := c.resolve(c.arg(2), false); ok && from != nil && from.node != nil {
			n = from.node.size
		}
		to.node.size = n
	} else {
		fields := members(c.arg(2))
		length, ok := integer(fields["src_length"])
		at, ok2 := integer(fields["dest_offset"])
		if ok && ok2 && length > 0 { // 0 means up to the end
			n = length
		}
		if to.node.size >= 0 && (n < 0 || at < 0 || at > maxFile-n) {
			to.node.size = iotrace.None
		} else if to.node.size >= 0 {
			to.node.size = max(to.node.size, at+n)
		}
	}
	c.im.unseen.add(reflinked, 1, max(n, 0))
	return true
}

// maxFile is the greatest offset in a file.
const maxFile = 1<<63 - 1

// readahead moves no bytes to the program.
func (c *call) readahead() bool {
	o, ok := c.file(0)
	if o != nil {
		c.im.rep.Other("readahead")
	}
	return ok
}
