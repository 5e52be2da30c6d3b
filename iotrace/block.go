package iotrace

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// The layout of the file; see the package comment.
const (
	magic      = "\x89CKTR\r\n\x1a"
	version    = 2
	headerSize = 16

	blockHeader = 28
	// maxPayload bounds a block, so that its length can be believed.
	maxPayload = 1 << 20
	// blockTarget is the length at which a block is full. Damage loses a block: with
	// 8 KiB, about 800 events. TestSize measures 10.3 bytes an event with 8 KiB, 10.6
	// with 4 and 10.0 with 64; of 1024 ranks in turns, which repeat little in a block,
	// 17.4, 18.3 and 14.2.
	blockTarget = 8 << 10

	kindHead       = "HEAD"
	kindRanks      = "RANK"
	kindFiles      = "FILE"
	kindEvents     = "EVNT"
	kindCounters   = "COUN"
	kindStriping   = "STRP"
	kindRenames    = "RENM"
	kindWarnings   = "WARN"
	kindProperties = "PROP"
	kindEnd        = "ENDS"

	// minEvent is the shortest event: kind, start, end.
	minEvent = 3
)

// listed are the kinds of blocks with entries, in the order in which ENDS counts them.
var listed = [...]string{kindEvents, kindRanks, kindFiles, kindCounters, kindStriping, kindRenames, kindWarnings, kindProperties}

const endPayload = 8 * (1 + len(listed))

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type block struct {
	at      int64 // offset in the file
	kind    string
	count   int
	first   int64  // entries of this kind in front of the block
	payload []byte // until the next block is read
}

// seal fills in the header of a block whose payload begins at blockHeader.
func seal(block []byte, kind string, count int, first int64) {
	copy(block, kind)
	payload := block[blockHeader:]
	binary.LittleEndian.PutUint32(block[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(block[8:], uint32(count))
	binary.LittleEndian.PutUint64(block[12:], uint64(first))
	binary.LittleEndian.PutUint32(block[20:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(block[24:], crc32.Checksum(block[:24], castagnoli))
}

// wholeHeader reports whether b begins with the undamaged header of a block.
func wholeHeader(b []byte) bool {
	return len(b) >= blockHeader && crc32.Checksum(b[:24], castagnoli) == binary.LittleEndian.Uint32(b[24:])
}

func payloadLength(header []byte) int { return int(binary.LittleEndian.Uint32(header[4:])) }

// isKind reports whether b begins like a block.
func isKind(b []byte) bool {
	switch string(b[:4]) {
	case kindHead, kindRanks, kindFiles, kindEvents, kindCounters, kindStriping, kindRenames, kindWarnings, kindProperties, kindEnd:
		return true
	}
	return false
}

// fileHeader returns the first bytes of every file.
func fileHeader() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
	return b
}

// beginsEvents reports whether a file begins like an events file, whose first bytes may
// be damaged.
func beginsEvents(head []byte) bool {
	return len(head) >= len(magic) && string(head[:len(magic)]) == magic ||
		len(head) >= headerSize+blockHeader && string(head[headerSize:headerSize+4]) == kindHead && wholeHeader(head[headerSize:])
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// An input reads ahead of a stream, so that a search for the next block can begin
// anywhere.
type input struct {
	r        io.Reader
	store    []byte
	from, to int   // what was read and not yet used
	off      int64 // of the first of it
	err      error
}

// peek returns the next n bytes, or fewer if the input ends. They are valid until the
// next call.
func (x *input) peek(n int) []byte {
	for x.to-x.from < n && x.err == nil {
		if x.from+n > len(x.store) {
			store := x.store
			if n > len(store) {
				store = make([]byte, max(2*n, 32<<10))
			}
			x.from, x.to = 0, copy(store, x.store[x.from:x.to])
			x.store = store
		}
		var got int
		got, x.err = x.r.Read(x.store[x.to:])
		x.to += got
	}
	return x.store[x.from:min(x.to, x.from+n)]
}

// skip uses n bytes that were read already.
func (x *input) skip(n int) {
	x.from += n
	x.off += int64(n)
}

// ended returns the error of an input without the bytes that were asked for.
func (x *input) ended() error {
	if x.err != nil && x.err != io.EOF {
		return x.err
	}
	what := "a block"
	if x.off < headerSize {
		what = "the file header"
	}
	return &FormatError{Offset: x.off + int64(x.to-x.from), Reason: fmt.Sprintf("the file ends in or before %s", what), Err: ErrTruncated}
}

// resync moves past a damaged block: to the next header that is whole. It reports
// whether there is one.
func (x *input) resync() bool {
	if head := x.peek(blockHeader); wholeHeader(head) && payloadLength(head) <= maxPayload {
		// Most damage leaves lengths as they are.
		n := blockHeader + payloadLength(head)
		if b := x.peek(n + blockHeader); len(b) == n+blockHeader && wholeHeader(b[n:]) {
			x.skip(n)
			return true
		}
	}
	for at := 1; ; at = 0 {
		const window = 16 << 10
		b := x.peek(window)
		for i := at; i+blockHeader <= len(b); i++ {
			if isKind(b[i:]) && wholeHeader(b[i:]) {
				x.skip(i)
				return true
			}
		}
		if len(b) < window {
			return false
		}
		x.skip(len(b) - blockHeader + 1)
	}
}
