package iotrace

import "strings"

// Options say how to read a trace that is not in order.
type Options struct {
	// Lenient gives what can be read where otherwise there would be an error.
	Lenient bool
	// Strict makes an error of a line that is not understood, instead of a note.
	Strict bool
	// Events is about how many events to expect, if that is known: it saves
	// growing the list.
	Events int
	// Progress is told how many bytes have been read, now and then, by whoever reads
	// a file.
	Progress func(bytes int64)
}

// A Report is what there is to say of an input beside the trace.
type Report struct {
	Format  Format // of the input, if it was detected
	Lines   int64  // of a text
	Unknown int64  // lines, or parts of a binary file, that could not be used
	Notes   []Note // the first of them
	Failed  int64  // calls that failed, and make no event
	// Astray counts reads and writes of descriptors of which it is not known what they
	// stand for; AstrayBytes is what they moved. The trace lacks them.
	Astray, AstrayBytes int64
	// Unnumbered says that no line names its process, as without -f or with -ff of
	// strace: all is of one process, whose rank has the number 0.
	Unnumbered bool
	// Others counts calls that are not on files, or whose file is not known.
	Others map[string]int64
	// Cut says why there is nothing after some point, under Lenient.
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
	// Text may be a part of a large buffer, which it should not keep alive.
	r.Notes = append(r.Notes, Note{line, strings.Clone(text), reason})
}

// Other counts a call that makes no event.
func (r *Report) Other(what string) {
	if r.Others == nil {
		r.Others = make(map[string]int64)
	}
	r.Others[what]++
}
