package wire

import (
	"encoding/json"
	"errors"

	"ckpt/coordinator/job"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// errorReport carries an error with what callers tell apart.
type errorReport struct {
	Text   string `json:"text"`
	Kind   string `json:"kind"`
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Reason string `json:"reason,omitempty"`
}

const (
	kindDamage  = "damage"
	kindFull    = "full"
	kindForeign = "foreign" // of another job
	kindRegions = "regions" // the process has others than the checkpoint
	kindOther   = "other"
)

// ReportError makes a body of an error.
func ReportError(err error) errorReport {
	r := errorReport{Text: err.Error(), Kind: kindOther}
	var damage *durable.DamageError
	switch {
	case errors.As(err, &damage):
		r.Kind, r.File, r.Offset, r.Reason = kindDamage, damage.File, damage.Offset, damage.Reason
	case errors.Is(err, durable.ErrOtherJob):
		r.Kind = kindForeign
	case errors.Is(err, durable.ErrStorageFull):
		r.Kind = kindFull
	case errors.Is(err, container.ErrRegionsDiffer):
		r.Kind = kindRegions
	}
	return r
}

// error gives back an error with the same text that answers to the same cases.
func (r errorReport) error() error {
	switch r.Kind {
	case kindDamage:
		return &durable.DamageError{File: r.File, Offset: r.Offset, Reason: r.Reason}
	case kindForeign:
		return &remoteError{r.Text, durable.ErrOtherJob}
	case kindFull:
		return &remoteError{r.Text, durable.ErrStorageFull}
	case kindRegions:
		return &remoteError{r.Text, container.ErrRegionsDiffer}
	}
	return errors.New(r.Text)
}

// remoteError is an error of another process.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

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
