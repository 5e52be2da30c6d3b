package codec

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdSlack is the space for what a frame that lies about its content size may
// put out before the decoder notices: one block, of at most 128 KiB (RFC 8878,
// s. 3.1.1.2.3), and what the decoder writes in excess for speed. Without it,
// the decoder would reallocate the output. Twice that, to be safe.
const zstdSlack = 256 << 10

// decodeZstd decompresses stored into dst, which has zstdSlack more capacity
// than length. The frames are measured before they are decompressed, so that
// each is asked for no more than is left.
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

// zstdFrame returns the length of the frame at the start of b and of its
// content. It reads headers only (RFC 8878, s. 3.1.1).
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
