package msglog

import (
	"errors"

	"ckpt/internal/durable"
)

// The errors that callers tell apart with errors.Is, besides those of package
// durable: a *DamageError, and ErrStorageFull of a full disk.
var (
	// ErrInUse says that another process has the log open for writing.
	ErrInUse = errors.New("message log is in use")
	// ErrTruncated says that frames that were asked for have been removed by
	// Truncate.
	ErrTruncated = errors.New("removed from the message log")
	// ErrLost says that the commit of a frame has failed. The cause is in the
	// error as well.
	ErrLost = errors.New("lost from the message log")
	// ErrClosed says that the log has been closed.
	ErrClosed = errors.New("message log is closed")
)

// opError wraps err, unless it is nil or says the same already.
func opError(op, path string, offset int64, err error) error {
	if err == nil {
		return nil
	}
	var oe *durable.OpError
	if errors.As(err, &oe) {
		return err
	}
	return &durable.OpError{Op: op, Path: path, Offset: offset, Err: err}
}
