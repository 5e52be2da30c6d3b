package dxt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// A record is the head of the segments of a file by one rank.
type record struct {
	file, host    string
	rank          int64
	writes, reads int64 // announced, or -1
	noOffset      bool  // the column is missing
	line          int64 // of its first line

	gotWrites, gotReads int64
	skipped             int64 // segments that could not be parsed
}

// A visitor receives the contents of a text, in order. It must copy what it keeps.
type visitor interface {
	text(l []byte) // a line other than a segment
	segment(r *record, s *segment, l []byte) error
}

// A parser reads a text.
type parser struct {
	in  *line.Reader
	o   iotrace.Options
	rep *iotrace.Report
	v   visitor

	exe, job string
	source   string // of a trace that ckpt wrote
	start    int64  // seconds since 1970
	rec      record
	open     bool // inside a record
	records  bool // there is one
	empty    bool // the text says that it has no data
	seg      segment
}

func (p *parser) run() error {
	if f := iotrace.Detect(p.in.Head()); f != iotrace.FormatDXT {
		return iotrace.WrongFormat(p.in.Head(), iotrace.FormatDXT)
	}
	for {
		l, err := p.in.Next()
		p.rep.Lines = p.in.Number()
		if err == io.EOF {
			break
		}
		if err == nil && !p.in.Whole() {
			err = p.in.Truncated("the last line has no end")
		}
		if err == nil {
			err = p.line(l)
		}
		if err != nil {
			if cut := p.cut(err); cut != nil {
				return cut
			}
			return nil
		}
	}
	if err := p.finish(); err != nil {
		return p.cut(err)
	}
	if p.empty {
		return p.in.Errorf("the log has no DXT data (import the .darshan log itself, which has counters, or run the program with DXT_ENABLE_IO_TRACE=1)")
	}
	return nil
}

// cut ends the reading with an error, or with Lenient at this point.
func (p *parser) cut(err error) error {
	var fe *iotrace.FormatError
	if !p.o.Lenient || !errors.As(err, &fe) {
		return err
	}
	p.rep.Cut = err
	return nil
}

func (p *parser) line(l []byte) error {
	whole := l
	l = bytes.TrimSuffix(l, []byte("\r")) // Windows line ends
	if len(l) == 0 || l[0] == '#' {
		p.v.text(whole)
		return p.comment(l)
	}
	s := &p.seg
	reason := ""
	switch {
	case !p.open:
		reason = "a segment in front of the first record"
		if bytes.Count(l, []byte("\t")) >= 6 { // as in POSIX\t0\t9457…\tPOSIX_OPENS\t1\t/f\t/\text4
			return iotrace.WrongFormat([]byte("# darshan log version:\n# description of columns:"), iotrace.FormatDXT)
		}
	default:
		if reason = s.parse(l, p.rec.noOffset); reason == "" {
			reason = p.check(s)
		}
	}
	if reason != "" {
		if p.o.Lenient {
			p.rep.Note(p.in.Number(), string(l), reason)
			p.rec.skipped++
			return nil
		}
		return p.in.Errorf("%s", reason)
	}
	if s.write {
		p.rec.gotWrites++
	} else {
		p.rec.gotReads++
	}
	return p.v.segment(&p.rec, s, whole)
}

// check returns the reason if a segment is impossible.
func (p *parser) check(s *segment) string {
	e := iotrace.Event{Op: iotrace.Read, Offset: s.offset, Bytes: s.length, Start: s.start, End: s.end}
	if err := e.Check(1, 1); err != nil {
		return err.Error()
	}
	switch {
	case s.offset < 0 && !p.rec.noOffset && (s.module != iotrace.MPIIO || s.offset != iotrace.None):
		// Darshan knows all offsets of POSIX. Of MPI-IO it prints -1 if it could not
		// ask: in logs up to 3.1.8, and for programs with Open MPI.
		return fmt.Sprintf("offset %d is negative", s.offset)
	case s.start < 0:
		return "the start is negative"
	}
	want := p.rec.gotReads
	if s.write {
		want = p.rec.gotWrites
	}
	switch {
	case s.rank != p.rec.rank:
		return "the segment is of another rank than its record"
	case s.index != want && !p.o.Lenient:
		return "the segment is not the next one of its record"
	}
	return ""
}

// comment handles a line other than a segment.
func (p *parser) comment(l []byte) error {
	if rest, ok := bytes.CutPrefix(l, []byte("# DXT, ")); ok {
		return p.about(string(rest))
	}
	switch {
	case p.open && bytes.HasPrefix(l, []byte("# Module ")):
		p.rec.noOffset = !bytes.Contains(l, []byte("Offset"))
	case bytes.HasPrefix(l, []byte("# exe: ")):
		p.exe = strings.TrimSpace(string(l[len("# exe: "):]))
	case bytes.HasPrefix(l, []byte("# jobid: ")):
		p.job = strings.TrimSpace(string(l[len("# jobid: "):]))
	case bytes.HasPrefix(l, []byte("# start_time: ")):
		n, ok := line.Int(bytes.TrimSpace(l[len("# start_time: "):]))
		if !ok || n < 0 || n > maxStart {
			return p.in.Errorf("invalid start time of the job")
		}
		p.start = n
	case bytes.HasPrefix(l, []byte(sourceLine)):
		p.source = strings.TrimSpace(string(l[len(sourceLine):]))
	case bytes.HasPrefix(l, []byte("# no DXT module data")):
		p.empty = true
	case bytes.HasPrefix(l, []byte("# description of columns:")):
		return iotrace.WrongFormat([]byte("# darshan log version:\n# description of columns:"), iotrace.FormatDXT)
	}
	return nil
}

// maxStart is the last second of the year 9999.
const maxStart = 253402300799

// about handles a line in the head of a record.
func (p *parser) about(s string) error {
	if rest, ok := strings.CutPrefix(s, "file_id: "); ok {
		if err := p.endRecord(); err != nil {
			return err
		}
		_, name, ok := strings.Cut(rest, ", file_name: ")
		if !ok || name == "" {
			return p.in.Errorf("the record has no file name")
		}
		p.open, p.records = true, true
		p.rec = record{file: name, line: p.in.Number(), writes: -1, reads: -1}
		return nil
	}
	if !p.open {
		return p.in.Errorf("the line is outside of a record")
	}
	if rest, ok := strings.CutPrefix(s, "rank: "); ok {
		number, host, _ := strings.Cut(rest, ", hostname: ")
		if number, counts, ok := strings.Cut(rest, ", write_count: "); ok { // 3.1.0
			rest = "write_count: " + counts
			return errors.Join(p.rank(number, ""), p.counts(rest))
		}
		return p.rank(number, host)
	}
	if strings.HasPrefix(s, "write_count: ") {
		return p.counts(s)
	}
	return nil
}

func (p *parser) rank(number, host string) error {
	n, ok := line.Int([]byte(number))
	if !ok {
		return p.in.Errorf("invalid rank of the record")
	}
	p.rec.rank, p.rec.host = n, host
	return nil
}

func (p *parser) counts(s string) error {
	writes, reads, ok := strings.Cut(strings.TrimPrefix(s, "write_count: "), ", read_count: ")
	var wok, rok bool
	p.rec.writes, wok = line.Int([]byte(writes))
	p.rec.reads, rok = line.Int([]byte(reads))
	if !ok || !wok || !rok || p.rec.writes < 0 || p.rec.reads < 0 {
		return p.in.Errorf("invalid counts of the record")
	}
	return nil
}

// endRecord is finish for a record that another one follows. With Lenient it notes
// missing segments.
func (p *parser) endRecord() error {
	err := p.finish()
	if err != nil && p.o.Lenient {
		p.rep.Note(p.rec.line, p.rec.file, err.Error())
		return nil
	}
	return err
}

// finish checks that the record has the announced segments.
func (p *parser) finish() error {
	r := &p.rec
	if !p.open {
		return nil
	}
	p.open = false
	if r.writes < 0 || r.gotWrites == r.writes && r.gotReads == r.reads {
		return nil
	}
	if r.skipped > 0 && r.gotWrites+r.gotReads+r.skipped >= r.writes+r.reads {
		return nil // only skipped segments are missing
	}
	return p.in.Truncated("the record of line %d announces %d writes and %d reads; %d and %d are there",
		r.line, r.writes, r.reads, r.gotWrites, r.gotReads)
}

// origin returns time 0 of the job.
func (p *parser) origin() time.Time {
	if p.start == 0 {
		return time.Time{}
	}
	return time.Unix(p.start, 0).UTC()
}
