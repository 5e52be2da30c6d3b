package export

import (
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
