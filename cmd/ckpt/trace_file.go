package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"ckpt/coordinator"
	"ckpt/image"
)

// writeFile makes a file, whole or not at all; - is standard output. What is there
// and no file, as /dev/null or a pipe, is written to.
func (g *globals) writeFile(name string, write func(io.Writer) error) error {
	if name == "-" {
		return buffered(g.out, write)
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the file, not the link, is replaced
	}
	fi, err := os.Stat(name)
	switch {
	case err == nil && fi.IsDir():
		return &coordinator.UsageError{Text: fmt.Sprintf("-o %s is a directory", name), Fix: "name a file in it"}
	case err == nil && !fi.Mode().IsRegular():
		err = writeTo(name, write)
	default:
		err = replaceFile(name, write)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return hinted{fmt.Errorf("%w: %w", image.ErrStorageFull, err), "free some space there, or write it elsewhere"}
	case errors.Is(err, fs.ErrNotExist):
		return errNotFound{err}
	case errors.Is(err, fs.ErrPermission):
		return hinted{err, "name a file that you may write"}
	}
	return err
}

// writeTo writes to what is there.
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
func replaceFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	if err = buffered(f, write); err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
