package codec

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

var errLength = errors.New("it does not decode to the length of the extent")

// A Decoder restores extents. The zero value is ready; it serves one goroutine, reuses its
// buffers and needs no closing.
type Decoder struct {
	buf  []byte // what is to be unfiltered, or may come out longer than the extent
	zstd *zstd.Decoder
	gzip *gzip.Reader
	in   bytes.Reader
}

// Decode fills dst, as long as the extent, from what was stored with this id and filter, apart
// from it. After an error the contents of dst are undefined.
func (d *Decoder) Decode(dst, stored []byte, id ID, f Filter) error {
	switch {
	case !id.Valid() || !f.Valid():
		return fmt.Errorf("extent is stored with unknown %v, %v", id, f)
	case len(dst) > maxExtent:
		return fmt.Errorf("extent of %d bytes is longer than %d", len(dst), maxExtent)
	case len(dst)%f.width() != 0:
		return fmt.Errorf("extent of %d bytes cannot have %v", len(dst), f)
	case id <= Zero && f != NoFilter:
		return fmt.Errorf("%v extent cannot have %v", id, f)
	case id == Raw && len(stored) != len(dst), id == Zero && len(stored) != 0:
		return fmt.Errorf("%v extent of %d bytes is stored in %d", id, len(dst), len(stored))
	}
	if err := d.decode(dst, stored, id, f); err != nil {
		return fmt.Errorf("%v extent of %d bytes, %v, stored in %d: %w", id, len(dst), f, len(stored), err)
	}
	return nil
}

func (d *Decoder) decode(dst, stored []byte, id ID, f Filter) error {
	out := dst
	if f != NoFilter || id == Zstd {
		out = d.buffer(len(dst))
	}
	var err error
	switch id {
	case Raw:
		copy(dst, stored)
	case Zero:
		clear(dst)
	case S2:
		err = decodeS2(out, stored)
	case Zstd:
		err = d.decodeZstd(out, stored)
	case Gzip:
		err = d.decodeGzip(out, stored)
	}
	switch {
	case err != nil:
		return err
	case f != NoFilter:
		unshuffle(dst, out, f)
	case id == Zstd:
		copy(dst, out)
	}
	return nil
}

// buffer returns n bytes with zstdSlack more behind them.
func (d *Decoder) buffer(n int) []byte {
	d.buf = grow(d.buf, n+zstdSlack)
	return d.buf[:n]
}

func decodeS2(dst, stored []byte) error {
	n, err := s2.DecodedLen(stored)
	if err == nil && n != len(dst) {
		err = errLength
	}
	if err == nil {
		_, err = s2.Decode(dst[:n:n], stored) // in place: dst is long enough
	}
	return err
}

// decodeGzip decompresses at most one byte too many, so that a bomb does not go off.
func (d *Decoder) decodeGzip(dst, stored []byte) error {
	if d.gzip == nil {
		d.gzip = new(gzip.Reader)
	}
	d.in.Reset(stored)
	defer d.in.Reset(nil)
	if err := d.gzip.Reset(&d.in); err != nil {
		return err
	}
	d.gzip.Multistream(false)
	if _, err := io.ReadFull(d.gzip, dst); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	// The end of the stream is where its checksum is compared.
	var more [1]byte
	switch n, err := io.ReadFull(d.gzip, more[:]); {
	case n != 0:
		return errLength
	case err != io.EOF:
		return err
	case d.in.Len() != 0:
		return errors.New("there is more behind the gzip member")
	}
	return nil
}

// zstdSlack is the space for what a frame that lies about its content size puts out before the
// decoder notices: one block, of at most 128 KiB (RFC 8878, s. 3.1.1.2.3), twice to be safe.
// Without it, the decoder would reallocate the output.
const zstdSlack = 256 << 10

// decodeZstd decompresses stored into dst, which has zstdSlack more capacity. It measures each
// frame first, to ask for no more than is left.
func (d *Decoder) decodeZstd(dst, stored []byte) error {
	if d.zstd == nil {
		var err error
		d.zstd, err = zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxExtent),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
	}
	for len(dst) > 0 {
		size, content, err := zstdFrame(stored)
		if err != nil {
			return err
		}
		if content == 0 || content > uint64(len(dst)) {
			return errLength
		}
		out, err := d.zstd.DecodeAll(stored[:size], dst[:0])
		if err != nil {
			return err
		}
		if uint64(len(out)) != content || &out[0] != &dst[0] {
			return errLength
		}
		dst, stored = dst[content:], stored[size:]
	}
	if len(stored) > 0 {
		return errors.New("there is more behind the last frame")
	}
	return nil
}

// zstdFrame returns the lengths of the first frame and of its content, out of headers only (RFC
// 8878, s. 3.1.1).
func zstdFrame(b []byte) (size int, content uint64, err error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return 0, 0, err
	}
	if h.Skippable || !h.HasFCS {
		return 0, 0, errors.New("frame without content size")
	}
	at := h.HeaderSize
	for last := false; !last; {
		if len(b)-at < 3 {
			return 0, 0, io.ErrUnexpectedEOF
		}
		head := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16
		at += 3
		last = head&1 != 0
		if length := head >> 3; head>>1&3 == 1 { // a run of one byte
			at++
		} else {
			at += length
		}
		if at > len(b) {
			return 0, 0, io.ErrUnexpectedEOF
		}
	}
	if h.HasCheckSum {
		at += 4
	}
	if at > len(b) {
		return 0, 0, io.ErrUnexpectedEOF
	}
	return at, h.FrameContentSize, nil
}
