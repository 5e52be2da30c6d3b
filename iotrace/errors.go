package iotrace

import (
	"errors"
	"fmt"
)

// What an error is about, for errors.Is. The text of the error says the rest.
var (
	// ErrTruncated says that the input ends too early. What is there can be had
	// with Options.Lenient.
	ErrTruncated = errors.New("truncated")
	// ErrWrongFormat says that the file is of another kind than its reader reads.
	ErrWrongFormat = errors.New("wrong format")
	// ErrNoTimes says that the input has been made without times: there is no
	// part of it that could be used.
	ErrNoTimes = errors.New("no times")
	// ErrNewerVersion says that a newer version of ckpt wrote the file.
	ErrNewerVersion = errors.New("written by a newer version of ckpt")
)

// A FormatError says what is wrong with a trace, and where.
type FormatError struct {
	Name   string // of the file; empty if the reader was not told
	Line   int64  // of a text, from 1; 0 of a binary file
	Offset int64  // in a binary file
	Reason string
	Err    error // one of the errors above, or nil
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

// Named gives an error the name of the file that it is about, if it is a
// FormatError that lacks it.
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
