package strace

import (
	"ckpt/iotrace"
)

// lockRange handles a call that may wait for a lock on a part of a file. ROMIO locks the
// block that it reads, changes and writes (data sieving), and its processes wait for
// each other. Calls that do not wait, and those that unlock, are no events.
func (c *call) lockRange() bool {
	kind := string(member(c.arg(2), "l_type"))
	if kind == "" {
		return false
	}
	if kind == "F_UNLCK" {
		return true
	}
	o, ok := c.file(0)
	if o == nil {
		return ok
	}
	offset := int64(iotrace.None)
	if string(member(c.arg(2), "l_whence")) == "SEEK_SET" {
		at, ok := iotrace.Int(member(c.arg(2), "l_start"))
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
