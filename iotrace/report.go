package iotrace

import (
	"errors"
	"fmt"
	"strings"
)

// Options control how imperfect traces are read.
type Options struct {
	// Lenient returns the readable part of a damaged trace instead of an error.
	Lenient bool
	// Strict turns a line that cannot be understood into an error instead of a note.
	Strict bool
	// Events is the expected number of events, if known. It saves growing the list.
	Events int
	// Each, if not nil, is called with the events of an events file or a CSV, a few thousand at a
	// time in the order of the file, and the trace that is returned lacks them. The slice is
	// good until Each returns. Other formats return all events. It does not go with Lenient, which
	// looks at all events in the end.
	Each func([]Event)
	// Directory is the working directory in which the first process of a text of strace
	// began; it is empty if it is not known. Other formats have whole paths.
	Directory string
	// Progress, if not nil, is called now and then with the number of bytes read from
	// a file.
	Progress func(bytes int64)
}

// Batch is how many events at most a reader of rows keeps for Each.
const Batch = 4096

// Expected returns Events, or at most a batch if the events do not stay.
func (o *Options) Expected() int {
	if o.Each != nil {
		return min(o.Events, Batch)
	}
	return o.Events
}

// A Report describes an input beside its trace.
type Report struct {
	Format  Format // of the input, if it was detected
	Lines   int64  // of a text
	Unknown int64  // lines, or parts of a binary file, that could not be used
	Notes   []Note // the first of them
	Failed  int64  // calls that failed, and became no event
	Calls   int64  // calls that ended, in a text of strace
	// Astray counts reads and writes of unknown descriptors. AstrayBytes are the bytes
	// they moved. The trace lacks both.
	Astray, AstrayBytes int64
	// Unnumbered: no line names its process, as strace writes without -f or with -ff.
	// All lines belong to one process, whose rank has the number 0.
	Unnumbered bool
	// Others counts calls on something other than files, and calls on unknown files.
	Others map[string]int64
	// Cut is the reason why a lenient reader stopped early.
	Cut error
}

// A Note is a line that could not be used.
type Note struct {
	Line   int64 // 0 in a binary file
	Text   string
	Reason string
}

const (
	maxNotes = 20
	noteText = 200
)

// Note counts a line that could not be used.
func (r *Report) Note(line int64, text, reason string) {
	r.Unknown++
	if len(r.Notes) >= maxNotes {
		return
	}
	if len(text) > noteText {
		text = strings.ToValidUTF8(text[:noteText], "") + "…"
	}
	// Copy the text: it may be part of a large buffer, which would stay alive.
	r.Notes = append(r.Notes, Note{line, strings.Clone(text), reason})
}

// Other counts a call that becomes no event.
func (r *Report) Other(what string) {
	if r.Others == nil {
		r.Others = make(map[string]int64)
	}
	r.Others[what]++
}

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
	Object int64  // in a list of JSON, which has no Line, from 1
	Offset int64  // in a binary file
	Reason string
	Err    error // one of the errors above, or nil
	NoPart bool  // Options.Lenient cannot read any part either
}

func (e *FormatError) Error() string {
	switch {
	case e.Object > 0 && e.Name != "":
		return fmt.Sprintf("%s: object %d: %s", e.Name, e.Object, e.Reason)
	case e.Object > 0:
		return fmt.Sprintf("object %d: %s", e.Object, e.Reason)
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
