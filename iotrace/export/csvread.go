package export

import (
	"bytes"
	"errors"
	"io"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// ReadCSV reads the output of WriteCSV. With Lenient it skips bad lines and notes them
// in the report, and returns the events of a truncated text.
func ReadCSV(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	t := &iotrace.Trace{Events: make([]iotrace.Event, 0, o.Events)}
	c := &csvReader{
		in:      line.NewReader(r),
		o:       o,
		rep:     &iotrace.Report{},
		t:       t,
		tables:  iotrace.NewTables(t),
		numbers: make(map[int64]int32),
		ops:     make(map[string]iotrace.Op),
		zones:   make(map[string]iotrace.Zone),
	}
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
	c.t.Sort()
	return c.t, c.rep, nil
}

type csvReader struct {
	in      *line.Reader
	o       iotrace.Options
	rep     *iotrace.Report
	t       *iotrace.Trace
	tables  *iotrace.Tables
	numbers map[int64]int32 // last index of each number
	ops     map[string]iotrace.Op
	zones   map[string]iotrace.Zone

	first   int64 // line at which the record begins
	fields  [][]byte
	joined  []byte // a record that spans lines
	plain   []byte // its fields without quotes
	tagged  bool   // the text began with #ckpt-trace
	columns bool   // the header line was seen
	ended   bool   // the end line was seen
	rows    int64
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
			c.rep.Note(c.first, string(bytes.Join(c.fields, []byte(","))), reason)
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

// record handles a record. It returns the reason if the record is bad.
func (c *csvReader) record() (reason string) {
	f := c.fields
	switch {
	case c.ended:
		return "there is more behind the end"
	case len(f[0]) > 0 && f[0][0] == '#':
		return c.about(string(f[0]), f[1:])
	case !c.columns:
		if string(bytes.Join(f, []byte(","))) != csvColumns {
			return "the columns are not " + csvColumns
		}
		c.columns = true
		return ""
	case len(f) != numCols:
		return "the line has not as many fields as there are columns"
	}
	c.rows++
	e, reason := c.event()
	if reason == "" {
		c.t.Events = append(c.t.Events, e)
	}
	return reason
}

// about handles a line about the whole trace.
func (c *csvReader) about(what string, f [][]byte) string {
	want := map[string]int{"#ckpt-trace": 1, "#job": 1, "#source": 1, "#origin": 1, "#rank": 2, "#file": 1, "#end": 1}
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
		c.t.Job = string(f[0])
	case "#source":
		c.t.Source = string(f[0])
	case "#origin":
		t, err := time.Parse(time.RFC3339Nano, string(f[0]))
		if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 {
			return "invalid origin"
		}
		c.t.Origin = t.UTC()
	case "#rank":
		n, ok := line.Int(f[0])
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
		if c.tables.FileBytes(f[0]); len(c.t.Files) == before {
			return "the file is listed twice"
		}
	case "#end":
		n, ok := line.Int(f[0])
		if !ok || n != c.rows {
			return "the number of events is not what the end says"
		}
		c.ended = true
	}
	return ""
}

func (c *csvReader) rank(number int64, node []byte) int32 {
	// Most numbers have one node.
	if i, ok := c.numbers[number]; ok && c.t.Ranks[i].Node == string(node) {
		return i
	}
	i := c.tables.Rank(iotrace.Rank{Rank: int(number), Node: string(node)})
	c.numbers[number] = i
	return i
}
