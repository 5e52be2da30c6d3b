package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// largestPage bounds the size of a decompressed page. Pages of ckpt have an eighth of
// a MiB, of DuckDB all rows of a group.
const largestPage = 64 << 20

// A pageReader decodes the pages of one column chunk after the other. It reuses its
// memory.
type pageReader struct {
	zstd   *zstd.Decoder
	raw    []byte // a page, decompressed
	values []int64
	words  []int64 // the dictionary of the column
	// number gives the number of a string in the column.
	number func([]byte) (int64, error)
	// optional is set for a column that may lack values. Then levels has 0 for each row of
	// the page without one.
	optional bool
	levels   []int64
}

func newPageReader() (*pageReader, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largestPage))
	return &pageReader{zstd: d}, err
}

// column decodes the pages b of a column chunk with so many rows, and passes the
// values of each page to take.
func (p *pageReader) column(meta *format.ColumnMetaData, b []byte, rows int, take func([]int64) error) error {
	p.words = p.words[:0]
	dictionary := false
	for rows > 0 {
		check := thriftCheck{b: b}
		if err := check.structure(0); err != nil {
			return err
		}
		var h format.PageHeader
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:check.at], &h); err != nil {
			return err
		}
		b = b[check.at:]
		if h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > int64(len(b)) {
			return errors.New("a page is longer than its column")
		}
		page := b[:h.CompressedPageSize]
		b = b[len(page):]
		if h.CRC != 0 && crc32.ChecksumIEEE(page) != uint32(h.CRC) {
			return errors.New("the checksum of a page is wrong")
		}
		packed := meta.Codec
		var n int32
		var levels []byte
		encoding := format.Plain
		switch v1, v2, d := &h.DataPageHeader, &h.DataPageHeaderV2, &h.DictionaryPageHeader; {
		case h.Type == format.DictionaryPage && d.Valid && !dictionary:
			n = d.V.NumValues
		case h.Type == format.DataPage && v1.Valid:
			n, encoding = v1.V.NumValues, v1.V.Encoding
		case h.Type == format.DataPageV2 && v2.Valid && v2.V.RepetitionLevelsByteLength == 0 && p.fits(v2.V.DefinitionLevelsByteLength, len(page)):
			n, encoding = v2.V.NumValues, v2.V.Encoding
			levels, page = page[:v2.V.DefinitionLevelsByteLength], page[v2.V.DefinitionLevelsByteLength:]
			h.UncompressedPageSize -= int32(len(levels))
			if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
				packed = format.Uncompressed
			}
		default:
			return fmt.Errorf("page of unsupported type %v", h.Type)
		}
		if n < 0 || int(n) > rows {
			return errors.New("a page has more values than there are rows")
		}
		raw, err := p.decompress(page, packed, h.UncompressedPageSize)
		if err != nil {
			return err
		}
		if h.Type == format.DictionaryPage {
			dictionary = true
			p.words = sized(p.words, int(n))
			if err := p.plain(p.words, raw, meta.Type); err != nil {
				return err
			}
			continue
		}
		if h.Type == format.DataPage && p.optional {
			if len(raw) < 4 || uint64(binary.LittleEndian.Uint32(raw)) > uint64(len(raw)-4) {
				return errValues
			}
			k := int(binary.LittleEndian.Uint32(raw))
			levels, raw = raw[4:4+k], raw[4+k:]
		}
		if err := p.defined(levels, int(n)); err != nil {
			return err
		}
		if err := p.decode(raw, encoding, meta.Type); err != nil {
			return err
		}
		p.spread()
		if err := take(p.values); err != nil {
			return err
		}
		rows -= int(n)
	}
	return nil
}

// fits reports whether a page may begin with so many bytes of levels.
func (p *pageReader) fits(levels int32, page int) bool {
	return levels >= 0 && int(levels) <= page && (levels == 0 || p.optional)
}

// defined decodes which of n rows have a value, and makes room for these values.
func (p *pageReader) defined(levels []byte, n int) error {
	p.levels = p.levels[:0]
	if len(levels) > 0 {
		p.levels = sized(p.levels, n)
		if err := hybrid(p.levels, levels, 1); err != nil {
			return err
		}
		n = 0
		for _, l := range p.levels {
			n += int(l)
		}
	}
	p.values = sized(p.values, n)
	return nil
}

// spread moves the values to their rows. Others get 0.
func (p *pageReader) spread() {
	if len(p.levels) == 0 {
		return
	}
	from := len(p.values)
	p.values = append(p.values, p.levels[from:]...)
	for i := len(p.levels) - 1; i >= 0; i-- {
		if p.levels[i] == 0 {
			p.values[i] = 0
			continue
		}
		from--
		p.values[i] = p.values[from]
	}
}

func (p *pageReader) decompress(page []byte, codec format.CompressionCodec, size int32) ([]byte, error) {
	if size < 0 || size > largestPage {
		return nil, fmt.Errorf("a page of %d bytes", size)
	}
	raw := page
	if size == 0 && len(page) == 0 { // no row has a value
		return raw, nil
	}
	switch codec {
	case format.Uncompressed:
	case format.Zstd:
		var err error
		if raw, err = p.zstd.DecodeAll(page, p.raw[:0]); err != nil {
			return nil, err
		}
		p.raw = raw
	case format.Snappy:
		if n, err := s2.DecodedLen(page); err != nil || n != int(size) {
			return nil, errors.New("the length of a page is wrong")
		}
		var err error
		if raw, err = s2.Decode(p.raw[:cap(p.raw)], page); err != nil {
			return nil, err
		}
		p.raw = raw
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(page))
		if err != nil {
			return nil, err
		}
		if raw, err = io.ReadAll(io.LimitReader(z, int64(size)+1)); err != nil {
			return nil, err
		}
	case format.Lz4Raw:
		p.raw = p.raw[:0]
		var err error
		if raw, err = lz4(p.raw, page, int(size)); err != nil {
			return nil, err
		}
		p.raw = raw
	default:
		return nil, fmt.Errorf("%w: its pages are packed by %v; write it with SNAPPY, ZSTD, GZIP, LZ4_RAW or UNCOMPRESSED", errUnsupported, codec)
	}
	if len(raw) != int(size) {
		return nil, errors.New("the length of a page is wrong")
	}
	return raw, nil
}

// errUnsupported: the file is sound, and ckpt does not read it.
var errUnsupported = errors.New("not read")

// lz4 unpacks a block of LZ4 behind out, which becomes size bytes long: literals, and copies of
// what is up to 64 KiB before.
func lz4(out, b []byte, size int) ([]byte, error) {
	long := func(n int) (int, bool) { // goes on while bytes are 255
		for more := n == 15; more; {
			if len(b) == 0 || n > size {
				return 0, false
			}
			n, more, b = n+int(b[0]), b[0] == 255, b[1:]
		}
		return n, true
	}
	for len(b) > 0 {
		token := b[0]
		b = b[1:]
		n, ok := long(int(token >> 4))
		if !ok || n > len(b) || n > size-len(out) {
			return nil, errValues
		}
		out, b = append(out, b[:n]...), b[n:]
		if len(b) == 0 {
			break
		}
		if len(b) < 2 {
			return nil, errValues
		}
		back := int(binary.LittleEndian.Uint16(b))
		b = b[2:]
		if n, ok = long(int(token & 15)); !ok || back == 0 || back > len(out) || n+4 > size-len(out) {
			return nil, errValues
		}
		for range n + 4 {
			out = append(out, out[len(out)-back])
		}
	}
	return out, nil
}

func (p *pageReader) decode(b []byte, encoding format.Encoding, t format.Type) error {
	switch {
	case encoding == format.Plain:
		return p.plain(p.values, b, t)
	case encoding == format.DeltaBinaryPacked && (t == format.Int32 || t == format.Int64):
		_, err := delta(p.values, b)
		return err
	case encoding == format.RLE && t == format.Boolean:
		if len(b) < 4 { // skip the length of the rest
			return errValues
		}
		return hybrid(p.values, b[4:], 1)
	case encoding == format.DeltaLengthByteArray && t == format.ByteArray:
		return p.lengths(b)
	case encoding == format.RLEDictionary || encoding == format.PlainDictionary: //nolint:staticcheck // DuckDB writes it
		if len(b) == 0 {
			return errValues
		}
		if err := hybrid(p.values, b[1:], uint(b[0])); err != nil {
			return err
		}
		for i, v := range p.values {
			if uint64(v) >= uint64(len(p.words)) {
				return errors.New("a value is not in the dictionary")
			}
			p.values[i] = p.words[v]
		}
		return nil
	}
	return fmt.Errorf("%w: its encoding is %v; write it with dictionaries or plain", errUnsupported, encoding)
}

func (p *pageReader) plain(out []int64, b []byte, t format.Type) error {
	if t == format.ByteArray {
		return words(out, b, p.number)
	}
	return plain(out, b, t)
}

// lengths decodes strings whose lengths come first.
func (p *pageReader) lengths(b []byte) error {
	b, err := delta(p.values, b)
	if err != nil {
		return err
	}
	for i, n := range p.values {
		if n < 0 || n > int64(len(b)) {
			return errValues
		}
		if p.values[i], err = p.number(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sized returns s with n elements of any value.
func sized(s []int64, n int) []int64 {
	if cap(s) < n {
		return make([]int64, n)
	}
	return s[:n]
}

// The functions below decode exactly as many values as the caller asks for. No number
// in a file decides how much memory they take.

var errValues = errors.New("the values of the page are damaged")

// plain decodes numbers of a fixed size.
func plain(out []int64, b []byte, t format.Type) error {
	switch t {
	case format.Boolean:
		if len(b) != (len(out)+7)/8 {
			return errValues
		}
		for i := range out {
			out[i] = int64(b[i/8] >> (i % 8) & 1)
		}
	case format.Int32:
		if len(b) != 4*len(out) {
			return errValues
		}
		for i := range out {
			out[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	case format.Float: // as the bits of a double
		if len(b) != 4*len(out) {
			return errValues
		}
		for i := range out {
			x := float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
			out[i] = int64(math.Float64bits(x))
		}
	case format.Int64, format.Double:
		if len(b) != 8*len(out) {
			return errValues
		}
		for i := range out {
			out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	default:
		return errValues
	}
	return nil
}

// words decodes strings and asks for the number of each.
func words(out []int64, b []byte, number func([]byte) (int64, error)) error {
	for i := range out {
		if len(b) < 4 {
			return errValues
		}
		n := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return errValues
		}
		v, err := number(b[:n])
		if err != nil {
			return err
		}
		out[i], b = v, b[n:]
	}
	if len(b) > 0 {
		return errValues
	}
	return nil
}

// hybrid decodes runs of equal numbers and bit-packed numbers of a width.
func hybrid(out []int64, b []byte, width uint) error {
	if width > 32 {
		return errValues
	}
	for len(out) > 0 {
		h, n := binary.Uvarint(b)
		if n <= 0 || h>>1 == 0 {
			return errValues
		}
		b = b[n:]
		if h&1 == 0 {
			size := int(width+7) / 8
			if len(b) < size {
				return errValues
			}
			var v int64
			for i := range size {
				v |= int64(b[i]) << (8 * i)
			}
			if b = b[size:]; v>>width != 0 {
				return errValues
			}
			run := out[:min(h>>1, uint64(len(out)))]
			for i := range run {
				run[i] = v
			}
			out = out[len(run):]
			continue
		}
		run := out
		if groups := h >> 1; groups < uint64(len(out)+7)/8 {
			run = out[:8*groups]
		}
		size := (len(run)*int(width) + 7) / 8
		if len(b) < size {
			return errValues
		}
		unpack(run, b, width)
		out = out[len(run):]
		b = b[min(uint64(len(b)), h>>1*uint64(width)):]
	}
	return nil
}

// delta decodes DELTA_BINARY_PACKED: blocks with their smallest difference and the
// bit-packed excess of each difference over it. It returns what is behind them.
func delta(out []int64, b []byte) (rest []byte, err error) {
	var head [4]uint64 // block size, miniblocks in one, values, first value
	for i := range head {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errValues
		}
		head[i], b = x, b[n:]
	}
	block, parts := head[0], head[1]
	if block == 0 || block > 1<<16 || parts == 0 || parts > block || block%parts != 0 || block/parts%8 != 0 || head[2] != uint64(len(out)) {
		return nil, errValues
	}
	if len(out) == 0 {
		return b, nil
	}
	last := unzigzag(head[3])
	out[0], out = last, out[1:]
	for len(out) > 0 {
		x, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < parts {
			return nil, errValues
		}
		least, widths := unzigzag(x), b[n:n+int(parts)]
		b = b[n+int(parts):]
		for _, width := range widths {
			if len(out) == 0 {
				break
			}
			run := out[:min(len(out), int(block/parts))]
			if width > 64 || len(b) < (len(run)*int(width)+7)/8 {
				return nil, errValues
			}
			unpack(run, b, uint(width))
			for i, d := range run {
				last += least + d
				run[i] = last
			}
			out = out[len(run):]
			b = b[min(len(b), int(block/parts)*int(width)/8):]
		}
	}
	return b, nil
}

func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// unpack decodes numbers of width bits each, lowest bits first. b must have enough of
// them.
func unpack(out []int64, b []byte, width uint) {
	if width == 0 {
		clear(out)
		return
	}
	mask := uint64(1)<<width - 1 // all ones for 64
	var bit uint
	for i := range out {
		at, shift := int(bit/8), bit%8
		var x uint64
		if at+8 <= len(b) {
			x = binary.LittleEndian.Uint64(b[at:])
		} else {
			for k, c := range b[at:] {
				x |= uint64(c) << (8 * k)
			}
		}
		x >>= shift
		if shift+width > 64 {
			x |= uint64(b[at+8]) << (64 - shift)
		}
		out[i] = int64(x & mask)
		bit += width
	}
}
