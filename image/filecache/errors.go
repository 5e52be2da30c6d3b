package filecache

import "errors"

// The errors of a cached file. The text of an error names the file; these only name
// the case.
var (
	// ErrUnfinished says that the node directories have what an earlier use of the
	// file left there, which Recover has to see first.
	ErrUnfinished = errors.New("an earlier use of the file did not end: recover it first")
	// ErrNothing says that there is nothing to recover: no write has been accepted
	// since the file was last stored.
	ErrNothing = errors.New("nothing to recover")
	// ErrLost says that nodes were lost with acknowledged writes that no level kept.
	ErrLost = errors.New("acknowledged writes are lost")
	// ErrBeyond says that a request lies beyond the size that the file was opened with.
	ErrBeyond = errors.New("beyond the end of the file")
	// ErrReadOnly says that the file is open for reading.
	ErrReadOnly = errors.New("file is open for reading only")
	// ErrSpans says that a conditional write lies on two nodes: see Layout.Unit.
	ErrSpans = errors.New("conditional write lies on two nodes")
	// ErrClosed says that the file is closed.
	ErrClosed = errors.New("file is closed")
	// ErrJournalFull says that the journal of a node is full, since the file could not
	// be stored.
	ErrJournalFull = errors.New("journal is full")
	// ErrOther says that the node directories belong to another use of the file.
	ErrOther = errors.New("settings differ from those that the file was opened with")
)
