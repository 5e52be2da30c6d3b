package dataset

import (
	"errors"
	"os"
	"strings"
)

// A Reason tells the kinds of [SpecError] apart.
type Reason string

// The reasons.
const (
	UnknownApp    Reason = "unknown-app"
	UnknownClass  Reason = "unknown-class"
	NoClass       Reason = "no-class"
	NoProcs       Reason = "no-procs"
	BadProcs      Reason = "bad-procs"
	Contradiction Reason = "contradiction"
	BadSpec       Reason = "bad-spec"
	Unreadable    Reason = "unreadable"
	UnknownTable  Reason = "unknown-table"
)

// A SpecError explains in one line what is wrong with an application's name or spec,
// with a remedy.
type SpecError struct {
	Reason Reason
	// Subject is the spec or application as the user wrote it.
	Subject string
	Problem string
	// Given is the unknown name, if it is one, and Known are the names that exist.
	Given string
	Known []string
	hint  string
	err   error
}

func (e *SpecError) Error() string {
	return oneLine(e.Subject + ": " + e.Problem)
}

// Hint returns advice in one line, or "".
func (e *SpecError) Hint() string { return oneLine(e.hint) }

// Unwrap returns the cause, if another package reported it.
func (e *SpecError) Unwrap() error { return e.err }

// oneLine keeps text from a YAML error, which may span several lines, on the one line
// that logs expect.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// CannotRead returns the error of an unreadable file that the user named: its role
// ("table", "model"), its path, and the reason.
func CannotRead(what, path string, err error) *SpecError {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &SpecError{Reason: Unreadable, Subject: what + " " + path, Problem: err.Error(), hint: "check the path", err: err}
}
