package iotrace

import (
	"errors"
	"fmt"
)

// The kinds of error, for errors.Is. The text of the error has the details.
var (
	// ErrTruncated: the input ends too early. Options.Lenient returns the part that is
	// there.
	ErrTruncated = errors.New("truncated")
	// ErrWrongFormat: the file is not of the format that its reader reads.
	ErrWrongFormat = errors.New("wrong format")
	// ErrNoTimes: the input has no times, so no part of it can be used.
	ErrNoTimes = errors.New("no times")
	// ErrNewerVersion: a newer version of ckpt wrote the file.
	ErrNewerVersion = errors.New("written by a newer version of ckpt")
)

// A FormatError says what is wrong with a trace, and where.
type FormatError struct {
	Name   string // of the file; empty if the reader was not told
	Line   int64  // of a text, from 1; 0 of a binary file
	Offset int64  // in a binary file
	Reason string
	Err    error // one of the errors above, or nil
	NoPart bool  // Options.Lenient cannot read any part either
}

func (e *FormatError) Error() string {
	switch {
	case e.Line > 0 && e.Name != "":
		return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
	case e.Line > 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
	case e.Name != "":
		return fmt.Sprintf("%s: offset %d: %s", e.Name, e.Offset, e.Reason)
	}
	return fmt.Sprintf("offset %d: %s", e.Offset, e.Reason)
}

func (e *FormatError) Unwrap() error { return e.Err }

// Named returns err with the name of its file, if it is a FormatError without one.
func Named(err error, name string) error {
	var fe *FormatError
	if errors.As(err, &fe) {
		if fe.Name == "" {
			fe.Name = name
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
