package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"ckpt/iotrace"
)

// An Error is a failed operation of the replay.
type Error struct {
	Op     string // write, open, prepare …
	Path   string
	Offset int64 // iotrace.None if it has none
	Bytes  int64
	Rank   int // iotrace.None before and after the replay itself
	Err    error
}

func (e *Error) Error() string {
	what := e.Op + " " + e.Path
	if e.Offset != iotrace.None {
		what = fmt.Sprintf("%s %s: %d bytes at offset %d", e.Op, e.Path, e.Bytes, e.Offset)
	}
	if e.Rank != iotrace.None {
		what = fmt.Sprintf("rank %d: %s", e.Rank, what)
	}
	// The message has the path already.
	err := e.Err
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		err = link.Err
	}
	return fmt.Sprintf("%s: %v", what, err)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns a remedy, or "".
func (e *Error) Hint() string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		return "free some space, or replay into another directory"
	case errors.Is(e.Err, fs.ErrExist):
		return "name an empty directory, or one that is not there, or overwrite the files"
	case errors.Is(e.Err, ErrDirect):
		return "leave out O_DIRECT: this file system does not support it"
	case errors.Is(e.Err, syscall.EMFILE):
		return "ulimit -n raises the number of files that may be open"
	case errors.Is(e.Err, fs.ErrPermission):
		return "name a directory that you may write to"
	}
	return ""
}

// ErrDirect marks failures of O_DIRECT.
var ErrDirect = errors.New("O_DIRECT is not supported")

// An OptionError is an invalid option, possibly only for this trace.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func optionError(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }
