package iotrace

import (
	"fmt"
	"io"
)

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

// Read makes the input a reader.
func (x *input) Read(b []byte) (int, error) {
	if x.from == x.to {
		if x.err != nil {
			return 0, x.err
		}
		return x.r.Read(b)
	}
	n := copy(b, x.store[x.from:x.to])
	x.skip(n)
	return n, nil
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
