package export

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/iotrace"
)

const (
	csvVersion = "1"
	csvColumns = "op,module,zone,create,rank,node,file,peer,peer_node,checkpoint,round,offset,bytes,start_ns,end_ns"
)

// The positions of the columns.
const (
	colOp = iota
	colModule
	colZone
	colCreate
	colRank
	colNode
	colFile
	colPeer
	colPeerNode
	colCheckpoint
	colRound
	colOffset
	colBytes
	colStart
	colEnd
	numCols
)

// WriteRows writes the events of a valid trace as CSV with the names of the columns and
// nothing else, as other programs expect it.
func WriteRows(w io.Writer, t *iotrace.Trace) error { return writeCSV(w, t, false) }

// WriteCSV writes a valid trace as CSV, with lines about the whole trace.
func WriteCSV(w io.Writer, t *iotrace.Trace) error { return writeCSV(w, t, true) }

func writeCSV(w io.Writer, t *iotrace.Trace, about bool) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	b := append([]byte(nil), "#ckpt-trace,"+csvVersion+"\n#job,"...)
	b = append(appendField(b, t.Job), "\n#source,"...)
	b = append(appendField(b, t.Source), '\n')
	if !t.Origin.IsZero() {
		b = append(t.Origin.UTC().AppendFormat(append(b, "#origin,"...), time.RFC3339Nano), '\n')
	}
	if about {
		bw.Write(b)
	}
	// Ranks and files repeat, so their fields are made once.
	ranks := make([]string, len(t.Ranks))
	for i, r := range t.Ranks {
		b = strconv.AppendInt(b[:0], int64(r.Rank), 10)
		ranks[i] = string(appendField(append(b, ','), r.Node))
		if about {
			bw.WriteString("#rank," + ranks[i] + "\n")
		}
	}
	files := make([]string, len(t.Files))
	for i, name := range t.Files {
		files[i] = string(appendField(b[:0], name))
		if about {
			bw.WriteString("#file," + files[i] + "\n")
		}
	}
	if about {
		for _, r := range t.Renames {
			bw.Write(strconv.AppendInt([]byte("#renaming,"+files[r.From]+","+files[r.To]+","), r.At, 10))
			bw.WriteString("\n")
		}
	}
	columns, placed := csvColumns, hasOffsets(t)
	if !placed {
		columns = strings.Replace(columns, ",offset", "", 1)
	}
	bw.WriteString(columns + "\n")
	rank := func(b []byte, i int32) []byte {
		if i == iotrace.None {
			return append(b, ",,"...)
		}
		return append(append(b, ranks[i]...), ',')
	}
	for i := range t.Events {
		e := &t.Events[i]
		b = append(append(b[:0], e.Op.String()...), ',')
		b = append(append(b, e.Module.String()...), ',')
		b = append(append(b, e.Zone.String()...), ',')
		if e.Create {
			b = append(b, '1')
		}
		b = rank(append(b, ','), e.Rank)
		if e.File != iotrace.None {
			b = append(b, files[e.File]...)
		}
		b = rank(append(b, ','), e.Peer)
		b = append(strconv.AppendInt(b, int64(e.Checkpoint), 10), ',')
		b = append(strconv.AppendInt(b, int64(e.Round), 10), ',')
		if e.Offset != iotrace.None {
			b = strconv.AppendInt(b, e.Offset, 10)
		}
		if placed {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(b, e.Bytes, 10), ',')
		b = append(strconv.AppendInt(b, e.Start, 10), ',')
		b = append(strconv.AppendInt(b, e.End, 10), '\n')
		if _, err := bw.Write(b); err != nil {
			return err
		}
	}
	if about {
		b = strconv.AppendInt(append(b[:0], "#end,"...), int64(len(t.Events)), 10)
		bw.Write(append(b, '\n'))
	}
	return bw.Flush()
}

// hasOffsets reports whether a trace gets the column of offsets. Of one that tells none, an empty
// column would say that these operations have no place.
func hasOffsets(t *iotrace.Trace) bool {
	return !slices.ContainsFunc(t.Warnings, func(w iotrace.Warning) bool { return w.Code == iotrace.WarnNoOffsets }) ||
		slices.ContainsFunc(t.Events, func(e iotrace.Event) bool { return e.Offset != iotrace.None })
}

// appendField appends a string, escaped and quoted if necessary.
func appendField(b []byte, s string) []byte {
	s = escaped(s)
	if !strings.ContainsAny(s, ",\"\n\r") {
		return append(b, s...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(s, `"`, `""`)...)
	return append(b, '"')
}

// ReadCSV reads the output of WriteCSV and WriteRows, and rows of them that another
// program has chosen, ordered or written anew. With Lenient it skips bad lines and notes them
// in the report, and returns the events of a truncated text.
func ReadCSV(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	c := &csvReader{rows: newRows(o), in: iotrace.NewLines(r), o: o, rep: &iotrace.Report{}}
	c.sep = iotrace.Separator(c.in.Head())
	c.marked = c.sep != ','
	if f := iotrace.Detect(c.in.Head()); f != iotrace.FormatCSV {
		return nil, c.rep, iotrace.WrongFormat(c.in.Head(), iotrace.FormatCSV)
	}
	err := c.run()
	c.rep.Lines = c.in.Number()
	var fe *iotrace.FormatError
	if errors.As(err, &fe) && o.Lenient && c.columns {
		c.rep.Cut, err = err, nil
	}
	if err != nil {
		return nil, c.rep, err
	}
	c.hand(1)
	if c.columns && c.column[colOffset] == c.width {
		warnOffsets(c.t)
	}
	c.t.Sort()
	return c.t, c.rep, nil
}

type csvReader struct {
	rows
	in  *iotrace.Lines
	o   iotrace.Options
	rep *iotrace.Report

	sep     byte   // stands between the fields
	first   int64  // line at which the record begins
	width   int    // fields of a line; the column of those that are missing
	joined  []byte // a record that spans lines
	plain   []byte // its fields without quotes
	tagged  bool   // the text began with #ckpt-trace
	columns bool   // the header line was seen
	ended   bool   // the end line was seen
	count   int64  // of rows
}

func (c *csvReader) run() error {
	for {
		err := c.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch reason := c.record(); {
		case reason == "":
		case c.o.Lenient && c.columns && !c.ended:
			c.rep.Note(c.first, string(bytes.Join(c.fields[:min(len(c.fields), c.width)], []byte(","))), reason)
		default:
			e := c.in.Errorf("%s", reason)
			e.Line = c.first
			return e
		}
	}
	switch {
	case !c.columns:
		return c.in.Truncated("the names of the columns are not there")
	case c.tagged && !c.ended:
		return c.in.Truncated("the end is not there")
	}
	return nil
}

func (c *csvReader) record() (reason string) {
	f := c.fields
	switch {
	case c.ended:
		return "there is more behind the end"
	case len(f[0]) > 0 && f[0][0] == '#':
		return c.about(string(f[0]), f[1:])
	case !c.columns:
		return c.header(f)
	case len(f) != c.width:
		return "the line has not as many fields as there are columns"
	}
	c.fields = append(f, nil) // for the columns that are missing
	c.count++
	e, reason := c.event()
	if reason == "" {
		c.t.Events = append(c.t.Events, e)
		c.hand(iotrace.Batch)
	}
	return reason
}

// hand gives the caller the events, once there are so many.
func (c *csvReader) hand(most int) {
	if c.o.Each != nil && len(c.t.Events) >= most {
		c.o.Each(c.t.Events)
		c.t.Events = c.t.Events[:0]
	}
}

// header finds the columns by their names. Others are passed over.
func (c *csvReader) header(f [][]byte) string {
	c.width = len(f)
	for i := range c.column {
		c.column[i] = len(f)
	}
	names := strings.Split(csvColumns, ",")
	for at, name := range f {
		name = bytes.TrimSpace(bytes.TrimPrefix(name, []byte("\ufeff")))
		i := slices.Index(names, string(name))
		if i < 0 {
			continue
		}
		if c.column[i] < len(f) {
			return "column " + names[i] + " is there twice"
		}
		c.column[i] = at
	}
	for _, i := range []int{colOp, colStart, colEnd} {
		if c.column[i] == len(f) {
			return "column " + names[i] + " is missing"
		}
	}
	c.columns = true
	return ""
}

func (c *csvReader) about(what string, f [][]byte) string {
	want := map[string]int{"#ckpt-trace": 1, "#job": 1, "#source": 1, "#origin": 1, "#rank": 2, "#file": 1, "#renaming": 3, "#end": 1}
	n, ok := want[what]
	switch {
	case !ok || len(f) != n:
		return "unknown line that begins with #"
	case c.columns != (what == "#end"), c.tagged == (what == "#ckpt-trace"):
		return what + " is not in its place"
	}
	switch what {
	case "#ckpt-trace":
		if string(f[0]) != csvVersion {
			return "version " + string(f[0]) + " is not known"
		}
		c.tagged = true
	case "#job":
		c.t.Job = unescaped(string(f[0]))
	case "#source":
		c.t.Source = unescaped(string(f[0]))
	case "#origin":
		t, err := time.Parse(time.RFC3339Nano, string(f[0]))
		if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 {
			return "invalid origin"
		}
		c.t.Origin = t.UTC()
	case "#rank":
		n, ok := iotrace.Int(f[0])
		if !ok {
			return "invalid rank"
		}
		before := len(c.t.Ranks)
		if c.rank(n, f[1]); len(c.t.Ranks) == before {
			return "the rank is listed twice"
		}
	case "#file":
		before := len(c.t.Files)
		if len(f[0]) == 0 {
			return "the file has no name"
		}
		if c.file(f[0]); len(c.t.Files) == before {
			return "the file is listed twice"
		}
	case "#renaming":
		at, ok := iotrace.Int(f[2])
		if !ok || len(f[0]) == 0 || len(f[1]) == 0 || at < -iotrace.MaxTime || at > iotrace.MaxTime {
			return "the renaming has no names, or an impossible time"
		}
		c.t.Renames = append(c.t.Renames, iotrace.Renaming{From: c.file(f[0]), To: c.file(f[1]), At: at})
	case "#end":
		n, ok := iotrace.Int(f[0])
		if !ok || n != c.count {
			return "the number of events is not what the end says"
		}
		c.ended = true
	}
	return ""
}

// next reads a record and splits it.
func (c *csvReader) next() error {
	l, err := c.in.Next()
	for err == nil && len(l) == 0 {
		l, err = c.in.Next()
	}
	c.first = c.in.Number()
	if c.first == 1 {
		l = bytes.TrimPrefix(l, []byte("\ufeff")) // of spreadsheets
	}
	if err != nil {
		return err
	}
	if c.first == 1 && iotrace.NamesSeparator(l) {
		return c.next()
	}
	if bytes.IndexByte(l, '"') < 0 {
		if !c.in.Whole() {
			return c.in.Truncated("the last line has no end")
		}
		if n := len(l); n > 0 && l[n-1] == '\r' {
			l = l[:n-1]
		}
		c.fields = c.fields[:0]
		for {
			i := bytes.IndexByte(l, c.sep)
			if i < 0 {
				break
			}
			c.fields = append(c.fields, l[:i])
			l = l[i+1:]
		}
		c.fields = append(c.fields, l)
		return nil
	}
	// A quoted record may span lines. It ends where the quotes are balanced.
	c.joined = append(c.joined[:0], l...)
	quotes := bytes.Count(l, []byte(`"`))
	for quotes%2 != 0 && c.in.Whole() {
		l, err := c.in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		c.joined = append(append(c.joined, '\n'), l...)
		quotes += bytes.Count(l, []byte(`"`))
		if len(c.joined) > iotrace.MaxLine {
			return c.in.Errorf("the record from line %d on is longer than %d bytes", c.first, iotrace.MaxLine)
		}
	}
	if !c.in.Whole() || quotes%2 != 0 {
		return c.in.Truncated("the record from line %d on has no end", c.first)
	}
	if n := len(c.joined); c.joined[n-1] == '\r' {
		c.joined = c.joined[:n-1]
	}
	return c.quoted()
}

// quoted splits a record with quotes.
func (c *csvReader) quoted() error {
	c.fields = c.fields[:0]
	c.plain = append(c.plain[:0], c.joined...) // long enough for all fields
	rest, out := c.joined, c.plain[:0]
	for {
		from := len(out)
		if len(rest) > 0 && rest[0] == '"' {
			rest = rest[1:]
			for {
				i := bytes.IndexByte(rest, '"')
				if i < 0 {
					return c.badQuotes()
				}
				out = append(out, rest[:i]...)
				rest = rest[i+1:]
				if len(rest) == 0 || rest[0] != '"' {
					break
				}
				out = append(out, '"')
				rest = rest[1:]
			}
		} else {
			i := bytes.IndexByte(rest, c.sep)
			if i < 0 {
				i = len(rest)
			}
			if bytes.IndexByte(rest[:i], '"') >= 0 {
				return c.badQuotes()
			}
			out = append(out, rest[:i]...)
			rest = rest[i:]
		}
		c.fields = append(c.fields, out[from:len(out):len(out)])
		if len(rest) == 0 {
			return nil
		}
		if rest[0] != c.sep {
			return c.badQuotes()
		}
		rest = rest[1:]
	}
}

func (c *csvReader) badQuotes() error {
	e := c.in.Errorf("a quote is in the wrong place")
	e.Line = c.first
	return e
}
