package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"ckpt/internal/vfs"
)

// The errors of any file of a store. The text of an error names the file;
// these only name the case.
var (
	// ErrStorageFull says that the file system, or the user's quota, is full.
	// The underlying ENOSPC or EDQUOT is in the error as well.
	ErrStorageFull = errors.New("storage is full")
	// ErrNewerVersion says that a newer version of ckpt wrote the file, in a
	// format that this version cannot read.
	ErrNewerVersion = errors.New("written by a newer version of ckpt")
	// ErrOtherJob says that a file is sound but belongs to another job.
	ErrOtherJob = errors.New("belongs to another job")
)

// An OpError is a failed operation on a file. One that failed for lack of
// space is ErrStorageFull to errors.Is.
type OpError struct {
	Op     string // what was tried, a verb: write, sync, commit, ...
	Path   string
	Offset int64 // in the file; -1 without one
	Err    error
}

func (e *OpError) Error() string {
	reason := e.Err.Error()
	// Do not name the file twice.
	if pe, ok := e.Err.(*fs.PathError); ok && pe.Path == e.Path {
		reason = pe.Err.Error()
		if !strings.Contains(e.Op, pe.Op) {
			reason = pe.Op + ": " + reason
		}
	}
	if isFull(e.Err) {
		reason = ErrStorageFull.Error() + ": " + reason
	}
	if e.Offset >= 0 {
		return fmt.Sprintf("%s %s at offset %d: %s", e.Op, e.Path, e.Offset, reason)
	}
	return fmt.Sprintf("%s %s: %s", e.Op, e.Path, reason)
}

func (e *OpError) Unwrap() error { return e.Err }

// Is makes a full disk or quota answer to ErrStorageFull.
func (e *OpError) Is(target error) bool { return target == ErrStorageFull && isFull(e.Err) }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Op wraps err in an OpError, unless it is nil or names the operation that failed
// already. The offset is -1 for an operation on the whole file.
func Op(op, path string, offset int64, err error) error {
	if err == nil {
		return nil
	}
	if oe := (*OpError)(nil); errors.As(err, &oe) {
		return err
	}
	return &OpError{Op: op, Path: path, Offset: offset, Err: err}
}

// A DamageError says that a file does not hold the bytes that were written to
// it: where, and how we know.
type DamageError struct {
	File   string
	Offset int64 // of the first byte of the block that fails its check
	Reason string
	Err    error // the cause; may be nil
}

func (e *DamageError) Error() string {
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("%s: %s", e.File, e.Reason) // nothing is there that has offsets
	case errors.Is(e.Err, ErrOtherJob):
		return fmt.Sprintf("%s %v: %s", e.File, ErrOtherJob, e.Reason) // it is sound
	}
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Unwrap returns the cause of the damage, if there is one.
func (e *DamageError) Unwrap() error { return e.Err }

// Damaged returns a DamageError with a formatted reason.
func Damaged(file string, offset int64, format string, args ...any) error {
	return &DamageError{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// A Journal is a file of lines that one process adds to. A crash or a full
// disk may cut the last line; it never damages another, and the next line
// begins on a line of its own. Lines are not synced.
type Journal struct {
	file vfs.File
	path string
	end  int64 // of the last line
	torn bool  // the file ends within a line
}

// OpenJournal opens the journal at path, and makes it if need be.
func OpenJournal(fsys vfs.FS, path string) (*Journal, error) {
	f, err := fsys.OpenWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(path)
	}
	if err != nil {
		return nil, Op("open", path, -1, err)
	}
	j := &Journal{file: f, path: path}
	if err := j.find(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// find looks for the end of the journal.
func (j *Journal) find() (err error) {
	if j.end, err = j.file.Size(); err != nil || j.end == 0 {
		return Op("read", j.path, -1, err)
	}
	var last [1]byte
	if err := ReadAt(j.file, j.path, last[:], j.end-1); err != nil {
		return err
	}
	j.torn = last[0] != '\n'
	return nil
}

// Add adds a line, which has no newline. A line that could not be written
// whole is overwritten by the next.
func (j *Journal) Add(line []byte) error {
	b := make([]byte, 0, len(line)+2)
	if j.torn {
		b = append(b, '\n')
	}
	b = append(append(b, line...), '\n')
	if err := WriteAt(j.file, j.path, b, j.end); err != nil {
		return err
	}
	j.end += int64(len(b))
	j.torn = false
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return Op("close", j.path, -1, j.file.Close()) }

// ReadLines calls do with each line that ends in a newline, however long it
// is, and returns where the last of them ends.
func ReadLines(r io.Reader, do func(line []byte)) (end int64, err error) {
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		do(line)
		end += int64(len(line))
	}
}
