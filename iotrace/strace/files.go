package strace

import (
	"bytes"
	"container/heap"
	"errors"
	"io"
	"os"

	"ckpt/iotrace"
)

// A TaskFile is the output of strace -ff for one process or thread.
type TaskFile struct {
	Name string
	PID  int64 // the number at the end of the name
}

// ReadTasks makes one trace of the files of strace -ff -o. Their lines have no
// process. It reads them as one text in the order of time, so that children inherit
// the right descriptors. Each file gets a report, and is open only from its first line
// to its last.
//
// Other lines may fall into the time of a call. Such a call is split into its
// beginning and its end, as by strace -f. So a number that open returns belongs to its
// file from the end of the call, even if the call began before the close that freed
// the number.
func ReadTasks(files []TaskFile, o iotrace.Options) (*iotrace.Trace, []*iotrace.Report, error) {
	im := newImporter(o)
	m := &taskMerge{im: im}
	reports := make([]*iotrace.Report, len(files))
	for i, f := range files {
		reports[i] = &iotrace.Report{Format: iotrace.FormatStrace}
		s := &taskText{TaskFile: f, rep: reports[i], order: i, merge: m}
		begins, err := s.peek()
		if err != nil {
			return nil, reports, iotrace.Named(err, f.Name)
		}
		if begins {
			m.Items = append(m.Items, s)
		}
	}
	if len(m.Items) == 0 {
		return nil, reports, iotrace.Named(iotrace.WrongFormat(nil, iotrace.FormatStrace), files[0].Name)
	}
	if err := m.pastMidnight(); err != nil {
		return nil, reports, err
	}
	if err := m.run(); err != nil {
		return nil, reports, err
	}
	if im.clock == noClock {
		return nil, reports, &iotrace.FormatError{Name: files[0].Name, Line: 1, Reason: "no line has a time: run strace with -ttt and -T", Err: iotrace.ErrNoTimes}
	}
	im.close(reports...)
	return im.t, reports, nil
}

// HasNumbers reports whether the beginning of a text has a line that names its
// process.
func HasNumbers(head []byte) bool {
	for l := range bytes.Lines(head) {
		if e := split(l); e.kind != unknownLine && e.pid != 0 {
			return true
		}
	}
	return false
}

// taskText is a file in progress, or waiting for its time.
type taskText struct {
	TaskFile
	rep   *iotrace.Report
	order int
	merge *taskMerge

	file  *os.File // nil before its first line
	in    *iotrace.Lines
	line  []byte // the next line
	entry entry
	at    int64  // its time, or the time of the line before
	due   int64  // the same, or the end of the call that has begun
	begun bool   // the rest of the line is the end of the call
	seen  course // of the earlier lines
	err   error  // set if there is no next line
}

// peek finds the start of the text. It returns false for an empty file.
func (s *taskText) peek() (bool, error) {
	if err := s.open(nil); err != nil {
		return false, err
	}
	defer s.close() // read-only
	if len(s.in.Head()) == 0 {
		return false, nil
	}
	if f := iotrace.Detect(s.in.Head()); f != iotrace.FormatStrace {
		return false, iotrace.WrongFormat(s.in.Head(), iotrace.FormatStrace)
	}
	s.next()
	return true, nil
}

func (s *taskText) open(tell func(int)) (err error) {
	if s.file, err = os.Open(s.Name); err != nil {
		return err
	}
	s.in = iotrace.NewLines(telling{s.file, tell})
	return nil
}

type telling struct {
	r    io.Reader
	tell func(int)
}

func (t telling) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if t.tell != nil {
		t.tell(n)
	}
	return n, err
}

// next reads the next line. A line without a time follows right behind the line before
// it.
func (s *taskText) next() {
	s.line, s.err = s.in.Next()
	if s.err == nil && !s.in.Whole() {
		s.err = s.in.Truncated("the last line has no end")
	}
	if s.err != nil {
		return
	}
	s.entry = split(s.line)
	s.entry.pid = s.PID
	if s.entry.clock != noClock {
		seen := s.seen // the merge sees the line when its time comes
		s.at = seen.time(&s.entry)
	}
	s.due = s.at
}

// lasts returns the end of a call. To other tasks, a call that frees numbers or
// creates tasks has done so when it begins.
func (s *taskText) lasts() int64 {
	if s.entry.kind != callLine {
		return s.at
	}
	switch name := string(s.entry.name); {
	case name == "close", name == "close_range", family(name):
		return s.at
	}
	if ns, _ := duration(s.entry.text); ns > 0 {
		return s.at + ns
	}
	return s.at
}

// taskMerge is a heap of texts, ordered by the time of their next line.
type taskMerge struct {
	iotrace.Heaped[*taskText]
	im    *importer
	bytes int64
}

func (m *taskMerge) run() error {
	heap.Init(m)
	for len(m.Items) > 0 {
		s := m.Items[0]
		if s.file == nil {
			if err := s.open(m.tell); err != nil {
				return err
			}
			s.next() // the line that peek read
		}
		m.im.in, m.im.rep, m.im.seen = s.in, s.rep, &s.seen
		err := s.err
		if err == nil {
			err = m.take(s)
		}
		s.rep.Lines = s.in.Number()
		if err == nil {
			if !s.begun {
				s.next()
			}
			heap.Fix(m, 0)
			continue
		}
		heap.Pop(m)
		if closing := s.file.Close(); err == io.EOF {
			err = closing
		}
		if err = iotrace.Named(err, s.Name); err == nil {
			continue
		}
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !m.im.o.Lenient {
			for _, other := range m.Items {
				if other.file != nil {
					_ = other.file.Close() // read-only
				}
			}
			return err
		}
		s.rep.Cut = err
	}
	return m.im.atEnd()
}

// take handles the line of the first text: the whole call or, if other lines come
// before its end, first the beginning and later the end.
func (m *taskMerge) take(s *taskText) error {
	m.im.lineNumber = s.in.Number()
	if s.begun {
		s.begun = false
		return m.im.give(&entry{kind: resumedLine, pid: s.PID, name: s.entry.name}, noTime)
	}
	e := s.entry
	if end := s.lasts(); end > s.at && m.before(end) {
		e.kind, s.due, s.begun = unfinishedLine, end, true
	}
	return m.im.entry(&e, s.line)
}

// before reports whether any other text has a line at or before a time.
func (m *taskMerge) before(at int64) bool {
	for _, s := range m.Items[1:min(len(m.Items), 3)] { // the children in the heap
		if s.due <= at {
			return true
		}
	}
	return false
}

func (m *taskMerge) tell(n int) {
	if m.bytes += int64(n); m.im.o.Progress != nil {
		m.im.o.Progress(m.bytes)
	}
}

func (m *taskMerge) Less(i, j int) bool {
	a, b := m.Items[i], m.Items[j]
	switch {
	case a.due != b.due:
		return a.due < b.due
	case a.begun != b.begun: // opened files can be used from here on
		return a.begun
	case (a.file != nil) != (b.file != nil): // a child begins after its parent created it
		return a.file != nil
	}
	return a.order < b.order
}

type birth struct {
	parent *taskText
	at     int64 // since the midnight before the parent's text begins
}

// pastMidnight finds the day on which each text without dates begins, by reading the
// texts once more. A child begins when its parent creates it. Texts without a parent
// are of one day; such a text is past midnight if another begins more than half a day
// later and its own times do not run past midnight before that.
func (m *taskMerge) pastMidnight() error {
	dated := true
	for _, s := range m.Items {
		dated = dated && s.entry.clock != dayClock
	}
	if dated {
		return nil
	}
	births := make(map[int64]birth)
	ends := make(map[*taskText]int64)
	for _, s := range m.Items {
		end, err := s.survey(births)
		if err != nil {
			return err
		}
		ends[s] = end
	}
	last := int64(0)
	for _, s := range m.Items {
		if _, made := births[s.PID]; !made {
			last = max(last, s.at)
		}
	}
	for _, s := range m.Items {
		if _, made := births[s.PID]; !made && last-s.at > dayLength/2 && ends[s] < last {
			s.seen.day++
		}
	}
	known := make(map[*taskText]bool)
	var find func(*taskText)
	find = func(s *taskText) {
		b, made := births[s.PID]
		if known[s] || !made {
			return
		}
		known[s] = true // also if a reused number makes it its own ancestor
		find(b.parent)
		born := b.at + b.parent.seen.day*dayLength
		s.seen.day = max(0, (born-s.at+dayLength/2)/dayLength)
	}
	for _, s := range m.Items {
		find(s)
	}
	for _, s := range m.Items {
		s.at += s.seen.day * dayLength
		s.due = s.at
	}
	return nil
}

// survey collects the children in a text, and returns the time at its end. Errors are
// left to the reading proper.
func (s *taskText) survey(births map[int64]birth) (int64, error) {
	if err := s.open(nil); err != nil {
		return 0, err
	}
	var seen course
	for {
		l, err := s.in.Next()
		if err != nil {
			break
		}
		e := split(l)
		if e.clock != dayClock {
			continue
		}
		at := seen.time(&e)
		if e.kind != callLine && e.kind != resumedLine || !family(string(e.name)) {
			continue
		}
		if _, after, ok := splitArgs(nil, e.text); ok {
			if r, ok := parseResult(after); ok && r.value > 0 && r.value != s.PID {
				births[r.value] = birth{s, at}
			}
		}
	}
	return seen.last, s.close()
}

// close releases the memory and the file of a text that is read again later. There may
// be many texts.
func (s *taskText) close() error {
	err := s.file.Close()
	s.file, s.in, s.line = nil, nil, nil
	s.entry = entry{clock: s.entry.clock} // the parts share the line's memory
	return err
}
