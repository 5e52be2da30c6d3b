package strace

import (
	"ckpt/iotrace"
)

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
func (c *call) reflink(request string) bool {
	to, ok := c.file(0)
	if to == nil {
		return ok
	}
	n := int64(iotrace.None)
	switch request {
	case "FICLONE":
		if from, ok := c.resolve(c.arg(2), false); ok && from != nil && from.node != nil {
			n = from.node.size
		}
		to.node.size = n
	default:
		fields := members(c.arg(2))
		length, ok := iotrace.Int(fields["src_length"])
		at, ok2 := iotrace.Int(fields["dest_offset"])
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
