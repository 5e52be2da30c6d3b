package ui

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/dataset"
	"ckpt/internal/lazy"
)

// programError replaces the error of a command that was given a program where it
// wants an application, a name or nothing: a newcomer's first command.
func programError(cmd *cobra.Command, typed []string, err error) error {
	if slices.Contains(typed, "--") {
		return nil // it was given as one
	}
	spec, unread := errors.AsType[*dataset.SpecError](err)
	if unread && spec.Reason != dataset.UnknownApp && spec.Reason != dataset.BadSpec && spec.Reason != dataset.Unreadable || ExitCode(err) != ExitUsage {
		return nil
	}
	_, unknown := errors.AsType[*unknownCommandError](err)
	if !unread && !unknown && !takesCommand(cmd) {
		return nil
	}
	if i := commandAt(cmd, typed); i > 0 {
		return notBehindDashes(typed, i)
	}
	for _, arg := range typed {
		if kind := programKind(arg); kind != "" {
			return aboutProgram(arg, arg, kind)
		}
	}
	for i, arg := range typed {
		if i > 0 && takesValue(cmd, typed[i-1]) {
			continue // --codec lz4 names no program, though there is one
		}
		if path, err := exec.LookPath(arg); err == nil && cmd.Name() == "launch" && arg != "launch" {
			if kind := programKind(path); kind != "" {
				return aboutProgram(arg, path, kind)
			}
		}
	}
	return nil
}

// takesCommand reports whether a command takes the command of a program.
func takesCommand(cmd *cobra.Command) bool { return cmd.Name() == "launch" || cmd.Name() == "restart" }

// launchers begin the names of the commands that start MPI programs.
var launchers = []string{"mpiexec", "mpirun", "orterun", "prterun", "srun"}

// commandAt returns where in the command line of ckpt launch or restart the command of an MPI
// program begins, 0 without one: behind the name of the command, and of the job.
func commandAt(cmd *cobra.Command, typed []string) int {
	before, at := map[string]int{"launch": 1, "restart": 2}[cmd.Name()], 0
	for i, arg := range typed {
		if strings.HasPrefix(arg, "-") || i > 0 && takesValue(cmd, typed[i-1]) {
			continue
		}
		if before == 0 {
			at = i
		}
		if before--; at > 0 && isLauncher(arg) {
			return at
		}
	}
	return 0
}

func isLauncher(word string) bool {
	return slices.ContainsFunc(launchers, func(name string) bool { return strings.HasPrefix(filepath.Base(word), name) })
}

// notBehindDashes repeats a command line with the command of the program behind --.
func notBehindDashes(typed []string, at int) error {
	what := typed[at]
	path, _ := exec.LookPath(what)
	if kind := cmp.Or(programKind(what), programKind(path)); kind != "" {
		what += " is " + kind
	}
	return BadUsage(what+": the command of a program comes after --",
		"ckpt "+ShellWords(typed[:at])+" -- "+ShellWords(typed[at:])+", if the program calls ckpt (see ckpt sdk); --engine dmtcp before -- takes checkpoints of any program")
}

// ShellWords returns arguments as a user would type them.
func ShellWords(args []string) string {
	words := slices.Clone(args)
	for i, word := range words {
		if !plainWord().MatchString(word) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

var plainWord = lazy.Regexp(`^[\w@%+=:,./{}-]+$`)

// takesValue reports whether an argument is a flag whose value is the next argument.
func takesValue(cmd *cobra.Command, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	f := cmd.Flags().Lookup(name)
	if !long && len(arg) == 2 && arg[0] == '-' {
		f = cmd.Flags().ShorthandLookup(arg[1:])
	}
	return f != nil && f.NoOptDefVal == "" && arg[0] == '-'
}

// aboutProgram says what ckpt can do with a program, and what not.
func aboutProgram(name, path, kind string) error {
	base, run := filepath.Base(name), name
	if name == path && !strings.ContainsRune(path, '/') {
		run = "./" + name
	}
	return BadUsage(fmt.Sprintf("%s is %s: the command of a program comes after --, and other arguments are simulated jobs", name, kind),
		fmt.Sprintf("if it calls ckpt (see ckpt sdk): ckpt launch -- mpiexec -n 4 %s; any program: while it runs, ckpt zones --pid PID --tree divides its memory into zones; ckpt trace record -o %s.trace -- %s records its I/O; "+
			"ckpt launch --engine dmtcp -- %s takes its checkpoints, with DMTCP", run, base, run, run))
}

// programKind returns how to call a file that is a program, "" for anything else.
func programKind(path string) string {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	magic := make([]byte, 4)
	n, _ := io.ReadFull(f, magic) // a shorter file is no program
	switch {
	case string(magic[:n]) == "\x7fELF":
		return "a program (ELF)"
	case n >= 2 && string(magic[:2]) == "#!":
		return "a script"
	}
	return ""
}
