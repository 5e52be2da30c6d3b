package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"ckpt/internal/durable"
)

func CheckPlotName(path string) error {
	if ext := filepath.Ext(path); path == "" || ext == ".svg" || ext == ".png" || ext == ".pdf" {
		return nil
	}
	return BadUsage(fmt.Sprintf("--plot %q: want a name that ends in .svg, .png or .pdf", path), "end the name with the format, like waste.svg")
}

// WriteFile makes a file, whole or not at all; - is standard output. It writes to
// existing devices and pipes, such as /dev/null, directly.
func (g *Globals) WriteFile(ctx context.Context, name string, write func(io.Writer) error) error {
	if name == "-" {
		return OutputError(buffered(g.Out, write))
	}
	name, fi, err := destination(name)
	switch {
	case err != nil:
		return err
	case fi != nil && !fi.Mode().IsRegular():
		err = writeTo(name, write)
	default:
		err = replaceFile(ctx, name, fi, write)
	}
	return OutputError(err)
}

// destination follows links: the file, not the link, is replaced. It returns no
// information about a new file.
func destination(name string) (string, fs.FileInfo, error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	fi, err := os.Stat(name)
	if err != nil {
		return name, nil, nil
	}
	if fi.IsDir() {
		return name, nil, BadUsage(name+" is a directory", "name a file in it")
	}
	return name, fi, nil
}

// CanWrite returns the error that WriteFile would return, before a long computation
// whose result goes there.
func CanWrite(name string) error {
	name, fi, err := destination(name)
	if err != nil || fi != nil && !fi.Mode().IsRegular() { // opening a pipe would wait for its reader
		return err
	}
	f, err := createBeside(name, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return OutputError(err)
}

// OutputError classifies the errors of an output.
func OutputError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return ErrInterrupted
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return WithHint(fmt.Errorf("%w: %w", durable.ErrStorageFull, err), "free some space there, or write it elsewhere")
	case errors.Is(err, fs.ErrNotExist):
		return WithHint(AsNotFound(err), "make its directory first")
	case errors.Is(err, fs.ErrPermission):
		return WithHint(err, "name a file with write permission")
	}
	return err
}

// writeTo writes to an existing device or pipe.
func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(buffered(f, write), f.Close())
}

func buffered(to io.Writer, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(to, 1<<20)
	if err := write(w); err != nil {
		return err // of w as well
	}
	return w.Flush()
}

// replaceFile writes beside the file, and takes its place when all is on the disk.
// It keeps the permissions of an existing file. A signal ends the writing, and the
// incomplete file is removed.
func replaceFile(ctx context.Context, name string, before fs.FileInfo, write func(io.Writer) error) error {
	ctx, stop := Interruptible(ctx)
	defer stop()
	mode := fs.FileMode(0o666) // as far as the umask lets it
	if before != nil {
		mode = before.Mode().Perm()
	}
	f, err := createBeside(name, mode)
	if err != nil {
		return err
	}
	err = buffered(interruptedWriter{ctx, f}, write)
	if err == nil && before != nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// createBeside makes a file in the directory of another, under an unused name.
func createBeside(name string, mode fs.FileMode) (*os.File, error) {
	for {
		beside := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%d", filepath.Base(name), rand.Uint32()))
		f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		var at *fs.PathError
		if errors.As(err, &at) {
			at.Path = name // the one that the user knows
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Interruptible returns a context that ends with the signals that end a command,
// but for those that it was started to ignore, as by nohup.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(signals) == 0 { // NotifyContext without signals means all
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, signals...)
}

// An interruptedWriter writes nothing more when its context is done.
type interruptedWriter struct {
	ctx context.Context
	w   io.Writer
}

func (i interruptedWriter) Write(b []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.w.Write(b)
}
