package wire

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"ckpt/coordinator/job"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// errorReport carries an error with what callers tell apart.
type errorReport struct {
	Text   string `json:"text"`
	Kind   string `json:"kind"`
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Reason string `json:"reason,omitempty"`
	// OnNodes belongs to what is missing.
	OnNodes bool `json:"on_nodes,omitempty"`
	// Errno is what the kernel said, Cases are the names of common cases that the error is.
	Errno int      `json:"errno,omitempty"`
	Cases []string `json:"cases,omitempty"`
}

// cases are errors that callers compare with, beside the kinds. Errors of a context are left out:
// the other side's would pass for one of this side.
var cases = []struct {
	name string
	err  error
}{
	{"exists", fs.ErrExist},
	{"missing", fs.ErrNotExist},
	{"permission", fs.ErrPermission},
	{"closed", fs.ErrClosed},
	{"locked", vfs.ErrLocked},
	{"unsupported", errors.ErrUnsupported},
	{"newer", durable.ErrNewerVersion},
}

const (
	kindDamage  = "damage"
	kindFull    = "full"
	kindForeign = "foreign" // of another job
	kindRegions = "regions" // the process has others than the checkpoint
	kindMissing = "missing" // from the recovery line; the reason says what, and the text why
	kindOther   = "other"
)

func ReportError(err error) errorReport {
	r := errorReport{Text: err.Error(), Kind: kindOther}
	var damage *durable.DamageError
	var missing *job.MissingError
	switch {
	case errors.As(err, &damage):
		r.Kind, r.File, r.Offset, r.Reason = kindDamage, damage.File, damage.Offset, damage.Reason
	case errors.Is(err, durable.ErrOtherJob):
		r.Kind = kindForeign
	case errors.Is(err, durable.ErrStorageFull):
		r.Kind = kindFull
	case errors.Is(err, container.ErrRegionsDiffer):
		r.Kind = kindRegions
	case errors.As(err, &missing) && missing.Cause != nil:
		r.Kind, r.Reason, r.Text, r.OnNodes = kindMissing, missing.What, missing.Cause.Error(), missing.OnNodes
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	for _, c := range cases {
		if errors.Is(err, c.err) {
			r.Cases = append(r.Cases, c.name)
		}
	}
	return r
}

// error returns an error with the same text that answers to the same cases.
func (r errorReport) error() error {
	is := r.is()
	switch r.Kind {
	case kindDamage:
		damage := &durable.DamageError{File: r.File, Offset: r.Offset, Reason: r.Reason}
		if len(is) > 0 {
			damage.Err = errors.Join(is...)
		}
		return damage
	case kindForeign:
		is = append(is, durable.ErrOtherJob)
	case kindFull:
		is = append(is, durable.ErrStorageFull)
	case kindRegions:
		is = append(is, container.ErrRegionsDiffer)
	case kindMissing:
		return &job.MissingError{What: r.Reason, Cause: errors.New(r.Text), OnNodes: r.OnNodes}
	}
	if len(is) == 0 {
		return errors.New(r.Text)
	}
	return &remoteError{r.Text, is}
}

func (r errorReport) is() (is []error) {
	if r.Errno != 0 {
		is = append(is, syscall.Errno(r.Errno))
	}
	for _, c := range cases {
		if slices.Contains(r.Cases, c.name) {
			is = append(is, c.err)
		}
	}
	return is
}

type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

// DecodeError decodes the error in a body; text stands in for a missing one.
func DecodeError(body []byte, text string) error {
	var r errorReport
	if err := json.Unmarshal(body, &r); err != nil || r.Text == "" {
		return errors.New(text)
	}
	return r.error()
}

// EncodeError is the inverse of DecodeError.
func EncodeError(err error) []byte { return job.Encode(ReportError(err)) }
