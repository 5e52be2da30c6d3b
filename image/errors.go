package image

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// The errors that callers tell apart with errors.Is. The text of an error
// names the file or the job; these only name the case.
var (
	// ErrNoStore says that the directory does not hold a checkpoint store.
	ErrNoStore = errors.New("not a checkpoint store")
	// ErrNewerVersion says that a newer version of ckpt wrote the store, the
	// manifest or the image, in a format that this version cannot read.
	ErrNewerVersion = errors.New("written by a newer version of ckpt")
	// ErrJobExists says that the store has a job of this name already.
	ErrJobExists = errors.New("job exists already")
	// ErrJobNotFound says that the store has no job of this name.
	ErrJobNotFound = errors.New("job not found")
	// ErrInUse says that another coordinator holds the lock of the job.
	ErrInUse = errors.New("job is in use by another coordinator")
	// ErrCheckpointNotFound says that the job has no committed checkpoint of
	// this number.
	ErrCheckpointNotFound = errors.New("checkpoint not found")
	// ErrRankNotFound says that the checkpoint has no rank of this number.
	ErrRankNotFound = errors.New("no rank")
	// ErrStorageFull says that the file system, or the user's quota, is full.
	// The underlying ENOSPC or EDQUOT is in the error as well.
	ErrStorageFull = errors.New("storage is full")
	// ErrOtherJob says that a file is sound but belongs to another job.
	ErrOtherJob = errors.New("belongs to another job")
	// ErrOtherDescription says that a checkpoint was taken under another
	// description of the job than the one that is there. It comes with a
	// DamageError.
	ErrOtherDescription = errors.New("taken under another description of the job")
	// ErrRegionsDiffer says that the regions to load into are not those that
	// the image holds.
	ErrRegionsDiffer = errors.New("the regions of the image are not those of the process")
	// ErrUnsupported says that a file uses a codec or filter whose number this
	// version does not know.
	ErrUnsupported = errors.New("not supported by this version")
)

// An OpError is a failed operation on a file.
type OpError struct {
	Op     string // what was tried, a verb: write, sync, commit, ...
	Path   string
	Offset int64 // in the file; -1 if the operation has none
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

// opError wraps err, unless it is nil or says the same already.
func opError(op, path string, offset int64, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*OpError); ok {
		return err
	}
	return &OpError{Op: op, Path: path, Offset: offset, Err: err}
}

// A DamageError says that a file is not what was written: where, and why we
// know.
type DamageError struct {
	File   string
	Offset int64 // of the first byte of the block that fails its check
	Reason string

	err error // the error behind it, of the file system or one of those above
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Unwrap returns the error behind the damage, if any.
func (e *DamageError) Unwrap() error { return e.err }

// An otherJobError is ErrOtherJob with the details.
type otherJobError struct{ file, job, want string }

func (e *otherJobError) reason() string {
	return fmt.Sprintf("%v: it is of job %s, not %s", ErrOtherJob, e.job, e.want)
}

func (e *otherJobError) Error() string { return e.file + " " + e.reason() }

func (e *otherJobError) Is(target error) bool { return target == ErrOtherJob }

func damaged(file string, offset int64, format string, args ...any) error {
	return &DamageError{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}
