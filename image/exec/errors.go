package exec

import "fmt"

// Error is an operation that failed.
type Error struct {
	Op   Op
	Rank int // the writer

	// Of Gather: whose bytes, of which piece, and from where in it. If several
	// ranges were pulled at once, the first of them.
	From, Key int
	// Of Open and Write.
	File int

	Offset, Bytes int64
	Err           error
}

func (e *Error) Error() string {
	switch e.Op {
	case Gather:
		return fmt.Sprintf("rank %d: gather %d bytes at %d of piece %d of rank %d: %v", e.Rank, e.Bytes, e.Offset, e.Key, e.From, e.Err)
	case Write:
		return fmt.Sprintf("rank %d: write %d bytes at %d of file %d: %v", e.Rank, e.Bytes, e.Offset, e.File, e.Err)
	case Open:
		return fmt.Sprintf("rank %d: open file %d: %v", e.Rank, e.File, e.Err)
	}
	return fmt.Sprintf("rank %d: %s: %v", e.Rank, e.Op, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
