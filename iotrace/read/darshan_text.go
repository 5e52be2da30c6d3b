package read

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ckpt/iotrace"
)

// DarshanText converts the text of darshan-dxt-parser, of versions 3.1 to 3.6. With Lenient
// it skips segments that it cannot parse and notes them in the report, and returns the
// events of a truncated text. A text that is cut between two records looks whole.
func DarshanText(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	p := &parser{in: iotrace.NewLines(r), o: o, rep: &iotrace.Report{},
		t: &iotrace.Trace{Source: "darshan", Events: make([]iotrace.Event, 0, o.Events)}}
	p.tables = iotrace.NewTables(p.t)
	if err := p.run(); err != nil {
		return nil, p.rep, err
	}
	if p.t.Job == "" && p.job != "" && p.job != "0" {
		p.t.Job = "job " + p.job
	}
	if !p.records {
		p.t.Warnings = append(p.t.Warnings, iotrace.Warning{Code: "no-records",
			Text: "The DXT text has no record: the trace has no operation. " +
				"Import the .darshan log itself, which has counters, " +
				"or run the program with DXT_ENABLE_IO_TRACE=1."})
	}
	p.t.Sort()
	return p.t, p.rep, nil
}

type heading struct {
	file, host    string
	rank          int64
	writes, reads int64 // announced, or -1
	noOffset      bool  // the column is missing
	line          int64 // of its first line

	gotWrites, gotReads int64
	skipped             int64 // segments that could not be parsed
}

type parser struct {
	in  *iotrace.Lines
	o   iotrace.Options
	rep *iotrace.Report

	t      *iotrace.Trace
	tables *iotrace.Tables
	named  int64 // the line of the record that is of this rank and file
	onRank int32
	onFile int32

	job     string
	rec     heading
	open    bool // inside a record
	records bool // there is one
	empty   bool // the text says that it has no data
	seg     segment
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
	l = bytes.TrimSuffix(l, []byte("\r")) // Windows line ends
	if len(l) == 0 || l[0] == '#' {
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
	if p.named != p.rec.line {
		p.named = p.rec.line
		p.onRank = p.tables.Rank(iotrace.Rank{Rank: int(p.rec.rank), Node: p.rec.host})
		p.onFile = p.tables.File(p.rec.file)
	}
	e := s.event()
	e.Rank, e.File = p.onRank, p.onFile
	p.t.Events = append(p.t.Events, e)
	if s.write {
		p.rec.gotWrites++
	} else {
		p.rec.gotReads++
	}
	return nil
}

// check returns the reason if a segment is impossible.
func (p *parser) check(s *segment) string {
	e := s.event()
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
		p.t.Job = strings.TrimSpace(string(l[len("# exe: "):]))
	case bytes.HasPrefix(l, []byte("# jobid: ")):
		p.job = p.property("job", l)
	case bytes.HasPrefix(l, []byte("# uid: ")):
		p.property("user", l)
	case bytes.HasPrefix(l, []byte("# nprocs: ")):
		p.property("processes", l)
	case bytes.HasPrefix(l, []byte("# start_time: ")):
		n, ok := iotrace.Int(bytes.TrimSpace(l[len("# start_time: "):]))
		if !ok || n < 0 || n > lastSecond {
			return p.in.Errorf("invalid start time of the job")
		}
		if p.t.Origin = (time.Time{}); n > 0 {
			p.t.Origin = time.Unix(n, 0).UTC()
		}
	case bytes.HasPrefix(l, []byte(sourceLine)):
		p.t.Source = strings.TrimSpace(string(l[len(sourceLine):]))
	case bytes.HasPrefix(l, []byte("# no DXT module data")):
		p.empty = true
	case bytes.HasPrefix(l, []byte("# description of columns:")):
		return iotrace.WrongFormat([]byte("# darshan log version:\n# description of columns:"), iotrace.FormatDXT)
	}
	return nil
}

// property keeps what a line of the head says of the job.
func (p *parser) property(name string, l []byte) string {
	_, value, _ := bytes.Cut(l, []byte(": "))
	v := string(bytes.TrimSpace(value))
	p.t.Properties = append(p.t.Properties, iotrace.Property{Name: name, Value: v})
	return v
}

// sourceLine stands in texts that earlier versions of ckpt wrote.
const sourceLine = "# metadata: source = "

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
		p.rec = heading{file: name, line: p.in.Number(), writes: -1, reads: -1}
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
	n, ok := iotrace.Int([]byte(number))
	if !ok {
		return p.in.Errorf("invalid rank of the record")
	}
	p.rec.rank, p.rec.host = n, host
	return nil
}

func (p *parser) counts(s string) error {
	writes, reads, ok := strings.Cut(strings.TrimPrefix(s, "write_count: "), ", read_count: ")
	var wok, rok bool
	p.rec.writes, wok = iotrace.Int([]byte(writes))
	p.rec.reads, rok = iotrace.Int([]byte(reads))
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

type segment struct {
	write      bool
	index      int64 // among the writes or reads of the record
	offset     int64 // iotrace.None if unknown
	length     int64
	start, end int64  // ns
	rest       []byte // rest of the line
	module     iotrace.Module
	rank       int64
}

func (s *segment) event() iotrace.Event {
	e := iotrace.Event{Op: iotrace.Read, Module: s.module, Peer: iotrace.None,
		Offset: s.offset, Bytes: s.length, Start: s.start, End: s.end}
	if s.write {
		e.Op = iotrace.Write
	}
	return e
}

// parse reads a line. It returns the reason if the line is invalid.
func (s *segment) parse(l []byte, noOffset bool) (reason string) {
	if reason = s.words(l, noOffset); reason == "" {
		return ""
	}
	// Large numbers fill their columns, and leave no blank between them. Versions up to
	// 3.1.5 print the length in 13 places.
	for _, length := range []int{16, 13} {
		if s.columns(l, noOffset, length) {
			return ""
		}
	}
	return reason
}

// words reads a line with blanks between the columns.
func (s *segment) words(l []byte, noOffset bool) (reason string) {
	*s = segment{offset: iotrace.None}
	tag, l := iotrace.Field(l)
	switch string(tag) {
	case "X_POSIX":
	case "X_MPIIO":
		s.module = iotrace.MPIIO
	default:
		return "this is not a segment of X_POSIX or X_MPIIO"
	}
	var ok bool
	word, l := iotrace.Field(l)
	if s.rank, ok = iotrace.Int(word); !ok {
		return "invalid rank"
	}
	op, l := iotrace.Field(l)
	switch string(op) {
	case "write":
		s.write = true
	case "read":
	default:
		return "the operation is neither write nor read"
	}
	word, l = iotrace.Field(l)
	if s.index, ok = iotrace.Int(word); !ok || s.index < 0 {
		return "invalid number of the segment"
	}
	if !noOffset {
		word, l = iotrace.Field(l)
		if s.offset, ok = iotrace.Int(word); !ok {
			return "invalid offset"
		}
	}
	word, l = iotrace.Field(l)
	if s.length, ok = iotrace.Int(word); !ok {
		return "invalid length"
	}
	word, l = iotrace.Field(l)
	if s.start, ok = iotrace.Seconds(word); !ok {
		return "invalid start"
	}
	word, l = iotrace.Field(l)
	if s.end, ok = iotrace.Seconds(word); !ok {
		return "invalid end"
	}
	s.rest = l
	return ""
}

// columns reads a line by the columns of Darshan's
// printf("%8s%8d%7s%9d%16d%16d%12.4f%12.4f"); MPI-IO up to 3.1.8 has no offset.
func (s *segment) columns(l []byte, noOffset bool, length int) bool {
	places := []int{8, 8, 7, 9, 16, length, 12, 12}
	if noOffset {
		places = append(places[:4], places[5:]...)
	}
	var spaced []byte
	for _, n := range places {
		if len(l) < n {
			return false
		}
		spaced = append(append(spaced, l[:n]...), ' ')
		l = l[n:]
	}
	// A column must be one word.
	return s.words(spaced, noOffset) == "" && len(bytes.TrimSpace(s.rest)) == 0 &&
		(len(l) == 0 || l[0] == ' ')
}
