package strace

import (
	"bytes"
	"maps"

	"ckpt/iotrace"
)

// A task is a thread; a process may have only one.
type task struct {
	pid     int64 // 0 while unknown
	process *process
	fds     *table   // shared by threads
	cwd     *workdir // likewise
	memory  *memory  // likewise
	pending *pending // the call that has not returned
}

// A workdir is the working directory of tasks, or empty if unknown.
type workdir struct{ path string }

type table struct{ fds map[int64]descriptor }

func newTable() *table { return &table{make(map[int64]descriptor)} }

func (t *table) closeOnExec(fd int64, yes bool) {
	if d, ok := t.fds[fd]; ok {
		d.closeOnExec = yes
		t.fds[fd] = d
	}
}

// A descriptor is a number with the open file description behind it.
type descriptor struct {
	*open
	closeOnExec bool
}

// An open is an open file description: open makes it, dup and fork share it.
type open struct {
	kind   string // if it is not a file; empty for files
	name   string // path at the time
	node   *node
	offset int64 // position; iotrace.None if it is not known
	append bool
	sync   bool     // each write waits for the storage
	direct bool     // around the page cache
	by     *process // that opened it; nil if that was not seen
	unseen bool     // it was opened before the trace began, perhaps to append
	noted  bool     // its open was not seen: the name is the one of -y at each call
	index  int32    // of the name among the files of the trace, plus one; 0 at first
}

// pending is a call that ends on another line.
type pending struct {
	*kind
	args  []byte
	start int64
	line  int64
	first descriptor // the first argument, as it was when the call began
	begun bool       // first is set; else the call is on one line
	child *task      // the task that a fork creates
}

// fork creates the task for a call of the fork family.
func (t *task) fork(flags []byte) *task {
	c := &task{process: t.process, fds: t.fds, cwd: t.cwd, memory: t.memory}
	if !hasFlag(flags, "CLONE_THREAD") {
		c.process = t.process.fork()
	}
	if !hasFlag(flags, "CLONE_VM") {
		c.memory = t.memory.fork()
	}
	if !hasFlag(flags, "CLONE_FILES") {
		c.fds = &table{maps.Clone(t.fds.fds)}
	}
	if !hasFlag(flags, "CLONE_FS") {
		w := *t.cwd
		c.cwd = &w
	}
	return c
}

// exec closes the descriptors that a new program does not inherit.
func (t *task) exec() {
	// Exec also ends the sharing with other processes.
	t.fds = &table{maps.Clone(t.fds.fds)}
	t.memory = newMemory()
	maps.DeleteFunc(t.fds.fds, func(_ int64, d descriptor) bool { return d.closeOnExec })
}

// family lists the calls that create tasks.
func family(name string) bool {
	switch name {
	case "fork", "vfork", "clone", "clone2", "clone3":
		return true
	}
	return false
}

// cloneFlags finds the flags in the arguments, or in their beginning. Fork and vfork
// have no flags.
func cloneFlags(args []byte) []byte {
	i := bytes.Index(args, []byte("flags="))
	if i < 0 {
		if bytes.HasPrefix(args, []byte("0x")) { // -e raw
			return args[:max(0, bytes.IndexAny(args, ",)"))]
		}
		return nil
	}
	args = args[i+len("flags="):]
	if i := bytes.IndexAny(args, ", }"); i >= 0 {
		args = args[:i]
	}
	return args
}

// pidfd finds the descriptor that clone with CLONE_PIDFD returns in the parent's
// memory.
func pidfd(args []byte) (fd int64, ok bool) {
	if !hasFlag(cloneFlags(args), "CLONE_PIDFD") {
		return 0, false
	}
	for _, name := range []string{"pidfd=[", "parent_tid=["} {
		if _, after, ok := bytes.Cut(args, []byte(name)); ok {
			if i := bytes.IndexAny(after, "<]"); i >= 0 {
				return iotrace.Int(after[:i])
			}
		}
	}
	return 0, false
}

// taskOf finds the task of a line, or nil if the line does not tell yet.
//
// With strace -f -o every line has the number of its task. Without -o, lines have
// numbers only while there are several tasks. So the number of the first task may be
// unknown at first, and lines without a number belong to the task that is left.
func (im *importer) taskOf(e *entry) *task {
	if e.pid == 0 {
		if len(im.tasks) == 1 {
			for _, t := range im.tasks {
				return t
			}
		}
		if im.first == nil {
			im.first = im.newTask(0)
		}
		return im.first
	}
	if t := im.tasks[e.pid]; t != nil {
		return t
	}
	if t := im.first; t != nil && t.pid == 0 && !im.attached[e.pid] {
		// The line may be of the first task or of its child. While a call is pending,
		// the caller has only one possible line: the rest of the call.
		if t.pending == nil || e.kind == resumedLine && t.pending.name == string(e.name) {
			im.number(t, e.pid)
			return t
		}
	}
	if len(im.held[e.pid]) > 0 {
		return nil // keep the order behind the lines that wait
	}
	// A child's lines may come before the call that created it has returned.
	var parent *task
	for _, t := range im.tasks {
		if t.pending == nil || t.pending.child == nil || t.pending.child.pid != 0 {
			continue // no task creates two at once
		}
		if parent != nil {
			return nil // the return of the call tells which one
		}
		parent = t
	}
	if parent != nil {
		c := parent.pending.child
		im.number(c, e.pid)
		return c
	}
	return im.newTask(e.pid)
}

// newTask creates a task without any known properties.
func (im *importer) newTask(pid int64) *task {
	t := &task{process: newProcess(pid), fds: newTable(), cwd: &workdir{}, memory: newMemory()}
	if !im.begun {
		im.begun, t.cwd.path = true, im.o.Directory
	}
	im.number(t, pid)
	return t
}

func (im *importer) number(t *task, pid int64) {
	if im.tasks[t.pid] == t {
		delete(im.tasks, t.pid)
	}
	t.pid = pid
	im.tasks[pid] = t
	delete(im.attached, pid)
	if t.process.pid == 0 {
		t.process.pid = pid
	}
}

// forked handles the return of a fork call, which names the child.
func (im *importer) forked(parent, child *task, pid int64, flags []byte) error {
	if im.tasks[pid] == child {
		return nil
	}
	if child.pid != 0 {
		// The presumed child belongs to another parent, or ran before strace was
		// attached. Few lines are affected: only those before this one.
		child = parent.fork(flags)
	}
	im.number(child, pid)
	held := im.held[pid]
	delete(im.held, pid)
	im.holding -= len(held)
	for _, h := range held {
		if err := im.take(child, &h.entry, h.line, h.at); err != nil {
			return err
		}
	}
	return nil
}

// A heldLine waits until the parent of its task is known.
type heldLine struct {
	entry
	line int64
	at   int64 // since the origin
}

// maxHeld bounds the number of waiting lines.
const maxHeld = 100_000

// hold keeps a line of an unknown task.
func (im *importer) hold(e *entry, at int64) error {
	if im.holding >= maxHeld {
		return im.in.Errorf("process %d has no known parent", e.pid)
	}
	im.holding++
	h := heldLine{*e, im.in.Number(), at}
	h.name, h.text = bytes.Clone(e.name), bytes.Clone(e.text)
	im.held[e.pid] = append(im.held[e.pid], h)
	return nil
}

func (im *importer) ended(t *task) {
	im.lost(t)
	delete(im.tasks, t.pid)
	if im.first == t {
		im.first = nil
	}
}

// lost counts a call that will not return, unless such calls never return.
func (im *importer) lost(t *task) {
	if p := t.pending; p != nil && p.name != "exit" && p.name != "exit_group" {
		im.rep.Other("call that did not return")
		if p.first.open != nil && p.first.kind == "" && moves[p.name] {
			im.unseen.add(unfinished, 1, 0)
		}
	}
	t.pending = nil
}

// superseded handles a thread that called exec. It continues under the number of its
// process.
func (im *importer) superseded(t *task, by []byte) {
	n, ok := iotrace.Int(by)
	o := im.tasks[n]
	if !ok || o == nil {
		return
	}
	delete(im.tasks, n)
	o.pid = t.pid
	im.tasks[t.pid] = o
}

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

func (c *call) exec() bool   { return c.execute(nil, 0) }
func (c *call) execAt() bool { return c.execute(c.arg(0), 1) }

// execute handles a program whose path is the argument at; its own arguments and its
// environment follow.
func (c *call) execute(dir []byte, at int) bool {
	file, ok := c.pathArg(dir, c.arg(at))
	c.im.job(c.arg(at + 1))
	c.task.exec()
	c.im.executes(c.task.process, file, c.arg(at+2))
	c.script(file, c.arg(at+1))
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
