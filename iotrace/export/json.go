package export

import (
	"bufio"
	"encoding/json"
	"io"
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
