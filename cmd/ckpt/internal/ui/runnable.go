package ui

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
)

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
