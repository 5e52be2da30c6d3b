package strace

import "maps"

func (c *call) chdir() bool {
	name, ok := c.pathArg(nil, c.arg(0))
	c.task.cwd.path = name
	return ok
}

func (c *call) fchdir() bool {
	fd, note, ok := parseFD(c.arg(0))
	c.task.cwd.path = c.task.fds.fds[fd].pathNow()
	if note != nil {
		c.task.cwd.path = notePath(note)
	}
	return ok
}

func (c *call) getcwd() bool {
	s, whole, ok := parseString(c.arg(0))
	if ok && whole {
		c.task.cwd.path = s
	}
	return ok
}

func (c *call) exec() bool {
	file, ok := c.pathArg(nil, c.arg(0))
	c.im.job(c.arg(1))
	c.task.exec()
	c.im.executes(c.task.process, file, c.arg(2))
	c.script(file, c.arg(1))
	return ok
}

func (c *call) execAt() bool {
	file, ok := c.pathArg(c.arg(0), c.arg(1))
	c.im.job(c.arg(2))
	c.task.exec()
	c.im.executes(c.task.process, file, c.arg(3))
	c.script(file, c.arg(2))
	return ok
}

func (c *call) unshare() bool {
	if hasFlag(c.arg(0), "CLONE_FILES") {
		c.task.fds = &table{maps.Clone(c.task.fds.fds)}
	}
	if hasFlag(c.arg(0), "CLONE_FS") {
		w := *c.task.cwd
		c.task.cwd = &w
	}
	return true
}
