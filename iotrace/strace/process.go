package strace

import (
	"bytes"
	"maps"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// A task is a thread, of a process that may have but this one.
type task struct {
	pid     int64 // 0 as long as it is not known
	process *process
	fds     *table   // shared by threads
	cwd     *workdir // likewise
	pending *pending // the call that it is in
}

// A process is what makes a rank.
type process struct {
	pid  int64
	rank int32 // iotrace.None as long as there is no event of it
}

// A workdir is the working directory of tasks, empty if it is not known.
type workdir struct{ path string }

// A table holds the descriptors of tasks.
type table struct{ fds map[int64]descriptor }

func newTable() *table { return &table{make(map[int64]descriptor)} }

func (t *table) closeOnExec(fd int64, yes bool) {
	if d, ok := t.fds[fd]; ok {
		d.closeOnExec = yes
		t.fds[fd] = d
	}
}

// A descriptor is a number for something open.
type descriptor struct {
	*open
	closeOnExec bool
}

// An open is an open file description: what open made, and dup and fork share.
type open struct {
	kind   string // of what is no file; empty if it is one
	name   string // path at the time
	node   *node
	offset int64 // position; iotrace.None if it is not known
	append bool
	unseen bool  // it was opened before the trace began, perhaps to append
	index  int32 // of the name among the files of the trace, plus one; 0 if it has none yet
}

// pending is a call whose end is on another line.
type pending struct {
	*kind
	args  []byte
	start int64
	line  int64
	first descriptor // of the first argument, as it was when the call began
	begun bool       // that is so; else the call is on one line
	child *task      // of a fork, as its child will be
}

// fork makes the task that a call of the fork family begins.
func (t *task) fork(flags []byte) *task {
	c := &task{process: t.process, fds: t.fds, cwd: t.cwd}
	if !hasFlag(flags, "CLONE_THREAD") {
		c.process = &process{rank: iotrace.None}
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

// exec closes what a new program does not inherit.
func (t *task) exec() {
	// Exec also ends the sharing with other processes.
	t.fds = &table{maps.Clone(t.fds.fds)}
	maps.DeleteFunc(t.fds.fds, func(_ int64, d descriptor) bool { return d.closeOnExec })
}

// family are the calls that make tasks.
func family(name string) bool {
	switch name {
	case "fork", "vfork", "clone", "clone2", "clone3":
		return true
	}
	return false
}

// cloneFlags finds the flags in the arguments, or in the beginning of them. Fork
// and vfork have none, and need none.
func cloneFlags(args []byte) []byte {
	i := bytes.Index(args, []byte("flags="))
	if i < 0 {
		return nil
	}
	args = args[i+len("flags="):]
	if i := bytes.IndexAny(args, ", }"); i >= 0 {
		args = args[:i]
	}
	return args
}

// pidfd finds the descriptor that clone returns with CLONE_PIDFD, in the place of
// the parent's copy of the number.
func pidfd(args []byte) (fd int64, ok bool) {
	if !hasFlag(cloneFlags(args), "CLONE_PIDFD") {
		return 0, false
	}
	for _, name := range []string{"pidfd=[", "parent_tid=["} {
		if _, after, ok := bytes.Cut(args, []byte(name)); ok {
			if i := bytes.IndexAny(after, "<]"); i >= 0 {
				return line.Int(after[:i])
			}
		}
	}
	return 0, false
}

// taskOf finds the task that a line is of, or nil if that cannot be told yet.
//
// With strace -f -o every line has the number of its task. Without -o it has one
// only while there are several; so the first task may at first not be known by
// its number, and lines without number are of the one that is left.
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
		// Is it the first task, or a child of it? While a call is pending, only
		// the rest of the call can be of the caller.
		if t.pending == nil || e.kind == resumedLine && t.pending.name == string(e.name) {
			im.number(t, e.pid)
			return t
		}
	}
	if len(im.held[e.pid]) > 0 {
		return nil // in order, behind those that wait
	}
	// A child may be seen before the call that made it has returned.
	var parent *task
	for _, t := range im.tasks {
		if t.pending == nil || t.pending.child == nil || t.pending.child.pid != 0 {
			continue // none makes two at once
		}
		if parent != nil {
			return nil // which of them, will be seen when the call returns
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

// newTask makes a task of which there is nothing known.
func (im *importer) newTask(pid int64) *task {
	t := &task{process: &process{pid: pid, rank: iotrace.None}, fds: newTable(), cwd: &workdir{}}
	im.number(t, pid)
	return t
}

// number lets a task be known by its number.
func (im *importer) number(t *task, pid int64) {
	if im.tasks[t.pid] == t {
		delete(im.tasks, t.pid)
	}
	t.pid = pid
	im.tasks[pid] = t
	delete(im.attached, pid)
	if t.process.pid == 0 {
		t.process.pid = pid
		if t.process.rank != iotrace.None {
			im.tables.Rename(t.process.rank, iotrace.Rank{Rank: int(pid)})
		}
	}
}

// forked says that a call of the fork family returned: its child is known.
func (im *importer) forked(parent, child *task, pid int64, flags []byte) error {
	if im.tasks[pid] == child {
		return nil
	}
	if child.pid != 0 {
		// What was taken for its child is another's, or was there before strace was
		// attached. Lines of the wrong one are not many: they came before this.
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

// A heldLine waits until it is known whose child its task is.
type heldLine struct {
	entry
	line int64
	at   int64 // since the origin
}

// maxHeld bounds the lines that wait.
const maxHeld = 100_000

// hold keeps a line whose task is not known yet.
func (im *importer) hold(e *entry, at int64) error {
	if im.holding >= maxHeld {
		return im.in.Errorf("process %d was begun by none that is known", e.pid)
	}
	im.holding++
	h := heldLine{*e, im.in.Number(), at}
	h.name, h.text = bytes.Clone(e.name), bytes.Clone(e.text)
	im.held[e.pid] = append(im.held[e.pid], h)
	return nil
}

// ended takes a task away.
func (im *importer) ended(t *task) {
	im.lost(t)
	delete(im.tasks, t.pid)
	if im.first == t {
		im.first = nil
	}
}

// lost counts a call whose end will not come, unless it is one that has none.
func (im *importer) lost(t *task) {
	if t.pending != nil && t.pending.name != "exit" && t.pending.name != "exit_group" {
		im.rep.Other("call that did not return")
	}
	t.pending = nil
}

// superseded: a thread has called exec, and goes on under the number of its
// process.
func (im *importer) superseded(t *task, by []byte) {
	n, ok := line.Int(by)
	o := im.tasks[n]
	if !ok || o == nil {
		return
	}
	delete(im.tasks, n)
	o.pid = t.pid
	im.tasks[t.pid] = o
}
