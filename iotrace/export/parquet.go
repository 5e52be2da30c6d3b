package export

import (
	"bytes"
	"encoding/base64"
	"io"
	"strconv"
	"strings"

	"ckpt/iotrace"
)

// A parquetRow has the columns of WisIO and our own; see the package comment.
type parquetRow struct {
	Index     int64   `parquet:"index,delta"`
	Proc      int64   `parquet:"proc,dict"`
	Rank      int32   `parquet:"rank,dict"`
	ThreadID  int32   `parquet:"thread_id,dict"`
	Cat       int32   `parquet:"cat,dict"`
	IOCat     int32   `parquet:"io_cat,dict"`
	Tstart    float64 `parquet:"tstart"`
	Tend      float64 `parquet:"tend"`
	FuncID    string  `parquet:"func_id,dict"`
	Level     int32   `parquet:"level,dict"`
	Hostname  string  `parquet:"hostname,dict"`
	App       string  `parquet:"app,dict"`
	ProcName  string  `parquet:"proc_name,dict"`
	FileName  string  `parquet:"file_name,dict"`
	Size      int64   `parquet:"size,dict"`
	AccPat    int32   `parquet:"acc_pat,dict"`
	Bandwidth float64 `parquet:"bandwidth"`
	Duration  float64 `parquet:"duration"`
	Tmid      int64   `parquet:"tmid,delta"`
	FileID    int64   `parquet:"file_id,dict"`
	ProcID    int64   `parquet:"proc_id,dict"`

	ownColumns
}

// ownColumns are those that WisIO does not have.
type ownColumns struct {
	Module     int32 `parquet:"ckpt_module,dict"`
	Zone       int32 `parquet:"ckpt_zone,dict"`
	Create     bool  `parquet:"ckpt_create"`
	Peer       int32 `parquet:"ckpt_peer,dict"`
	Checkpoint int32 `parquet:"ckpt_checkpoint,dict"`
	Round      int32 `parquet:"ckpt_round,dict"`
	Offset     int64 `parquet:"ckpt_offset,delta"`
	Bytes      int64 `parquet:"ckpt_bytes,dict"`
	Start      int64 `parquet:"ckpt_start_ns,delta"`
	End        int64 `parquet:"ckpt_end_ns,delta"`
}

// The categories of WisIO.
const (
	catPOSIX = 0
	catMPIIO = 1
	catStep  = 4

	ioOther    = 0
	ioRead     = 1
	ioWrite    = 2
	ioMetadata = 3
)

const (
	// tablesKey is the metadata key of the tables: an events file without events, in
	// base64.
	tablesKey = "ckpt.trace"
	rowGroup  = 8 * rowsInPage
)

// WriteParquet writes a valid trace as Parquet.
func WriteParquet(w io.Writer, t *iotrace.Trace) error {
	var tables bytes.Buffer
	about := *t
	about.Events = nil
	if err := iotrace.WriteTrace(&tables, &about); err != nil {
		return err
	}
	pw, err := newParquetWriter(w, base64.StdEncoding.EncodeToString(tables.Bytes()))
	if err != nil {
		return err
	}
	m := newRowMaker(t)
	rows := make([]parquetRow, 0, min(rowsInPage, len(t.Events)))
	for i := range t.Events {
		rows = append(rows, m.row(i))
		if len(rows) < rowsInPage && i < len(t.Events)-1 {
			continue
		}
		if err := pw.write(rows); err != nil {
			return err
		}
		rows = rows[:0]
	}
	return pw.close()
}

// rowMaker turns events into rows.
type rowMaker struct {
	t     *iotrace.Trace
	app   string
	procs []string // proc_name by rank
	hosts []string
	files []string
	ends  map[rankFile]int64 // end of the last read or write
}

type rankFile struct{ rank, file int32 }

func newRowMaker(t *iotrace.Trace) *rowMaker {
	m := &rowMaker{t: t, app: escaped(t.Job), ends: make(map[rankFile]int64)}
	// proc_name uses # as a separator.
	part := func(s string) string { return strings.ReplaceAll(escaped(s), "#", "_") }
	for _, r := range t.Ranks {
		m.hosts = append(m.hosts, escaped(r.Node))
		m.procs = append(m.procs, part(t.Job)+"#"+part(r.Node)+"#"+strconv.Itoa(r.Rank)+"#0")
	}
	for _, name := range t.Files {
		m.files = append(m.files, escaped(name))
	}
	return m
}

func (m *rowMaker) row(i int) parquetRow {
	e := &m.t.Events[i]
	r := parquetRow{
		Index:    int64(i),
		Proc:     iotrace.None,
		Rank:     iotrace.None,
		Tstart:   float64(e.Start) / 1e9,
		Tend:     float64(e.End) / 1e9,
		FuncID:   e.Op.String(),
		App:      m.app,
		ProcName: "###",
		Duration: float64(e.End-e.Start) / 1e9,
		Tmid:     (e.Start + (e.End-e.Start)/2) / 1000,
		FileID:   int64(e.File),
		ProcID:   int64(e.Rank),
		ownColumns: ownColumns{
			Module: int32(e.Module), Zone: int32(e.Zone), Create: e.Create, Peer: e.Peer, Checkpoint: e.Checkpoint, Round: e.Round,
			Offset: e.Offset, Bytes: e.Bytes, Start: e.Start, End: e.End,
		},
	}
	if e.Rank != iotrace.None {
		n := m.t.Ranks[e.Rank].Rank
		r.Proc, r.Rank = int64(n), int32(n)
		r.Hostname, r.ProcName = m.hosts[e.Rank], m.procs[e.Rank]
	}
	if e.File != iotrace.None {
		r.FileName = m.files[e.File]
	}
	switch {
	case e.Op == iotrace.Read:
		r.IOCat = ioRead
	case e.Op == iotrace.Write:
		r.IOCat = ioWrite
	case e.Op.Step():
		r.Cat = catStep
	default:
		r.IOCat = ioMetadata
	}
	if !e.Op.Step() && e.Module == iotrace.MPIIO {
		r.Cat = catMPIIO
	}
	if e.Op.Data() {
		r.Size = e.Bytes
		if e.End > e.Start {
			r.Bandwidth = float64(e.Bytes) / (1 << 20) / r.Duration
		}
		if e.Offset != iotrace.None {
			k := rankFile{e.Rank, e.File}
			if end, ok := m.ends[k]; ok && end != e.Offset {
				r.AccPat = 1
			}
			m.ends[k] = e.Offset + e.Bytes
		}
	}
	return r
}
