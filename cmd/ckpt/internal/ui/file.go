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
	"sync"
	"syscall"
	"time"

	"ckpt/internal/durable"
)

func CheckPlotName(path string) error {
	if ext := filepath.Ext(path); path == "" || ext == ".svg" || ext == ".png" || ext == ".pdf" || ext == ".json" {
		return nil
	}
	return BadUsage(fmt.Sprintf("--plot %q: want a name that ends in .svg, .png, .pdf or .json", path), "end the name with the format, like waste.svg")
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

const (
	// spoolBytes is how much output waits for its reader. Then the oldest is left out.
	spoolBytes = 4 << 20
	// spoolPatience is how long the end of a run waits for a reader that takes nothing.
	spoolPatience = 10 * time.Second
)

// A spool writes behind those who give it text. A reader that stops reading, like a pager or
// a terminal after ^S, stops only the output, not the run that it tells of.
type spool struct {
	mu       sync.Mutex
	waiting  []spooled
	bytes    int // of what waits
	left     int // writes that were left out
	limit    int
	closed   bool
	ready    chan struct{} // holds a token if there is something to do
	progress chan struct{} // holds a token if something was written
	done     chan struct{} // closed when all is written
}

type spooled struct {
	to   *spoolEnd
	text []byte
}

// A spoolEnd is one stream that goes through a spool.
type spoolEnd struct {
	s   *spool
	w   io.Writer
	err error // the first
}

func newSpool(limit int) *spool {
	s := &spool{limit: limit, ready: make(chan struct{}, 1), progress: make(chan struct{}, 1), done: make(chan struct{})}
	go s.write()
	return s
}

func offer(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// Unwrap returns the stream behind it.
func (e *spoolEnd) Unwrap() io.Writer { return e.w }

// Write never waits. It fails if an earlier text could not be written.
func (e *spoolEnd) Write(p []byte) (int, error) {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.err != nil {
		return 0, e.err
	}
	for len(s.waiting) > 0 && s.bytes+len(p) > s.limit {
		s.bytes -= len(s.waiting[0].text)
		s.waiting[0] = spooled{}
		s.waiting = s.waiting[1:]
		s.left++
	}
	s.waiting = append(s.waiting, spooled{e, slices.Clone(p)})
	s.bytes += len(p)
	offer(s.ready)
	return len(p), nil
}

// write writes what waits, until the spool is closed and all is written.
func (s *spool) write() {
	defer close(s.done)
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return
			}
			<-s.ready
			continue
		}
		next := s.waiting[0]
		s.waiting[0] = spooled{}
		s.waiting = s.waiting[1:]
		s.bytes -= len(next.text)
		failed := next.to.err != nil
		s.mu.Unlock()
		if failed {
			continue
		}
		_, err := next.to.w.Write(next.text)
		s.mu.Lock()
		next.to.err = err
		s.mu.Unlock()
		offer(s.progress)
	}
}

// close waits until all is written, or nothing has been for so long. It returns how many
// writes were left out, and whether the reader is stuck.
func (s *spool) close(patience time.Duration) (left int, stuck bool) {
	s.mu.Lock()
	s.closed = true
	offer(s.ready)
	s.mu.Unlock()
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		select {
		case <-s.done:
			return s.left, false
		case <-s.progress:
			wait.Reset(patience)
		case <-wait.C:
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.left + len(s.waiting) + 1, true
		}
	}
}

// Spool has a run go on whether somebody reads its output or not. Finish waits for the
// readers, and returns an error of the output; silent says that no reader takes what more
// there is to say.
func (g *Globals) Spool() (finish func() (silent bool, err error)) {
	out := &spoolEnd{s: newSpool(spoolBytes), w: g.Out}
	errs := &spoolEnd{s: out.s, w: g.Err}
	if !sameStream(g.Out, g.Err) { // else lines keep their order
		errs.s = newSpool(spoolBytes)
	}
	was := g.Streams
	g.Out, g.Err = out, errs
	return func() (bool, error) {
		left, stuck := out.s.close(spoolPatience)
		silent := stuck
		if errs.s != out.s {
			_, silent = errs.s.close(spoolPatience)
		}
		g.Streams = was
		if left > 0 && !silent {
			g.Warn("standard output was not read: %s left out; the store has the output of the job, and its history", Plural(left, "line was", "lines were"))
		}
		if stuck {
			return silent, nil // the write under way may still fail
		}
		return silent, out.err
	}
}

// sameStream reports whether two streams are one, as after 2>&1.
func sameStream(a, b io.Writer) bool {
	if a == b {
		return true
	}
	x, y := fileOf(a), fileOf(b)
	if x == nil || y == nil {
		return false
	}
	is, ierr := x.Stat()
	other, oerr := y.Stat()
	return errors.Join(ierr, oerr) == nil && os.SameFile(is, other)
}

// fileOf returns the file behind a stream, or nil.
func fileOf(w io.Writer) *os.File {
	for {
		switch v := w.(type) {
		case *os.File:
			return v
		case interface{ Unwrap() io.Writer }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}
