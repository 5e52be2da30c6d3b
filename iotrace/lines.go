package iotrace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
)

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
