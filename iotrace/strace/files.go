package strace

import (
	"bytes"
	"container/heap"
	"errors"
	"io"
	"os"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// A TaskFile is what strace -ff wrote of one process or thread.
type TaskFile struct {
	Name string
	PID  int64 // by which the name ends
}

// ReadTasks makes one trace of the files of strace -ff -o, which have no process
// on their lines: they are read as one text in the order of time, so that what
// children inherit is known. There is a report for each file. Files are open only
// from their first line to their last.
//
// A call during which others have something to tell is two lines, as with strace -f:
// its beginning and its end. So the number that open returned is that of its file
// from then on, even if open began before the close that freed the number.
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
			m.texts = append(m.texts, s)
		}
	}
	if len(m.texts) == 0 {
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
	im.t.Sort()
	return im.t, reports, nil
}

// HasNumbers reports whether a line of the beginning of a text names its process.
func HasNumbers(head []byte) bool {
	for l := range bytes.Lines(head) {
		if e := split(l); e.kind != unknownLine && e.pid != 0 {
			return true
		}
	}
	return false
}

// taskText is a file that is read, or waits for its time.
type taskText struct {
	TaskFile
	rep   *iotrace.Report
	order int
	merge *taskMerge

	file  *os.File // nil until its first line is due
	in    *line.Reader
	line  []byte // the next
	entry entry
	at    int64  // its time, or that of the line in front of it
	due   int64  // likewise, or of the end of the call that has begun
	begun bool   // what is left of the line is the end of the call
	seen  course // of the lines before
	err   error  // there is no next line
}

// peek finds when the text begins. It is false of an empty file.
func (s *taskText) peek() (bool, error) {
	if err := s.open(nil); err != nil {
		return false, err
	}
	defer s.close() // it was only read
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
	s.in = line.NewReader(telling{s.file, tell})
	return nil
}

// A telling reader tells of the bytes that are read.
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

// next takes the next line. What has no time comes right behind what was in front.
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
		seen := s.seen // the line is seen when its time has come
		s.at = seen.time(&s.entry)
	}
	s.due = s.at
}

// lasts reports until when a call is under way. What frees numbers and makes tasks
// has done so as soon as it begins, as far as others can tell.
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

// taskMerge is a heap of texts by the time of their next line.
type taskMerge struct {
	im    *importer
	texts []*taskText
	bytes int64
}

func (m *taskMerge) run() error {
	heap.Init(m)
	for len(m.texts) > 0 {
		s := m.texts[0]
		if s.file == nil {
			if err := s.open(m.tell); err != nil {
				return err
			}
			s.next() // the line that peek saw
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
			for _, other := range m.texts {
				if other.file != nil {
					_ = other.file.Close() // it was only read
				}
			}
			return err
		}
		s.rep.Cut = err
	}
	return m.im.atEnd()
}

// take works on the line of the first text: on all of it, or, if others come before
// the call ends, on its beginning, and later on its end.
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

// before reports whether another text than the first comes before a time, or at it.
func (m *taskMerge) before(at int64) bool {
	for _, s := range m.texts[1:min(len(m.texts), 3)] { // the sons in the heap
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

func (m *taskMerge) Len() int      { return len(m.texts) }
func (m *taskMerge) Swap(i, j int) { m.texts[i], m.texts[j] = m.texts[j], m.texts[i] }
func (m *taskMerge) Push(x any)    { m.texts = append(m.texts, x.(*taskText)) }

func (m *taskMerge) Less(i, j int) bool {
	a, b := m.texts[i], m.texts[j]
	switch {
	case a.due != b.due:
		return a.due < b.due
	case a.begun != b.begun: // what was opened can be used
		return a.begun
	case (a.file != nil) != (b.file != nil): // a child begins after its parent has made it
		return a.file != nil
	}
	return a.order < b.order
}

func (m *taskMerge) Pop() any {
	last := m.texts[len(m.texts)-1]
	m.texts = m.texts[:len(m.texts)-1]
	return last
}
