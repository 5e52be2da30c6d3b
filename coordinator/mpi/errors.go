package mpi

import (
	"errors"
	"fmt"
)

// ErrClosed is what operations return after Close.
var ErrClosed = errors.New("communicator is closed")

// An Error is a failed operation of a Comm. After Abort(err), errors.Is(e, err)
// holds for every Error.
type Error struct {
	Op   string // "send", "receive", "barrier", …
	Rank int    // the rank that called
	Peer int    // the rank at the other end; AnySource if there is no single one
	Err  error
}

func (e *Error) Error() string {
	switch {
	case e.Peer == AnySource:
		return fmt.Sprintf("rank %d: %s: %v", e.Rank, e.Op, e.Err)
	case e.Op == "receive":
		return fmt.Sprintf("rank %d: receive from rank %d: %v", e.Rank, e.Peer, e.Err)
	}
	return fmt.Sprintf("rank %d: %s to rank %d: %v", e.Rank, e.Op, e.Peer, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A DrainError says which messages a Drain waited for in vain.
type DrainError struct {
	Peer      int    // the first peer in the list that is behind
	Want, Got uint64 // messages from it
	Others    int    // further peers that are behind
	Err       error  // why the wait ended
}

func (e *DrainError) Error() string {
	others := ""
	if e.Others > 0 {
		others = fmt.Sprintf(" (and %d more peers are behind)", e.Others)
	}
	return fmt.Sprintf("%d of %d messages from rank %d have arrived%s: %v", e.Got, e.Want, e.Peer, others, e.Err)
}

func (e *DrainError) Unwrap() error { return e.Err }

// A LengthError is a message that is longer than the buffer it was to be
// received in, or, for RecvFloat64s, of another length. The message stays where
// it was and can be received again.
type LengthError struct {
	Source, Tag int
	Bytes, Room int // of the message, of the buffer
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("message of %d bytes from rank %d with tag %d, for a buffer of %d", e.Bytes, e.Source, e.Tag, e.Room)
}

// A SegmentError is a shared segment that cannot be used.
type SegmentError struct {
	Path string
	Err  error
}

func (e *SegmentError) Error() string { return fmt.Sprintf("segment %s: %v", e.Path, e.Err) }
func (e *SegmentError) Unwrap() error { return e.Err }

// ErrCorrupt marks bytes in the segment, in a frame, in a message log or among pending messages
// that no rank of this version writes.
var ErrCorrupt = errors.New("corrupt")

// errRefused is a handshake in which one side could not prove that it knows
// the job's token.
var errRefused = errors.New("handshake refused: the token is another")
