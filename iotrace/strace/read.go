// Package strace converts the output of strace into a trace:
//
//	strace -f -ttt -T -y -o out.txt PROGRAM
//	t, report, err := strace.Read(r, iotrace.Options{})
//
// The relevant options: -f follows children and threads; -tt or -ttt gives the time,
// which is required; -T gives the duration of calls; -y gives the paths of
// descriptors, without which those opened before are unknown; -o separates the text
// from the program's output. Any of -y, -yy, -x, -s and -P is optional.
//
// With -ttt the trace counts from its first line, and its origin is the time of that
// line. With -tt there is no date, and the trace counts from the midnight before its
// first line, so that several traces of one day fit together.
//
// # What becomes an event
//
// Successful calls on files: open, read, write, seek, stat, truncate, sync, rename,
// unlink, close, mmap and msync in all their forms. sendfile, copy_file_range and splice
// are a read and a write. Directories count as files. Bytes are those that the call
// returned. fallocate is a truncate if the length of the file is known and changes.
// The report counts calls that fail, and calls on other things than files (sockets,
// pipes, terminals, devices …), each kind separately.
//
// A request of asynchronous I/O lasts from io_submit to the end of the io_getevents that
// returns it. Results with the number that a program gives to all its requests, as fio
// does, belong to the oldest requests of their length.
//
// Warnings of the trace tell what moves bytes, or makes files, without an event: requests
// of io_uring, mappings of files, reflinks, unknown descriptors, lists that strace cuts,
// lines that are not understood, calls that do not return.
//
// # Ranks
//
// A process whose environment names a rank in MPI (OMPI_COMM_WORLD_RANK, PMIX_RANK,
// PMI_RANK; SLURM_PROCID with SLURM_STEP_ID) has that rank, and so have its threads and
// children. Other values of the environment are not kept. If any process has such a rank,
// those without one have iotrace.None, and the name of their program as node. Otherwise a
// rank is a process with all its threads, and its number is the process id; launchers of
// MPI jobs and their proxies are no ranks either. A text whose lines name no process, as strace
// writes it without -f, is of one process, whose rank is 0. ReadTasks merges texts of
// strace -ff in the order of time.
//
// # How files are identified
//
// The path is from open, made absolute if the working directory is known, or from
// -y. A descriptor refers to an open file description: dup, fork and threads share it
// and its position, and exec closes those marked for it.
//
// The offset of a read or write is its argument or the position, which moves with
// reads, writes and seeks. With O_APPEND it is the length of the file, if that is
// known from creation or truncation by the program, or from a stat, seek or truncate;
// otherwise there is no offset. A descriptor opened before the trace may append, as in
// command >> log. So until the program seeks, a write to it has an offset only if
// position and length are known and equal.
//
// # Promises
//
//   - The report counts lines that cannot be understood, which are errors with
//     Options.Strict, and calls of other kinds.
//   - Lines that strace interrupted ("<unfinished ...>") are joined.
//   - A clock that runs backwards, except for midnight with -tt, is an error. So are
//     a truncated last line and an impossible offset. With Options.Lenient they are
//     noted, and the usable part is returned.
//   - Errors are *iotrace.FormatError values with the line. Memory is bounded by the
//     processes, descriptors and paths of the program, besides the events.
package strace

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"ckpt/iotrace"
)

// Read converts the output of strace into a trace.
func Read(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	im := newImporter(o)
	im.in, im.seen = iotrace.NewLines(r), &course{}
	if f := iotrace.Detect(im.in.Head()); f != iotrace.FormatStrace {
		return nil, im.rep, iotrace.WrongFormat(im.in.Head(), iotrace.FormatStrace)
	}
	err := im.run()
	im.rep.Lines = im.in.Number()
	if err == nil && im.clock == noClock {
		return nil, im.rep, im.noTimes("no line has a time: run strace with -ttt and -T")
	}
	var fe *iotrace.FormatError
	if errors.As(err, &fe) && o.Lenient && fe.Err != iotrace.ErrNoTimes {
		im.rep.Cut, err = err, im.atEnd()
	}
	if err != nil {
		return nil, im.rep, err
	}
	im.close(im.rep)
	im.rep.Unnumbered = !im.numbered && !im.mpi
	return im.t, im.rep, nil
}

func newImporter(o iotrace.Options) *importer {
	t := &iotrace.Trace{Source: "strace", Events: make([]iotrace.Event, 0, o.Events)}
	return &importer{
		o:        o,
		rep:      &iotrace.Report{},
		t:        t,
		tables:   iotrace.NewTables(t),
		tasks:    make(map[int64]*task),
		attached: make(map[int64]bool),
		held:     make(map[int64][]heldLine),
		names:    newNames(),
		kinds:    make(map[string]*kind),
		programs: make(map[string]bool),
		unseen:   make(unseen),
		since:    math.MaxInt64,
	}
}

type importer struct {
	in  *iotrace.Lines
	o   iotrace.Options
	rep *iotrace.Report
	t   *iotrace.Trace

	tables     *iotrace.Tables
	identities []identity // of processes, in the order of their first events
	jobs       int        // of MPI, that launchers began
	unseen     unseen
	tasks      map[int64]*task
	begun      bool  // there was a task
	mpi        bool  // some process has a rank in MPI
	numbered   bool  // some line has the number of its process
	first      *task // the task of lines without a number, or nil
	attached   map[int64]bool
	held       map[int64][]heldLine
	holding    int

	names
	kinds map[string]*kind // by the name of the call
	// Memories in which requests of asynchronous I/O began.
	asynchronous []*memory
	programs     map[string]bool // that were executed

	since, until int64 // times of the first line and of the last, or of the last end of a call

	clock clock
	base  int64   // the first time, or the midnight before it if there is no date
	seen  *course // of the current text

	unnoted    int64  // reads and writes on descriptors without a note of -y
	reused     bool   // an open returned a number that was not closed
	timed      bool   // some call has a duration
	summary    bool   // the table of -C has begun
	broken     []byte // an interrupted line, see mend
	lineNumber int64  // of the current line, which may have waited
	call       call
	whole      pending // a call on one line
}

type kind struct {
	name   string
	do     func(*call) bool // nil if it becomes no event
	family bool
}

func (im *importer) run() error {
	for {
		l, err := im.in.Next()
		if err == io.EOF {
			break
		}
		if err == nil && !im.in.Whole() {
			err = im.in.Truncated("the last line has no end")
		}
		if err == nil {
			err = im.line(l)
		}
		if err != nil {
			return err
		}
	}
	if im.broken != nil {
		return im.in.Truncated("the rest of the line is not there")
	}
	return im.atEnd()
}

// atEnd handles the waiting lines, and counts calls that did not return.
func (im *importer) atEnd() error {
	// Their parents did not return before the end. They may be parents themselves.
	// others.
	for _, pid := range im.heldPIDs() {
		held, ok := im.held[pid]
		if !ok {
			continue
		}
		delete(im.held, pid)
		t := im.newTask(pid)
		for _, h := range held {
			if err := im.take(t, &h.entry, h.line, h.at); err != nil {
				return err
			}
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(im.tasks)) {
		t := im.tasks[pid]
		im.lost(t)
	}
	return im.unreaped()
}

// heldPIDs returns the tasks with waiting lines, in the order of their first lines.
func (im *importer) heldPIDs() []int64 {
	return slices.SortedFunc(maps.Keys(im.held), func(a, b int64) int {
		x, y := im.held[a][0], im.held[b][0]
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.line, y.line), cmp.Compare(a, b))
	})
}

func (im *importer) take(t *task, e *entry, number, at int64) error {
	im.lineNumber = number
	switch e.kind {
	case exitLine:
		im.ended(t)
	case supersededLine:
		im.superseded(t, e.name)
	case unfinishedLine:
		im.begin(t, e, at)
	case resumedLine:
		p := t.pending
		t.pending = nil
		if p == nil || p.name != string(e.name) {
			return im.unknown(e.text, "the rest of a call whose beginning is not there")
		}
		// An argument may have been cut in front of its blank.
		return im.finish(t, p, append(p.args, e.text...), at)
	case callLine:
		im.lost(t)
		im.whole = pending{kind: im.kind(e.name), start: at, line: number}
		return im.finish(t, &im.whole, e.text, noTime)
	}
	return nil
}

const noTime = -1 << 62

// kind returns the properties of a call.
func (im *importer) kind(name []byte) *kind {
	k := im.kinds[string(name)]
	if k == nil {
		k = &kind{name: string(name)}
		k.do, k.family = handlers[k.name], family(k.name)
		im.kinds[k.name] = k
	}
	return k
}

// begin stores the beginning of a call and the descriptor that it uses.
func (im *importer) begin(t *task, e *entry, at int64) {
	p := &pending{kind: im.kind(e.name), args: bytes.Clone(e.text), start: at, line: im.lineNumber}
	t.pending = p
	if p.family {
		p.child = t.fork(cloneFlags(p.args))
		return
	}
	// The descriptor may change before the call ends: its number is free again as soon
	// as close begins.
	fd, _, ok := parseFD(firstWord(p.args))
	if !ok {
		return
	}
	p.first, p.begun = t.fds.fds[fd], true
	if p.name == "close" {
		delete(t.fds.fds, fd)
	}
}

// finish handles a whole call. The time is from the line on which it ended, if that
// is another line.
func (im *importer) finish(t *task, p *pending, text []byte, at int64) error {
	im.lineNumber = p.line
	im.rep.Calls++
	c := &im.call
	*c = call{im: im, task: t, name: p.name, args: c.args[:0], first: p.first, begun: p.begun, start: p.start, end: p.start}
	if p.family && p.child == nil {
		p.child = t.fork(cloneFlags(text))
	}
	if p.do == nil && !p.family {
		im.rep.Other(others(p.name))
		return nil
	}
	args, after, ok := splitArgs(c.args, text)
	if !ok {
		return im.unknown(text, "the arguments of the call have no end")
	}
	c.args = args
	r, ok := parseResult(after)
	if !ok {
		return im.unknown(text, "the call has no result")
	}
	c.result = r
	if r.odd {
		return im.unknown(text, "the call took a time that cannot be")
	}
	switch {
	case r.seconds >= 0:
		c.end = c.start + r.seconds
	case at != noTime:
		c.end = max(at, c.start)
	default:
		im.rep.Other("call without a duration (strace -T gives it)")
		c.timeless = true
	}
	im.timed = im.timed || r.seconds >= 0
	im.until = max(im.until, c.end)
	if p.family {
		if r.failed || r.value == 0 {
			return nil
		}
		if fd, ok := pidfd(text); ok {
			c.install(fd, "pidfd", [][]byte{[]byte("O_CLOEXEC")})
		}
		if p.name == "clone3" && bytes.HasPrefix(text, []byte("0x")) {
			im.unseen.add(rawCalls, 1, 0) // whether it shares descriptors is not known
		}
		return im.forked(t, p.child, r.value, cloneFlags(text))
	}
	if r.failed {
		im.rep.Failed++
		c.refused()
		return nil
	}
	if !p.do(c) {
		c.unprinted()
		return im.unknown(text, "the arguments of "+p.name+" are not understood")
	}
	if c.err != nil && im.o.Lenient {
		return im.unknown(text, c.err.Error())
	}
	if c.err != nil {
		e := im.in.Errorf("%s: %v", p.name, c.err)
		e.Line = p.line
		return e
	}
	return nil
}

// unprinted counts a call of which strace does not show the names, but addresses (-e raw,
// -e verbose=none) or their beginnings.
func (c *call) unprinted() {
	var g gap
	for _, a := range c.args {
		switch {
		case bytes.HasPrefix(a, []byte("0x")):
			g = rawCalls
		case bytes.HasSuffix(a, []byte("...")):
			g = cutNames
		}
	}
	switch {
	case g == "":
	case moves[c.name], passes[c.name]:
		c.im.unseen.add(g, 1, c.value)
	default:
		c.im.unseen.add(g, 1, 0)
	}
}

func (im *importer) unknown(l []byte, reason string) error {
	if im.o.Strict {
		e := im.in.Errorf("%s", reason)
		e.Line = im.lineNumber
		return e
	}
	im.rep.Note(im.lineNumber, string(bytes.TrimSpace(l)), reason)
	return nil
}

// others returns the name for a call that becomes no event in the report: its own name
// if it may do I/O on files that is not followed.
func others(name string) string {
	switch name {
	case "io_uring_enter", "io_uring_setup", "vmsplice", "tee", "msync":
		return name
	}
	return "other call"
}

// job notes the command of the first program.
func (im *importer) job(argv []byte) {
	const longest = 200
	var words []string
	args, _, ok := splitArgs(nil, append(bytes.Clone(bytes.Trim(argv, "[]")), ')'))
	if !ok || im.t.Job != "" {
		return
	}
	for _, a := range args {
		if s, _, ok := parseString(a); ok {
			words = append(words, s)
		}
	}
	s := strings.Join(words, " ")
	im.t.Job = s[:min(len(s), longest)]
}
