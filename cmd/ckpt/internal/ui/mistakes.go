package ui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
