package msglog

import (
	"errors"
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
