package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"ckpt/iotrace"
)

// WriteJSON writes a valid trace as JSON lines.
func WriteJSON(w io.Writer, t *iotrace.Trace) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	b := append([]byte(nil), `{"type":"trace","job":`...)
	b = append(appendJSON(b, t.Job), `,"source":`...)
	b = appendJSON(b, t.Source)
	if !t.Origin.IsZero() {
		b = append(t.Origin.UTC().AppendFormat(append(b, `,"origin":"`...), time.RFC3339Nano), '"')
	}
	b = member(b, "ranks", int64(len(t.Ranks)))
	b = member(b, "files", int64(len(t.Files)))
	b = member(b, "events", int64(len(t.Events)))
	if len(t.Counters) > 0 {
		b = member(b, "counters", int64(len(t.Counters)))
	}
	if t.Runtime > 0 {
		b = strconv.AppendFloat(append(b, `,"run_time_s":`...), t.Runtime.Seconds(), 'f', -1, 64)
	}
	if len(t.Warnings) > 0 {
		b = appendValue(append(b, `,"warnings":`...), t.Warnings)
	}
	if len(t.Properties) > 0 {
		b = appendValue(append(b, `,"properties":`...), t.Properties)
	}
	bw.Write(append(b, "}\n"...))
	for i := range t.Striping {
		bw.Write(append(appendValue(b[:0], newStriping(t, &t.Striping[i])), '\n'))
	}
	for _, r := range t.Renames {
		bw.Write(append(appendValue(b[:0], newRenaming(t, r)), '\n'))
	}
	for _, r := range t.Ranks { // also those that do nothing
		b = appendRank(append(b[:0], `{"type":"rank"`...), r)
		bw.Write(append(b, "}\n"...))
	}
	for i := range t.Counters {
		b = appendCounters(b[:0], t, &t.Counters[i])
		bw.Write(append(b, '\n'))
	}
	nodes := make([]string, len(t.Ranks))
	for i, r := range t.Ranks {
		nodes[i] = string(appendJSON(nil, r.Node))
	}
	files := make([]string, len(t.Files))
	for i, name := range t.Files {
		files[i] = string(appendJSON(nil, name))
	}
	for i := range t.Events {
		e := &t.Events[i]
		b = append(append(b[:0], `{"type":"event","op":"`...), e.Op.String()...)
		b = append(b, '"')
		if e.Module != iotrace.POSIX {
			b = append(append(append(b, `,"module":"`...), e.Module.String()...), '"')
		}
		if e.Zone != 0 {
			b = append(append(append(b, `,"zone":"`...), e.Zone.String()...), '"')
		}
		if e.Create {
			b = append(b, `,"create":true`...)
		}
		if e.Rank != iotrace.None {
			b = member(b, "rank", int64(t.Ranks[e.Rank].Rank))
			if t.Ranks[e.Rank].Node != "" {
				b = append(append(b, `,"node":`...), nodes[e.Rank]...)
			}
		}
		if e.File != iotrace.None {
			b = append(append(b, `,"file":`...), files[e.File]...)
		}
		if e.Peer != iotrace.None {
			b = member(b, "peer", int64(t.Ranks[e.Peer].Rank))
			if t.Ranks[e.Peer].Node != "" {
				b = append(append(b, `,"peer_node":`...), nodes[e.Peer]...)
			}
		}
		if e.Checkpoint != 0 {
			b = member(b, "checkpoint", int64(e.Checkpoint))
		}
		if e.Round != 0 {
			b = member(b, "round", int64(e.Round))
		}
		if e.Offset != iotrace.None {
			b = member(b, "offset", e.Offset)
		}
		b = member(b, "bytes", e.Bytes)
		b = member(b, "start_ns", e.Start)
		b = member(b, "end_ns", e.End)
		if _, err := bw.Write(append(b, "}\n"...)); err != nil {
			return err
		}
	}
	return bw.Flush()
}

func member(b []byte, name string, n int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, n, 10)
}

// appendJSON appends a quoted string.
func appendJSON(b []byte, s string) []byte { return appendValue(b, escaped(s)) }

func appendValue(b []byte, v any) []byte {
	q, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...) // strings, and structs of them and numbers, always can be
	}
	return append(b, q...)
}

// A jsonHead has the members of the line of the whole trace.
type jsonHead struct {
	Job      string            `json:"job"`
	Source   string            `json:"source"`
	Origin   time.Time         `json:"origin"`
	Warnings []iotrace.Warning `json:"warnings"`

	Runtime    float64            `json:"run_time_s"`
	Properties []iotrace.Property `json:"properties"`
}

// ReadJSON reads the output of WriteJSON, and objects of it that another program has
// chosen, such as jq, on one line or several. With Lenient it skips lines that it does
// not understand and notes them; an object whose lines end too early ends where a line
// begins with another one.
func ReadJSON(r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	j := &jsonReader{rows: newRows(o), in: iotrace.NewLines(r), o: o, rep: &iotrace.Report{}}
	j.fields = make([][]byte, numFields)
	for i := range j.column {
		j.column[i] = i
	}
	err := j.run()
	j.rep.Lines = j.in.Number()
	var fe *iotrace.FormatError
	if errors.As(err, &fe) && o.Lenient {
		j.rep.Cut, err = err, nil
	}
	if err != nil {
		return nil, j.rep, err
	}
	j.t.Sort()
	return j.t, j.rep, nil
}

type jsonReader struct {
	rows
	in  *iotrace.Lines
	o   iotrace.Options
	rep *iotrace.Report

	joined []byte // an object that spans lines
	held   []byte // the first line of the next object, if it was read already
	first  int64  // line at which the object begins
}

func (j *jsonReader) run() error {
	for {
		l, err := j.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !scanObject(l, j.fields) {
			if l, err = j.whole(l); err != nil {
				return err
			}
			if err := j.decode(l); err != nil {
				return err
			}
			continue
		}
		if err := j.bad(l, j.use(l)); err != nil {
			return err
		}
	}
}

// next returns the next line that is not empty.
func (j *jsonReader) next() (l []byte, err error) {
	if l, j.held = j.held, nil; l == nil {
		l, err = j.in.Next()
	}
	for err == nil && len(blanks(l)) == 0 {
		l, err = j.in.Next()
	}
	j.first = j.in.Number()
	return l, err
}

// whole adds the lines that an object needs to be whole, or until the next one begins.
func (j *jsonReader) whole(l []byte) ([]byte, error) {
	depth := nesting(l)
	if depth <= 0 {
		return l, nil
	}
	j.joined = append(j.joined[:0], l...)
	for depth > 0 {
		l, err := j.in.Next()
		switch {
		case err == io.EOF:
			e := j.in.Truncated("the last line has no end")
			e.Line = j.first
			return nil, e
		case err != nil:
			return nil, err
		case len(l) > 0 && l[0] == '{':
			j.held = l
			return j.joined, nil
		}
		j.joined = append(append(j.joined, '\n'), l...)
		if len(j.joined) > iotrace.MaxLine {
			return nil, j.in.Errorf("the object from line %d on is longer than %d bytes", j.first, iotrace.MaxLine)
		}
		depth += nesting(l)
	}
	return j.joined, nil
}

// nesting counts the objects that a line opens and does not close.
func nesting(l []byte) (depth int) {
	text := false
	for i := 0; i < len(l); i++ {
		switch c := l[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
	}
	return depth
}

// decode takes the objects of a text, usually one.
func (j *jsonReader) decode(text []byte) error {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		raw, reason, err := decodeObject(d, j.fields)
		if err == io.EOF {
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return j.bad(text, "the object has no end")
		}
		if err != nil {
			return j.bad(text, "invalid JSON: "+err.Error())
		}
		if reason == "" {
			reason = j.use(raw)
		}
		if err := j.bad(raw, reason); err != nil {
			return err
		}
	}
}

// bad notes an object that cannot be used, or returns an error.
func (j *jsonReader) bad(text []byte, reason string) error {
	switch {
	case reason == "":
	case j.o.Lenient:
		j.rep.Note(j.first, string(text[:min(len(text), iotrace.MaxLine)]), reason)
	default:
		return &iotrace.FormatError{Line: j.first, Reason: reason}
	}
	return nil
}

// use adds an object to the trace, or returns the reason why it cannot.
func (j *jsonReader) use(text []byte) string {
	switch string(j.fields[colType]) {
	case "trace":
		return j.head(text)
	case "counters":
		return j.counters(text)
	case "renaming":
		return j.renaming(text)
	case "striping":
		return j.striping(text)
	case "rank":
		if i, ok := j.rankField(j.fields[colRank], j.fields[colNode]); !ok || i == iotrace.None {
			return "invalid rank"
		}
		return ""
	case "event":
	default:
		return fmt.Sprintf("type %q is unknown", j.fields[colType])
	}
	e, reason := j.event()
	if reason == "" {
		j.t.Events = append(j.t.Events, e)
	}
	return reason
}

func (j *jsonReader) head(text []byte) string {
	var h jsonHead
	if err := json.Unmarshal(text, &h); err != nil {
		return err.Error()
	}
	if y := h.Origin.Year(); !h.Origin.IsZero() && (y < 1970 || y > 9999) {
		return "invalid origin"
	}
	if !(h.Runtime >= 0 && h.Runtime <= time.Duration(iotrace.MaxTime).Seconds()) {
		return "invalid run_time_s"
	}
	for _, p := range h.Properties {
		if p.Name == "" {
			return "a property has no name"
		}
	}
	j.t.Runtime, j.t.Properties = min(time.Duration(math.Round(h.Runtime*1e9)), iotrace.MaxTime), h.Properties
	j.t.Job, j.t.Source, j.t.Origin = unescaped(h.Job), unescaped(h.Source), h.Origin.UTC()
	for _, w := range h.Warnings {
		w.Files = nil // their numbers are of the trace that was exported
		if w.Code == "" || w.Count < 0 || w.Bytes < 0 {
			return "invalid warning"
		}
		j.t.Warnings = append(j.t.Warnings, w)
	}
	return ""
}
