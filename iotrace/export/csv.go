package export

import (
	"bufio"
	"io"
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
	bw.WriteString(csvColumns + "\n")
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
		b = append(strconv.AppendInt(append(b, ','), e.Bytes, 10), ',')
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
