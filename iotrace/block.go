package iotrace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
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

// MaxLine bounds a line, in bytes. Unabbreviated arguments of strace fit; a file
// without lines does not.
const MaxLine = 1 << 20

// Lines reads a text line by line, one line of limited length at a time, and numbers them.
type Lines struct {
	br     *bufio.Reader
	long   []byte // a line that exceeds the buffer
	number int64
	whole  bool
}

// bufferSize fits nearly all lines. A trace of many processes may need as many
// readers.
const bufferSize = 1 << 16

// NewLines reads the lines of r.
func NewLines(r io.Reader) *Lines {
	return &Lines{br: bufio.NewReaderSize(r, bufferSize), whole: true}
}

// Head returns the beginning of the text, for Detect. Call it before Next.
func (r *Lines) Head() []byte {
	b, _ := r.br.Peek(HeadBytes)
	return b
}

// Next returns the next line without its end; it is valid until the next call.
// At the end of the text the error is io.EOF.
func (r *Lines) Next() ([]byte, error) {
	b, err := r.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		b, err = r.gather(b)
	}
	if len(b) > 0 {
		r.number++
	}
	switch {
	case err == nil:
		return b[:len(b)-1], nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, r.Errorf("the line is longer than %d bytes", MaxLine)
	case err == io.EOF && len(b) > 0:
		r.whole = false
		return b, nil
	}
	return nil, err
}

// gather assembles a line that begins with b and exceeds the buffer.
func (r *Lines) gather(b []byte) ([]byte, error) {
	r.long = append(r.long[:0], b...)
	for {
		b, err := r.br.ReadSlice('\n')
		r.long = append(r.long, b...)
		switch {
		case len(r.long) > MaxLine:
			return r.long, bufio.ErrBufferFull
		case !errors.Is(err, bufio.ErrBufferFull):
			return r.long, err
		}
	}
}

// Number returns the number of the last line, from 1.
func (r *Lines) Number() int64 { return r.number }

// Whole reports whether the last line read has a line end. Only the last line of a
// text can lack it.
func (r *Lines) Whole() bool { return r.whole }

// Errorf returns an error about the last line read.
func (r *Lines) Errorf(format string, args ...any) *FormatError {
	return &FormatError{Line: r.number, Reason: fmt.Sprintf(format, args...)}
}

// Truncated returns the error of a text that ends too early.
func (r *Lines) Truncated(format string, args ...any) *FormatError {
	e := r.Errorf(format, args...)
	e.Err = ErrTruncated
	return e
}

// Int parses a decimal number; b must have nothing else.
func Int(b []byte) (int64, bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	n, ok := unsigned(digits)
	switch {
	case !ok:
		return 0, false
	case len(digits) == len(b):
		return int64(n), n <= math.MaxInt64
	}
	return -int64(n), n <= 1<<63 // 1<<63 wraps to the smallest number, as it should
}

// unsigned parses a decimal number without a sign; b must have nothing else.
func unsigned(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxUint64/10 || n == math.MaxUint64/10 && d > math.MaxUint64%10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// maxSeconds is the most seconds that fit into int64 nanoseconds.
const maxSeconds = math.MaxInt64/1_000_000_000 - 1

// Seconds parses a decimal number of seconds into nanoseconds; b must have nothing
// else. It drops digits beyond the ninth decimal.
func Seconds(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var whole, nanos int64
	i := 0
	for ; i < len(b) && b[i] != '.'; i++ {
		d := b[i] - '0'
		if d > 9 || whole > maxSeconds/10 {
			return 0, false
		}
		whole = whole*10 + int64(d)
	}
	digits := i
	scale := int64(100_000_000)
	for i++; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			return 0, false
		}
		nanos += int64(d) * scale
		scale /= 10
		digits++
	}
	if digits == 0 || whole > maxSeconds {
		return 0, false
	}
	n := whole*1_000_000_000 + nanos
	if negative {
		n = -n
	}
	return n, true
}

// Field returns the first word of b and the rest. Blanks and tabs separate words.
func Field(b []byte) (word, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	from := i
	for i < len(b) && b[i] != ' ' && b[i] != '\t' {
		i++
	}
	return b[from:i], b[i:]
}
