package ui

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// Wordless is an error whose text is for no reader: only its exit status counts.
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

// BadUsage is an error of the command line with a remedy, which may be "".
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

// CheckProgram returns an error if the program of a command cannot be run, before anything
// is done for it. The name stands in it once, and not again in each error below.
func CheckProgram(name string) error {
	_, err := exec.LookPath(name)
	if err == nil {
		return nil
	}
	why := err
	if e, ok := errors.AsType[*exec.Error](why); ok {
		why = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](why); ok {
		why = e.Err
	}
	switch {
	case errors.Is(err, exec.ErrDot):
		return WithHint(AsNotFound(fmt.Errorf("%s is in the working directory only", name)), "write ./"+name)
	case errors.Is(err, exec.ErrNotFound):
		return WithHint(AsNotFound(fmt.Errorf("%s: no such program in $PATH", name)), "give its path, like ./"+name+", if it is elsewhere")
	case errors.Is(err, fs.ErrNotExist):
		return AsNotFound(fmt.Errorf("%s: no such program", name))
	case errors.Is(err, fs.ErrPermission):
		return WithHint(AsNotFound(fmt.Errorf("%s: the program may not be run: %w", name, why)), "chmod +x makes a file a program")
	}
	return AsNotFound(fmt.Errorf("%s: %w", name, why))
}

// WrongCount is the error of a command that got too few or too many arguments. It names
// the first that is missing, or the first that is too much, and shows an example.
func WrongCount(cmd *cobra.Command, args []string) error {
	fix := "see " + cmd.CommandPath() + " --help"
	if example := exampleOf(cmd); example != "" {
		fix = "like " + example + "; " + fix
	}
	names := arguments(cmd)
	switch {
	case len(args) < len(names):
		return BadUsage(names[len(args)]+" is missing: "+cmd.UseLine(), fix)
	case len(args) == 0:
		return BadUsage("an argument is missing: "+cmd.UseLine(), fix)
	}
	return BadUsage(fmt.Sprintf("unexpected argument %q: %s", args[len(args)-1], cmd.UseLine()), fix)
}

// arguments returns the names of the arguments that a command must have.
func arguments(cmd *cobra.Command) (names []string) {
	words := strings.Fields(cmd.Use)[1:]
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case strings.HasPrefix(word, "[") || word == "|":
			return names
		case word == "--":
		case strings.HasPrefix(word, "-"):
			i++ // its value
		default:
			names = append(names, strings.TrimSuffix(word, "..."))
		}
	}
	return names
}

// exampleOf returns the first example of a command, without its comment.
func exampleOf(cmd *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	line, _, _ = strings.Cut(line, "#")
	return strings.TrimSpace(line)
}

// FlagError words an error of the flag library in the way of all others.
func FlagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalidValue(invalid)
	}
	return UsageOf(cmd, err)
}

func invalidValue(err *pflag.InvalidValueError) error {
	flag, want := err.GetFlag(), ""
	switch flag.Value.Type() {
	case "int", "int64", "intSlice":
		want = "want a whole number"
	case "uint64", "uint":
		want = "want a whole number from 0"
	case "float64":
		want = "want a number"
	case "bool":
		if values := ChoicesOf(flag); values != nil {
			return fmt.Errorf("--%s %q: want one of %s", flag.Name, err.GetValue(), strings.Join(values, ", "))
		}
		want = "want true or false"
	default:
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		want = "the number is too large"
	}
	return fmt.Errorf("--%s %q: %s", flag.Name, err.GetValue(), want)
}

// A Need says that flags say nothing unless one of others is given, or, as APP, an argument.
type Need struct{ Flags, Of, Because, Remedy string }

// CheckNeeds refuses the first flag that says nothing. A command that lacks all flags of a
// need, or all that it needs, is not concerned.
func CheckNeeds(cmd *cobra.Command, args []string, needs []Need) error {
	f := cmd.Flags()
	for _, n := range needs {
		met, concerned := false, false
		for name := range strings.FieldsSeq(n.Of) {
			met = met || f.Changed(name) || name == "APP" && len(args) > 0
			concerned = concerned || f.Lookup(name) != nil || name == "APP"
		}
		if met || !concerned {
			continue
		}
		for name := range strings.FieldsSeq(n.Flags) {
			if flag := f.Lookup(name); flag != nil && flag.Changed {
				return BadUsage(fmt.Sprintf("--%s %s: %s", name, flag.Value, n.Because), n.Remedy)
			}
		}
	}
	return nil
}
