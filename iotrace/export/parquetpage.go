package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// largestPage bounds the size of a decompressed page. Pages of ckpt have an eighth of
// a MiB.
const largestPage = 16 << 20

// A pageReader decodes the pages of one column chunk after the other. It reuses its
// memory.
type pageReader struct {
	zstd   *zstd.Decoder
	raw    []byte // a page, decompressed
	values []int64
	words  []int64 // the dictionary of the column
	ops    map[string]int64
}

func newPageReader(ops map[string]int64) (*pageReader, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largestPage))
	return &pageReader{zstd: d, ops: ops}, err
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
		encoding := format.Plain
		switch v1, v2, d := &h.DataPageHeader, &h.DataPageHeaderV2, &h.DictionaryPageHeader; {
		case h.Type == format.DictionaryPage && d.Valid && !dictionary:
			n = d.V.NumValues
		case h.Type == format.DataPage && v1.Valid:
			n, encoding = v1.V.NumValues, v1.V.Encoding
		case h.Type == format.DataPageV2 && v2.Valid && v2.V.RepetitionLevelsByteLength == 0 && v2.V.DefinitionLevelsByteLength == 0:
			n, encoding = v2.V.NumValues, v2.V.Encoding
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
		p.values = sized(p.values, int(n))
		if err := p.decode(raw, encoding, meta.Type); err != nil {
			return err
		}
		if err := take(p.values); err != nil {
			return err
		}
		rows -= int(n)
	}
	return nil
}

func (p *pageReader) decompress(page []byte, codec format.CompressionCodec, size int32) ([]byte, error) {
	if size < 0 || size > largestPage {
		return nil, fmt.Errorf("a page of %d bytes", size)
	}
	raw := page
	switch codec {
	case format.Uncompressed:
	case format.Zstd:
		var err error
		if raw, err = p.zstd.DecodeAll(page, p.raw[:0]); err != nil {
			return nil, err
		}
		p.raw = raw
	default:
		return nil, fmt.Errorf("its pages are packed by %v, not by ZSTD", codec)
	}
	if len(raw) != int(size) {
		return nil, errors.New("the length of a page is wrong")
	}
	return raw, nil
}

func (p *pageReader) decode(b []byte, encoding format.Encoding, t format.Type) error {
	switch {
	case encoding == format.Plain:
		return p.plain(p.values, b, t)
	case encoding == format.DeltaBinaryPacked && (t == format.Int32 || t == format.Int64):
		return delta(p.values, b)
	case encoding == format.RLE && t == format.Boolean:
		if len(b) < 4 { // skip the length of the rest
			return errValues
		}
		return hybrid(p.values, b[4:], 1)
	case encoding == format.RLEDictionary:
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
	return fmt.Errorf("unsupported encoding %v", encoding)
}

func (p *pageReader) plain(out []int64, b []byte, t format.Type) error {
	if t == format.ByteArray {
		return words(out, b, p.ops)
	}
	return plain(out, b, t)
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
	case format.Int64:
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

// words decodes strings and looks up the number of each in a table.
func words(out []int64, b []byte, table map[string]int64) error {
	for i := range out {
		if len(b) < 4 {
			return errValues
		}
		n := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return errValues
		}
		v, ok := table[string(b[:n])]
		if !ok {
			return errors.New("the page has an unknown word")
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
			b = b[size:]
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
// bit-packed excess of each difference over it.
func delta(out []int64, b []byte) error {
	var head [4]uint64 // block size, miniblocks in one, values, first value
	for i := range head {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return errValues
		}
		head[i], b = x, b[n:]
	}
	block, parts := head[0], head[1]
	if block == 0 || block > 1<<16 || parts == 0 || parts > block || block%parts != 0 || block/parts%8 != 0 || head[2] != uint64(len(out)) {
		return errValues
	}
	if len(out) == 0 {
		return nil
	}
	last := unzigzag(head[3])
	out[0], out = last, out[1:]
	for len(out) > 0 {
		x, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < parts {
			return errValues
		}
		least, widths := unzigzag(x), b[n:n+int(parts)]
		b = b[n+int(parts):]
		for _, width := range widths {
			if len(out) == 0 {
				break
			}
			run := out[:min(len(out), int(block/parts))]
			if width > 64 || len(b) < (len(run)*int(width)+7)/8 {
				return errValues
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
	return nil
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
