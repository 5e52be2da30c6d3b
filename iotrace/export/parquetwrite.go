package export

import (
	"encoding/binary"
	"io"
	"math"
	"reflect"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	deltaenc "github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

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
