// Package line reads text traces line by line. It is fast, numbers the lines, and
// holds only one line of limited length at a time.
//
//	r := line.NewReader(in)
//	if iotrace.Detect(r.Head()) …
//	for {
//		l, err := r.Next()
//		if err == io.EOF {
//			break
//		}
//		… r.Number(), r.Whole() …
//	}
//
// It also parses numbers without making strings of them.
package line

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"ckpt/iotrace"
)

// MaxLength bounds a line, in bytes. Unabbreviated arguments of strace fit; a file
// without lines does not.
const MaxLength = 1 << 20

// A Reader reads numbered lines.
type Reader struct {
	br     *bufio.Reader
	long   []byte // a line that exceeds the buffer
	number int64
	whole  bool
}

// bufferSize fits nearly all lines. A trace of many processes may need as many
// readers.
const bufferSize = 1 << 16

// NewReader reads the lines of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{br: bufio.NewReaderSize(r, bufferSize), whole: true}
}

// Head returns the beginning of the text for iotrace.Detect. Call it before Next.
func (r *Reader) Head() []byte {
	b, _ := r.br.Peek(iotrace.HeadBytes)
	return b
}

// Next returns the next line without its end; it is valid until the next call.
// At the end of the text the error is io.EOF.
func (r *Reader) Next() ([]byte, error) {
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
		return nil, r.Errorf("the line is longer than %d bytes", MaxLength)
	case err == io.EOF && len(b) > 0:
		r.whole = false
		return b, nil
	}
	return nil, err
}

// gather assembles a line that begins with b and exceeds the buffer.
func (r *Reader) gather(b []byte) ([]byte, error) {
	r.long = append(r.long[:0], b...)
	for {
		b, err := r.br.ReadSlice('\n')
		r.long = append(r.long, b...)
		switch {
		case len(r.long) > MaxLength:
			return r.long, bufio.ErrBufferFull
		case !errors.Is(err, bufio.ErrBufferFull):
			return r.long, err
		}
	}
}

// Number returns the number of the last line, from 1.
func (r *Reader) Number() int64 { return r.number }

// Whole reports whether the last line read has a line end. Only the last line of a
// text can lack it.
func (r *Reader) Whole() bool { return r.whole }

// Errorf returns an error about the last line read.
func (r *Reader) Errorf(format string, args ...any) *iotrace.FormatError {
	return &iotrace.FormatError{Line: r.number, Reason: fmt.Sprintf(format, args...)}
}

// Truncated returns the error of a text that ends too early.
func (r *Reader) Truncated(format string, args ...any) *iotrace.FormatError {
	e := r.Errorf(format, args...)
	e.Err = iotrace.ErrTruncated
	return e
}
