package export

import (
	"encoding/binary"
	"errors"

	"github.com/parquet-go/parquet-go/format"
)

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
