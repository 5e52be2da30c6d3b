package export

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"ckpt/iotrace"
)

// A parquetColumn is one of the columns that events are made of.
type parquetColumn struct {
	name        string
	types       []format.Type
	least, most int64
	set         func(*iotrace.Event, int64)
}

var (
	integers = []format.Type{format.Int32, format.Int64}

	parquetColumns = []parquetColumn{
		{"func_id", []format.Type{format.ByteArray}, 0, math.MaxUint8, func(e *iotrace.Event, v int64) { e.Op = iotrace.Op(v) }},
		{"file_id", integers, math.MinInt32, math.MaxInt32, func(e *iotrace.Event, v int64) { e.File = int32(v) }},
		{"proc_id", integers, math.MinInt32, math.MaxInt32, func(e *iotrace.Event, v int64) { e.Rank = int32(v) }},
		{"ckpt_module", integers, 0, math.MaxUint8, func(e *iotrace.Event, v int64) { e.Module = iotrace.Module(v) }},
		{"ckpt_zone", integers, 0, math.MaxUint8, func(e *iotrace.Event, v int64) { e.Zone = iotrace.Zone(v) }},
		{"ckpt_create", []format.Type{format.Boolean}, 0, 1, func(e *iotrace.Event, v int64) { e.Create = v == 1 }},
		{"ckpt_peer", integers, math.MinInt32, math.MaxInt32, func(e *iotrace.Event, v int64) { e.Peer = int32(v) }},
		{"ckpt_checkpoint", integers, math.MinInt32, math.MaxInt32, func(e *iotrace.Event, v int64) { e.Checkpoint = int32(v) }},
		{"ckpt_round", integers, math.MinInt32, math.MaxInt32, func(e *iotrace.Event, v int64) { e.Round = int32(v) }},
		{"ckpt_offset", integers, math.MinInt64, math.MaxInt64, func(e *iotrace.Event, v int64) { e.Offset = v }},
		{"ckpt_bytes", integers, math.MinInt64, math.MaxInt64, func(e *iotrace.Event, v int64) { e.Bytes = v }},
		{"ckpt_start_ns", integers, math.MinInt64, math.MaxInt64, func(e *iotrace.Event, v int64) { e.Start = v }},
		{"ckpt_end_ns", integers, math.MinInt64, math.MaxInt64, func(e *iotrace.Event, v int64) { e.End = v }},
	}
)

const (
	// mostInGroup bounds the rows of a group, and with it the memory for decoding.
	// Groups of ckpt have rowGroup rows.
	mostInGroup = 1 << 20
	// A row of ckpt takes tens of bytes, but eight equal rows take one byte. Memory
	// for rowsPerByte of a file is allocated at once, and memory for more rows once
	// they are decoded.
	rowsPerByte = 4
	// mostPerByte bounds the rows per byte of a file with more than mostUnasked rows:
	// pages of equal values could turn a megabyte into a terabyte.
	mostPerByte = 64
)

var mostUnasked int64 = 1 << 21 // fewer in a test

// ReadParquet reads the output of WriteParquet, size bytes long, and rows with the columns
// of it, of a CSV or of Recorder that another program has written. Errors name the column
// and the offset at which it begins.
//
// It decodes the few columns and encodings by itself, because the reader of parquet-go
// does not bound memory: it turns a run of six bytes into 8 GiB of values, which no
// recover prevents. It also panics on changed bytes, and takes twice the time for
// whole pages of values and ten times for rows.
func ReadParquet(r io.ReaderAt, size int64, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	head := make([]byte, iotrace.HeadBytes)
	n, _ := r.ReadAt(head, 0)
	rep := &iotrace.Report{}
	if iotrace.Detect(head[:n]) != iotrace.FormatParquet {
		return nil, rep, iotrace.WrongFormat(head[:n], iotrace.FormatParquet)
	}
	x := &parquetReader{r: r, size: size}
	if err := x.footer(); err != nil {
		return nil, rep, err
	}
	var err error
	if x.pages, err = newPageReader(); err != nil {
		return nil, rep, err
	}
	defer x.pages.zstd.Close()
	i := slices.IndexFunc(x.meta.KeyValueMetadata, func(kv format.KeyValue) bool { return kv.Key == tablesKey })
	if i < 0 || x.rewritten() {
		t, err := x.table(o, rep)
		return t, rep, err
	}
	if err := x.schema(); err != nil {
		return nil, rep, err
	}
	// The tables are a trace without events.
	if x.t, err = iotrace.ReadTrace(base64.NewDecoder(base64.StdEncoding, strings.NewReader(x.meta.KeyValueMetadata[i].Value))); err != nil {
		return nil, rep, damaged(x.end, "metadata %s: %v", tablesKey, err)
	}
	if err := x.events(); err != nil {
		return nil, rep, err
	}
	x.t.Sort()
	return x.t, rep, nil
}

// rewritten reports whether another program wrote the rows anew, and kept the metadata.
func (x *parquetReader) rewritten() bool {
	return slices.ContainsFunc(x.meta.Schema, func(s format.SchemaElement) bool {
		return s.RepetitionType.Valid && s.RepetitionType.V == format.Optional
	})
}

type parquetReader struct {
	r    io.ReaderAt
	size int64
	end  int64 // where the footer begins
	meta format.FileMetaData
	t    *iotrace.Trace
	raw  []byte

	pages *pageReader
}

func damaged(at int64, format string, args ...any) error {
	return &iotrace.FormatError{Offset: at, Reason: "damaged Parquet: " + fmt.Sprintf(format, args...)}
}

func (x *parquetReader) footer() error {
	tail := make([]byte, 8)
	if x.size < int64(len(parquetMagic)+len(tail)) {
		return damaged(0, "the file has no end")
	}
	if _, err := x.r.ReadAt(tail, x.size-8); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	x.end = x.size - 8 - length
	if string(tail[4:]) != parquetMagic || x.end < int64(len(parquetMagic)) {
		e := damaged(x.size-8, "the end of the file is missing")
		e.(*iotrace.FormatError).Err = iotrace.ErrTruncated
		return e
	}
	b := make([]byte, length)
	if _, err := x.r.ReadAt(b, x.end); err != nil {
		return err
	}
	check := thriftCheck{b: b, least: func(depth, field int) int {
		switch {
		case depth == 0 && field == 4:
			return 64 // row groups
		case depth == 1 && field == 1:
			return 20 // their columns
		}
		return 3
	}}
	if err := check.structure(0); err != nil {
		return damaged(x.end, "%v", err)
	}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:check.at], &x.meta); err != nil {
		return damaged(x.end, "%v", err)
	}
	return nil
}

// schema checks that all columns exist, with one value in each row.
func (x *parquetReader) schema() error {
	for _, want := range parquetColumns {
		i := slices.IndexFunc(x.meta.Schema, func(s format.SchemaElement) bool { return s.Name == want.name })
		switch {
		case i < 0:
			return &iotrace.FormatError{Offset: x.end, Reason: "column " + want.name + " is missing"}
		case !x.meta.Schema[i].Type.Valid || !slices.Contains(want.types, x.meta.Schema[i].Type.V):
			return &iotrace.FormatError{Offset: x.end, Reason: "column " + want.name + " is of another type"}
		case x.meta.Schema[i].RepetitionType.Valid && x.meta.Schema[i].RepetitionType.V != format.Required:
			return &iotrace.FormatError{Offset: x.end, Reason: "column " + want.name + " may lack values"}
		}
	}
	return nil
}

// rows counts the rows of all groups, and checks that they may be there.
func (x *parquetReader) rows(mostInGroup int64) (total int64, err error) {
	for _, g := range x.meta.RowGroups {
		if g.NumRows < 0 || g.NumRows > mostInGroup {
			return 0, damaged(x.end, "%d rows in a group", g.NumRows)
		}
		total += g.NumRows
	}
	if total != x.meta.NumRows {
		e := damaged(x.end, "%d rows announced, %d found", x.meta.NumRows, total)
		e.(*iotrace.FormatError).Err = iotrace.ErrTruncated
		return 0, e
	}
	if total > mostUnasked && total/mostPerByte > x.size {
		return 0, damaged(x.end, "%d rows in %d bytes", total, x.size)
	}
	return total, nil
}

func (x *parquetReader) events() error {
	total, err := x.rows(mostInGroup)
	if err != nil {
		return err
	}
	ops := make(map[string]int64)
	for op := iotrace.Op(1); op.Valid(); op++ {
		ops[op.String()] = int64(op)
	}
	x.pages.number = func(name []byte) (int64, error) {
		if op, ok := ops[string(name)]; ok {
			return op, nil
		}
		return 0, errors.New("the page has an unknown word")
	}
	x.t.Events = make([]iotrace.Event, 0, min(total, rowsPerByte*x.size))
	left := x.end // bytes left for columns, which must not overlap
	for i := range x.meta.RowGroups {
		g := &x.meta.RowGroups[i]
		from, to := len(x.t.Events), len(x.t.Events)+int(g.NumRows)
		x.t.Events = slices.Grow(x.t.Events, to-from)[:to]
		events := x.t.Events[from:] // the columns set all fields
		for k := range parquetColumns {
			used, err := x.column(g, &parquetColumns[k], events)
			if err != nil {
				return err
			}
			if left -= used; left < 0 {
				return damaged(x.end, "columns overlap")
			}
		}
	}
	for i := range x.t.Events {
		if err := x.t.Events[i].Check(len(x.t.Ranks), len(x.t.Files)); err != nil {
			return &iotrace.FormatError{Offset: x.end, Reason: fmt.Sprintf("row %d: %v", i, err)}
		}
	}
	return nil
}

// column sets one field of the events of a group, and returns the length of the
// column.
func (x *parquetReader) column(g *format.RowGroup, c *parquetColumn, events []iotrace.Event) (int64, error) {
	row := 0
	return x.chunk(g, c.name, c.types, func(values []int64) error {
		for i, v := range values {
			if v < c.least || v > c.most {
				return errors.New("a number is out of range")
			}
			c.set(&events[row+i], v)
		}
		row += len(values)
		return nil
	})
}

// chunk passes the values of a column of a group to take, page by page, and returns the
// length of the column.
func (x *parquetReader) chunk(g *format.RowGroup, name string, types []format.Type, take func([]int64) error) (int64, error) {
	i := slices.IndexFunc(g.Columns, func(k format.ColumnChunk) bool {
		return len(k.MetaData.PathInSchema) == 1 && k.MetaData.PathInSchema[0] == name
	})
	if i < 0 {
		return 0, damaged(x.end, "a group without column %s", name)
	}
	meta := &g.Columns[i].MetaData
	at, n := meta.DataPageOffset, meta.TotalCompressedSize
	if d := meta.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	switch {
	case at < 0 || n < 0 || n > x.end || at > x.end-n:
		return 0, damaged(x.end, "column %s lies outside of the file", name)
	case !slices.Contains(types, meta.Type) || meta.NumValues != g.NumRows:
		return 0, damaged(x.end, "column %s differs from its schema", name)
	}
	if int64(cap(x.raw)) < n {
		x.raw = make([]byte, n)
	}
	b := x.raw[:n]
	if _, err := x.r.ReadAt(b, at); err != nil {
		return 0, err
	}
	err := x.pages.column(meta, b, int(g.NumRows), take)
	if errors.Is(err, errUnsupported) {
		return 0, &iotrace.FormatError{Offset: at, Reason: fmt.Sprintf("column %s: %v", name, err), Err: iotrace.ErrWrongFormat}
	}
	if err != nil {
		return 0, damaged(at, "column %s: %v", name, err)
	}
	return n, nil
}

// A thriftCheck walks over a structure in Thrift's compact protocol, the encoding of
// Parquet's metadata. It stops where a value would need more bytes than there are. The
// decoder that runs afterwards allocates lists of any announced length, which could
// exceed all memory.
type thriftCheck struct {
	b  []byte
	at int
	// least returns the smallest size in bytes of an element in a list of structures,
	// at least 1. The arguments are the depth of nesting and the field.
	least func(depth, field int) int
}

var errThrift = errors.New("damaged metadata")

// Types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12
)

const thriftDepth = 16 // nested structures; Parquet has five

// structure walks over one.
func (c *thriftCheck) structure(depth int) error {
	if depth > thriftDepth {
		return errThrift
	}
	field := 0
	for {
		if c.at >= len(c.b) {
			return errThrift
		}
		h := c.b[c.at]
		c.at++
		if h == 0 {
			return nil
		}
		if delta := int(h >> 4); delta != 0 {
			field += delta
		} else {
			id, err := c.varint()
			if err != nil {
				return err
			}
			field = int(int16(id>>1) ^ -int16(id&1))
		}
		if t := h & 15; t == thriftTrue || t == thriftFalse { // the type is the value
			continue
		} else if err := c.value(int(t), depth, field); err != nil {
			return err
		}
	}
}

func (c *thriftCheck) value(kind, depth, field int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return c.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := c.varint()
		return err
	case thriftDouble:
		return c.skip(8)
	case thriftBinary:
		n, err := c.varint()
		if err != nil {
			return err
		}
		return c.skip(n)
	case thriftList, thriftSet:
		return c.list(depth, field)
	case thriftStruct:
		return c.structure(depth + 1)
	}
	return errThrift // maps, which Parquet lacks
}

func (c *thriftCheck) list(depth, field int) error {
	if c.at >= len(c.b) {
		return errThrift
	}
	h := c.b[c.at]
	c.at++
	n := uint64(h >> 4)
	if n == 15 {
		var err error
		if n, err = c.varint(); err != nil {
			return err
		}
	}
	least := 1
	if h&15 == thriftStruct && c.least != nil {
		least = c.least(depth, field)
	}
	if n > uint64(len(c.b)-c.at)/uint64(least) {
		return errThrift
	}
	for range n {
		if err := c.value(int(h&15), depth, field); err != nil {
			return err
		}
	}
	return nil
}

func (c *thriftCheck) skip(n uint64) error {
	if n > uint64(len(c.b)-c.at) {
		return errThrift
	}
	c.at += int(n)
	return nil
}

func (c *thriftCheck) varint() (uint64, error) {
	x, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		return 0, errThrift
	}
	c.at += n
	return x, nil
}
