package dxt

import (
	"io"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// Read converts a text into a trace. With Lenient it skips segments that it cannot
// parse and notes them in the report, and returns the events of a truncated text.
func Read(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	rep := &iotrace.Report{}
	t := &iotrace.Trace{Source: "darshan", Events: make([]iotrace.Event, 0, o.Events)}
	m := &making{t: t, tables: iotrace.NewTables(t)}
	p := &parser{in: line.NewReader(r), o: o, rep: rep, v: m}
	if err := p.run(); err != nil {
		return nil, rep, err
	}
	t.Job, t.Origin = p.exe, p.origin()
	if t.Job == "" && p.job != "" && p.job != "0" {
		t.Job = "job " + p.job
	}
	if p.source != "" {
		t.Source = p.source
	}
	if !p.records {
		t.Warnings = append(t.Warnings, iotrace.Warning{Code: "no-records",
			Text: "The DXT text has no record: the trace has no operation. Import the .darshan log itself, which has counters, or run the program with DXT_ENABLE_IO_TRACE=1."})
	}
	t.Sort()
	return t, rep, nil
}

// making is a visitor that builds a trace.
type making struct {
	t      *iotrace.Trace
	tables *iotrace.Tables

	line       int64 // of the record of rank and file
	rank, file int32
}

func (m *making) text([]byte) {}

func (m *making) segment(r *record, s *segment, _ []byte) error {
	if m.line != r.line {
		m.line = r.line
		m.rank, m.file = m.tables.Rank(iotrace.Rank{Rank: int(r.rank), Node: r.host}), m.tables.File(r.file)
	}
	op := iotrace.Read
	if s.write {
		op = iotrace.Write
	}
	m.t.Events = append(m.t.Events, iotrace.Event{Op: op, Module: s.module, Rank: m.rank, File: m.file, Peer: iotrace.None,
		Offset: s.offset, Bytes: s.length, Start: s.start, End: s.end})
	return nil
}
