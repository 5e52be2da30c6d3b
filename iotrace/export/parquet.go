package export

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	deltaenc "github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

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

// rowsInPage is the number of rows of a full page.
const rowsInPage = 1 << 14

// A parquetWriter writes rows as groups of columns. It uses the encodings of parquet-go
// but not its writer, which links protocol buffers, geometry, all codecs and an HTTP
// server into every program: a quarter of the time to build ckpt.
type parquetWriter struct {
	w       io.Writer
	at      int64 // bytes written
	zstd    *zstd.Encoder
	columns []columnWriter
	rows    int64 // of the group
	meta    format.FileMetaData
}

// A columnWriter collects the pages of a column chunk.
type columnWriter struct {
	field    []int // of parquetRow
	element  format.SchemaElement
	encoding format.Encoding
	numbers  map[int64]int32 // places in the dictionary
	words    map[string]int32
	entries  []byte // of the dictionary
	pages    []byte
	unpacked int64 // length of the pages before compression
}

const parquetMagic = "PAR1"

func newParquetWriter(w io.Writer, tables string) (*parquetWriter, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	p := &parquetWriter{w: w, zstd: z}
	p.meta = format.FileMetaData{Version: 1, CreatedBy: "ckpt version 1 (build iotrace)",
		KeyValueMetadata: []format.KeyValue{{Key: tablesKey, Value: tables}}}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[parquetRow]()) {
		if !f.Anonymous {
			p.columns = append(p.columns, newColumnWriter(f))
		}
	}
	p.meta.Schema = append(p.meta.Schema, format.SchemaElement{Name: "parquetRow", NumChildren: thrift.New(int32(len(p.columns)))})
	for i := range p.columns {
		p.meta.Schema = append(p.meta.Schema, p.columns[i].element)
	}
	return p, p.put([]byte(parquetMagic))
}

func newColumnWriter(f reflect.StructField) columnWriter {
	name, encoding, _ := strings.Cut(f.Tag.Get("parquet"), ",")
	c := columnWriter{field: f.Index, numbers: make(map[int64]int32), words: make(map[string]int32)}
	c.element = format.SchemaElement{Name: name, RepetitionType: thrift.New(format.Required)}
	c.encoding = map[string]format.Encoding{"": format.Plain, "dict": format.RLEDictionary, "delta": format.DeltaBinaryPacked}[encoding]
	c.element.Type = thrift.New(map[reflect.Kind]format.Type{reflect.Bool: format.Boolean, reflect.Int32: format.Int32,
		reflect.Int64: format.Int64, reflect.Float64: format.Double, reflect.String: format.ByteArray}[f.Type.Kind()])
	if f.Type.Kind() == reflect.String {
		c.element.ConvertedType = thrift.New(deprecated.UTF8)
		c.element.LogicalType.Value = &format.StringType{}
	}
	return c
}

// write writes a page of rows to each column, and the group when it is full.
func (p *parquetWriter) write(rows []parquetRow) error {
	v := reflect.ValueOf(rows)
	for i := range p.columns {
		c := &p.columns[i]
		page, err := c.encode(v)
		if err != nil {
			return err
		}
		h := format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: int32(len(rows)),
			Encoding: c.encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}
		b, unpacked, err := p.page(h, page)
		if err != nil {
			return err
		}
		c.pages = append(c.pages, b...)
		c.unpacked += unpacked
	}
	if p.rows += int64(len(rows)); p.rows == rowGroup {
		return p.group()
	}
	return nil
}

// encode encodes the values of a page.
func (c *columnWriter) encode(rows reflect.Value) ([]byte, error) {
	n := rows.Len()
	at := func(i int) reflect.Value { return rows.Index(i).FieldByIndex(c.field) }
	switch c.encoding {
	case format.RLEDictionary:
		places := make([]int32, n)
		for i := range places {
			places[i] = c.place(at(i))
		}
		return new(rle.DictionaryEncoding).EncodeInt32(nil, places)
	case format.DeltaBinaryPacked:
		values := make([]int64, n)
		for i := range values {
			values[i] = at(i).Int()
		}
		return new(deltaenc.BinaryPackedEncoding).EncodeInt64(nil, values)
	}
	if c.element.Type.V == format.Boolean {
		bits := make([]byte, (n+7)/8)
		for i := range n {
			if at(i).Bool() {
				bits[i/8] |= 1 << (i % 8)
			}
		}
		return bits, nil
	}
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(at(i).Float()))
	}
	return b, nil
}

// place returns the place of a value in the dictionary, where it adds a new one.
func (c *columnWriter) place(v reflect.Value) int32 {
	if c.element.Type.V == format.ByteArray {
		return placeIn(c.words, v.String(), func() {
			c.entries = binary.LittleEndian.AppendUint32(c.entries, uint32(v.Len()))
			c.entries = append(c.entries, v.String()...)
		})
	}
	return placeIn(c.numbers, v.Int(), func() {
		if c.element.Type.V == format.Int32 {
			c.entries = binary.LittleEndian.AppendUint32(c.entries, uint32(v.Int()))
		} else {
			c.entries = binary.LittleEndian.AppendUint64(c.entries, uint64(v.Int()))
		}
	})
}

func placeIn[K comparable](places map[K]int32, key K, add func()) int32 {
	at, ok := places[key]
	if !ok {
		at = int32(len(places))
		places[key] = at
		add()
	}
	return at
}

// page compresses a page, and returns it with its header and its length before
// compression.
func (p *parquetWriter) page(h format.PageHeader, page []byte) (b []byte, unpacked int64, err error) {
	packed := p.zstd.EncodeAll(page, nil)
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(page)), int32(len(packed))
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	return append(head, packed...), int64(len(head) + len(page)), err
}

// group writes the columns, and makes them empty.
func (p *parquetWriter) group() error {
	g := format.RowGroup{NumRows: p.rows, FileOffset: p.at, Ordinal: int16(len(p.meta.RowGroups))}
	for i := range p.columns {
		c := &p.columns[i]
		m := format.ColumnMetaData{Type: c.element.Type.V, Encoding: []format.Encoding{c.encoding}, PathInSchema: []string{c.element.Name},
			Codec: format.Zstd, NumValues: p.rows, DataPageOffset: p.at}
		chunk := c.pages
		if n := len(c.numbers) + len(c.words); n > 0 {
			m.Encoding = append(m.Encoding, format.Plain)
			h := format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(n), Encoding: format.Plain})}
			dictionary, unpacked, err := p.page(h, c.entries)
			if err != nil {
				return err
			}
			m.DictionaryPageOffset, m.DataPageOffset = p.at, p.at+int64(len(dictionary))
			c.unpacked += unpacked
			chunk = append(dictionary, chunk...)
		}
		m.TotalUncompressedSize, m.TotalCompressedSize = c.unpacked, int64(len(chunk))
		g.TotalByteSize += c.unpacked
		g.TotalCompressedSize += int64(len(chunk))
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: m})
		if err := p.put(chunk); err != nil {
			return err
		}
		c.pages, c.entries, c.unpacked = c.pages[:0], c.entries[:0], 0
		clear(c.numbers)
		clear(c.words)
	}
	p.meta.RowGroups = append(p.meta.RowGroups, g)
	p.meta.NumRows += p.rows
	p.rows = 0
	return nil
}

func (p *parquetWriter) put(b []byte) error {
	n, err := p.w.Write(b)
	p.at += int64(n)
	return err
}

// close writes the last group and the footer.
func (p *parquetWriter) close() error {
	if p.rows > 0 {
		if err := p.group(); err != nil {
			return err
		}
	}
	foot, err := thrift.Marshal(new(thrift.CompactProtocol), &p.meta)
	if err != nil {
		return err
	}
	return p.put(append(binary.LittleEndian.AppendUint32(foot, uint32(len(foot))), parquetMagic...))
}
