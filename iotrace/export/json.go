package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"ckpt/iotrace"
)

// ReadJSON reads rows of a CSV as JSON, one object in a line or in a list, as pandas, polars
// and DuckDB write them, and events in the Trace Event format of Chrome: those that WriteChrome
// writes, and those of DFTracer (.pfw). Lines of DFTracer need neither commas nor an end.
func ReadJSON(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	j := &jsonReader{rows: newRows(o), o: o, rep: &iotrace.Report{}, in: bufio.NewReaderSize(r, iotrace.MaxLine)}
	for i := range j.column {
		j.column[i] = i
	}
	j.rows.fields = make([][]byte, numCols)
	j.calls = newCalls(j)
	err := j.run()
	var fe *iotrace.FormatError
	if errors.As(err, &fe) && o.Lenient && j.count > 0 {
		j.rep.Cut, err = err, nil
	}
	if err != nil {
		return nil, j.rep, err
	}
	j.calls.finish()
	if len(j.calls.events) == 0 && !j.placed {
		warnOffsets(j.t)
	}
	if j.count == 0 {
		return nil, j.rep, &iotrace.FormatError{Line: 1, Err: iotrace.ErrWrongFormat,
			Reason: "this JSON has neither rows with op, start_ns and end_ns nor events of I/O as DFTracer and ckpt write them"}
	}
	j.rep.Lines = j.line
	j.t.Sort()
	return j.t, j.rep, nil
}

type jsonReader struct {
	rows
	in    *bufio.Reader
	o     iotrace.Options
	rep   *iotrace.Report
	line  int64 // or, in a list, the object, counted from 1
	list  bool  // of objects, which may share a line or have several
	count int64 // of rows and events of I/O

	placed bool // a row has an offset
	calls  *calls
}

// A jsonObject is a row, an event of a trace, or the object around events.
type jsonObject struct {
	Op         *string         `json:"op"`
	Module     string          `json:"module"`
	Zone       string          `json:"zone"`
	Create     json.RawMessage `json:"create"`
	Rank       json.RawMessage `json:"rank"`
	Node       string          `json:"node"`
	File       string          `json:"file"`
	Peer       json.RawMessage `json:"peer"`
	PeerNode   string          `json:"peer_node"`
	Checkpoint json.RawMessage `json:"checkpoint"`
	Round      json.RawMessage `json:"round"`
	Offset     json.RawMessage `json:"offset"`
	Bytes      json.RawMessage `json:"bytes"`
	Start      json.RawMessage `json:"start_ns"`
	End        json.RawMessage `json:"end_ns"`

	calledEvent
}

func (j *jsonReader) run() error {
	head, err := j.in.Peek(iotrace.MaxLine)
	if err != nil && err != io.EOF && len(head) == 0 {
		return err
	}
	if inLines(head) {
		return j.lines()
	}
	j.list = true
	return j.objects()
}

// wrong returns the error of the current line or object.
func (j *jsonReader) wrong(reason string) *iotrace.FormatError {
	if j.list {
		return &iotrace.FormatError{Object: j.line, Reason: reason}
	}
	return &iotrace.FormatError{Line: j.line, Reason: reason}
}

// inLines reports whether each line of a text is an object, perhaps with a comma behind it,
// between lines of brackets.
func inLines(head []byte) bool {
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) > 0 && string(line) != "[" {
			line = bytes.TrimPrefix(line, []byte("["))
			return line[0] == '{' && !bytes.Contains(line, []byte(`"traceEvents"`)) && json.Valid(bytes.TrimSuffix(line, []byte(",")))
		}
	}
	return false
}

func (j *jsonReader) lines() error {
	in := iotrace.NewLines(j.in)
	for {
		l, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		j.line = in.Number()
		l = bytes.TrimPrefix(bytes.TrimSpace(l), []byte("["))
		if l = bytes.TrimRight(l, ",] \t"); len(l) == 0 {
			continue
		}
		var x jsonObject
		if err := json.Unmarshal(l, &x); err != nil {
			if !in.Whole() {
				return in.Truncated("the last line has no end")
			}
			if !j.o.Lenient {
				return j.wrong("the line is no object of JSON: " + err.Error())
			}
			j.rep.Note(j.line, string(l), "the line is no object of JSON")
			continue
		}
		if err := j.take(&x); err != nil {
			return err
		}
	}
}

// objects reads a list of objects, alone or as the traceEvents of an object.
func (j *jsonReader) objects() error {
	d := json.NewDecoder(j.in)
	wrong := func(err error) error {
		fe := &iotrace.FormatError{Object: j.line + 1, Reason: "damaged: " + err.Error()}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			fe.Reason, fe.Err = "the JSON ends early", iotrace.ErrTruncated
		}
		return fe
	}
	first, err := d.Token()
	if err != nil {
		return wrong(err)
	}
	if first == json.Delim('{') {
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return wrong(err)
			}
			if key == "traceEvents" {
				first, err = d.Token()
				if err != nil {
					return wrong(err)
				}
				break
			}
			var about json.RawMessage
			if err := d.Decode(&about); err != nil {
				return wrong(err)
			}
			if key == "otherData" {
				j.calls.about(about)
			}
		}
	}
	if first != json.Delim('[') {
		return &iotrace.FormatError{Line: 1, Err: iotrace.ErrWrongFormat, Reason: "this JSON is no list of rows or events"}
	}
	for d.More() {
		var x jsonObject
		if err := d.Decode(&x); err != nil {
			return wrong(err)
		}
		j.line++
		if err := j.take(&x); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return wrong(err)
	}
	return nil
}

// take makes an event of an object.
func (j *jsonReader) take(x *jsonObject) error {
	reason := ""
	switch {
	case len(x.Phase) > 0:
		reason = j.calls.take(&x.calledEvent)
	case x.Op == nil:
		reason = "the row has no column op"
	default:
		j.count++
		texts := [...]string{colOp: *x.Op, colModule: x.Module, colZone: x.Zone, colNode: x.Node, colFile: x.File, colPeerNode: x.PeerNode}
		numbers := [...]json.RawMessage{colCreate: x.Create, colRank: x.Rank, colPeer: x.Peer, colCheckpoint: x.Checkpoint, colRound: x.Round,
			colOffset: x.Offset, colBytes: x.Bytes, colStart: x.Start, colEnd: x.End}
		for i := range j.fields {
			j.fields[i] = j.fields[i][:0]
			if i < len(texts) {
				j.fields[i] = append(j.fields[i], texts[i]...)
			}
			if i < len(numbers) && string(numbers[i]) != "null" {
				j.fields[i] = append(j.fields[i], strings.Trim(string(numbers[i]), `"`)...)
			}
		}
		j.placed = j.placed || len(j.fields[colOffset]) > 0
		reason = j.other(j.rep)
	}
	switch {
	case reason == "":
	case !j.o.Lenient:
		return j.wrong(reason)
	case j.list:
		j.rep.Note(0, "", fmt.Sprintf("object %d: %s", j.line, reason))
	default:
		j.rep.Note(j.line, "", reason)
	}
	return nil
}

// WriteJSONRows writes the rows of WriteRows as JSON, one object in a line.
func WriteJSONRows(w io.Writer, t *iotrace.Trace) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	files := make([]string, len(t.Files))
	for i, name := range t.Files {
		files[i] = string(appendJSON(nil, name))
	}
	nodes := make([]string, len(t.Ranks))
	for i, r := range t.Ranks {
		nodes[i] = string(appendJSON(nil, r.Node))
	}
	var b []byte
	rank := func(name, node string, i int32) {
		if i != iotrace.None {
			b = member(b, name, int64(t.Ranks[i].Rank))
			b = append(append(append(append(b, `,"`...), node...), `":`...), nodes[i]...)
		}
	}
	for i := range t.Events {
		e := &t.Events[i]
		b = append(append(append(b[:0], `{"op":"`...), e.Op.String()...), `","module":"`...)
		b = append(append(b, e.Module.String()...), '"')
		if e.Zone != 0 {
			b = append(append(append(b, `,"zone":"`...), e.Zone.String()...), '"')
		}
		if e.Create {
			b = member(b, "create", 1)
		}
		rank("rank", "node", e.Rank)
		if e.File != iotrace.None {
			b = append(append(b, `,"file":`...), files[e.File]...)
		}
		rank("peer", "peer_node", e.Peer)
		b = member(member(b, "checkpoint", int64(e.Checkpoint)), "round", int64(e.Round))
		if e.Offset != iotrace.None {
			b = member(b, "offset", e.Offset)
		}
		b = member(member(member(b, "bytes", e.Bytes), "start_ns", e.Start), "end_ns", e.End)
		if _, err := bw.Write(append(b, '}', '\n')); err != nil {
			return err
		}
	}
	return bw.Flush()
}
