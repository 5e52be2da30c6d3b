package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image/nodes"
)

// Spans keep the checkpoints of a job as OpenTelemetry traces, one for each, in a file that the
// file receiver of a collector reads: each line is a request in OTLP/JSON. It is written from the
// events of the job, so that no library of OpenTelemetry runs beside it.
type Spans struct {
	Now   func() time.Time
	Write func(line []byte) error
	Warn  func(error) // takes the first write that failed, and the first after one that did not

	job, app string
	run      string // tells the traces of two runs apart
	bad      bool
}

// AppendTo appends a line to a file, for all users as metrics are.
func AppendTo(path string) func(line []byte) error {
	return func(line []byte) error {
		path, err := destination(path) // opening a pipe would wait for its reader
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		err = appendLine(f, line)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	}
}

// appendLine appends a whole line or nothing: the next one would be glued to a part of a line.
func appendLine(f appended, line []byte) error {
	n, err := f.Write(line)
	if err == nil || n == 0 {
		return err
	}
	fi, serr := f.Stat()
	end, perr := f.Seek(0, io.SeekCurrent)
	if serr != nil || perr != nil || fi.Size() != end { // another job has added a line since
		return errors.Join(err, serr, perr)
	}
	return errors.Join(err, f.Truncate(end-int64(n)))
}

// appended is the part of a file that appendLine needs.
type appended interface {
	io.WriteSeeker
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
}

// A span is as OTLP/JSON has it: ids in hexadecimal digits, 64-bit numbers as texts.
type span struct {
	Trace  string      `json:"traceId"`
	ID     string      `json:"spanId"`
	Parent string      `json:"parentSpanId,omitempty"`
	Name   string      `json:"name"`
	Kind   int         `json:"kind"` // 1: internal
	Start  string      `json:"startTimeUnixNano"`
	End    string      `json:"endTimeUnixNano"`
	Of     []attribute `json:"attributes"`
	Status *spanStatus `json:"status,omitempty"`
}

type spanStatus struct {
	Code    int    `json:"code"` // 2: an error
	Message string `json:"message,omitempty"`
}

type attribute struct {
	Key   string         `json:"key"`
	Value attributeValue `json:"value"`
}

type attributeValue struct {
	Text   string   `json:"stringValue,omitempty"`
	Int    string   `json:"intValue,omitempty"`
	Double *float64 `json:"doubleValue,omitempty"`
}

func text(key, value string) attribute { return attribute{key, attributeValue{Text: value}} }

func number(key string, n int64) attribute {
	return attribute{key, attributeValue{Int: strconv.FormatInt(n, 10)}}
}

func decimal(key string, v float64) attribute { return attribute{key, attributeValue{Double: &v}} }

// Event takes an event of the job when it happens.
func (s *Spans) Event(ev any) {
	switch e := ev.(type) {
	case *coordinator.StartEvent:
		if s.job, s.app = e.Job, e.App; s.run == "" {
			s.run = s.Now().UTC().Format(time.RFC3339Nano)
		}
	case *job.CheckpointEvent:
		s.export(s.checkpoint(e)...)
	case *coordinator.AbortedEvent:
		now := s.Now()
		x := s.span("checkpoint", e.Number, now, now, text("ckpt.checkpoint.reason", e.Reason))
		x.Status = &spanStatus{2, e.Reason}
		s.export(x)
	case *levels.LevelEvent:
		if e.Level == nodes.Stored || e.Level == nodes.InNext {
			now := s.Now()
			drain := s.span("drain", e.Number, now.Add(-seconds(e.Seconds)), now, number("ckpt.checkpoint.copied_bytes", e.Bytes), text("ckpt.storage_level", string(e.Level)), text("ckpt.next_store", e.Store))
			drain.ID = s.id(8, e.Number, fmt.Sprintf("drain %s %s", e.Level, e.Store)) // a checkpoint goes to several stores
			s.export(drain)
		}
	}
}

// checkpoint are the spans of a committed checkpoint: all of it, and its parts one after the other.
// The ranks agree, then they lay out files and build indexes, then they write until the commit. The
// capture is what the application waited for beyond the agreement; with --async it ends before the
// writes do.
func (s *Spans) checkpoint(e *job.CheckpointEvent) []span {
	end := s.Now()
	start := end.Add(-seconds(e.Latency.Total))
	agreed := start.Add(seconds(e.Latency.Coordination))
	laid := agreed.Add(seconds(e.Latency.Management))
	return []span{
		s.span("checkpoint", e.Number, start, end, number("ckpt.iteration", int64(e.Iteration)), number("ckpt.ranks", int64(e.Ranks)), number("ckpt.checkpoint.stored_bytes", e.StoredBytes),
			number("ckpt.checkpoint.files", int64(e.Files)), decimal("ckpt.checkpoint.pause_s", e.Pause), decimal("ckpt.checkpoint.turn_wait_s", e.TurnWait)),
		s.span("agree", e.Number, start, agreed),
		s.span("capture", e.Number, agreed, agreed.Add(max(0, seconds(e.Pause-e.Latency.Coordination)))),
		s.span("lay out", e.Number, agreed, laid),
		s.span("write and commit", e.Number, laid, end),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// span makes a span of the trace of a checkpoint. All but checkpoint are below that one.
func (s *Spans) span(name string, checkpoint int, start, end time.Time, of ...attribute) span {
	of = append([]attribute{text("ckpt.job", s.job), number("ckpt.checkpoint", int64(checkpoint))}, of...)
	x := span{Trace: s.id(16, checkpoint, ""), ID: s.id(8, checkpoint, name), Name: name, Kind: 1, Start: nanoseconds(start), End: nanoseconds(end)}
	for _, a := range of {
		if a.Value != (attributeValue{}) { // an empty text
			x.Of = append(x.Of, a)
		}
	}
	if name != "checkpoint" {
		x.Parent = s.id(8, checkpoint, "checkpoint")
	}
	return x
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// id makes the same id for the same thing, so that a drain finds its checkpoint.
func (s *Spans) id(bytes, checkpoint int, name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%s", s.job, s.run, checkpoint, name))
	return hex.EncodeToString(sum[:bytes])
}

// export writes spans. Nothing depends on it: a failure costs these spans only.
func (s *Spans) export(spans ...span) {
	type object map[string]any
	line, err := json.Marshal(object{"resourceSpans": []object{{
		"resource":   object{"attributes": []attribute{text("service.name", "ckpt"), text("ckpt.app", s.app)}},
		"scopeSpans": []object{{"scope": object{"name": "ckpt"}, "spans": spans}},
	}}})
	if err == nil {
		err = s.Write(append(line, '\n'))
	}
	if err != nil && !s.bad {
		s.Warn(err)
	}
	s.bad = err != nil
}
