package ui

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"ckpt/zones/source"
)

var (
	// ErrInterrupted ends a command that finished in good order after an interrupt.
	ErrInterrupted = errors.New("interrupted")
	// ErrRequeue ends a run that a batch system, or its limit of time, has stopped.
	ErrRequeue = errors.New("stopped, to be continued")
	// ErrTerminated ends a command that finished in good order after SIGTERM.
	ErrTerminated = errors.New("stopped by SIGTERM")
	// ErrDamageFound ends a verification that found damage.
	ErrDamageFound = errors.New("verification found damage")
	// ErrUnchecked ends a verification that could not read all.
	ErrUnchecked = errors.New("could not be checked")
)

// A CommandStatus ends ckpt with the exit status of a command that it ran for the user.
type CommandStatus int

func (s CommandStatus) Error() string { return fmt.Sprintf("the command ended with status %d", int(s)) }

// Wordless is an error whose text nobody can read: only its exit status counts.
func Wordless(err error) error {
	if err == nil {
		return nil
	}
	return CommandStatus(ExitCode(err))
}

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// AsUsage marks an error of the command line.
func AsUsage(err error) error { return usageError{err} }

// BadUsage is an error of the command line with a remedy, "" for none.
func BadUsage(text, fix string) error { return AsUsage(WithHint(errors.New(text), fix)) }

// UsageOf refers to the help of a command.
func UsageOf(cmd *cobra.Command, err error) error {
	return AsUsage(WithHint(err, "see "+cmd.CommandPath()+" --help"))
}

type notFoundError struct{ error }

func (e notFoundError) Unwrap() error { return e.error }

// AsNotFound marks an error about a missing file or process that the user named.
func AsNotFound(err error) error { return notFoundError{err} }

type hinted struct {
	error
	hint string
}

func (h hinted) Hint() string { return h.hint }

func (h hinted) Unwrap() error { return h.error }

// WithHint adds a remedy to an error.
func WithHint(err error, hint string) error {
	if hint == "" {
		return err
	}
	return hinted{err, hint}
}

// SourceError classifies an error and adds a remedy.
func SourceError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, source.ErrUnknown) {
		return AsUsage(err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return AsNotFound(err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return WithHint(err, "you can read only your own processes and files; root can read all")
	}
	return err
}
