// Package ui is how the commands of ckpt talk to the user: the flags that several
// share, tables, progress, units, files that they write, the events of a job on the
// console, and the exit statuses. It is the only place that words hints.
package ui

import "io"

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Globals are the settings that all commands share.
type Globals struct {
	Streams
	JSON     bool
	Quiet    bool
	Verbose  bool
	Store    string
	Group    string // that the store is made for
	copyTold bool   // the user knows that the store is a copy
}

// Noticing keeps the first error of a writer, and writes nothing more after it. So
// callers may ignore what Printf and Table return: the command fails in the end.
type Noticing struct {
	W   io.Writer
	Err error
}

// Unwrap returns the stream behind it.
func (n *Noticing) Unwrap() io.Writer { return n.W }

func (n *Noticing) Write(p []byte) (k int, err error) {
	if n.Err == nil {
		k, n.Err = n.W.Write(p)
	}
	return k, n.Err
}
