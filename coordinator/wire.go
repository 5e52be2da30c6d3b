package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// The bodies of messages between coordinator and ranks, as JSON: they are few
// per checkpoint, and the protocol does not look at them.

// welcome configures a rank.
type welcome struct {
	Spec     Spec          `json:"spec"`
	Job      string        `json:"job"`
	StoreDir string        `json:"store"`
	Program  string        `json:"program"` // file whose content is the library zone
	Mapping  Mapping       `json:"mapping"`
	Segment  string        `json:"segment"`            // path of the node's shared memory
	Sharing  int           `json:"sharing"`            // how many ranks share it
	Group    []int         `json:"group"`              // ranks that take checkpoints with this one, itself included
	Leads    bool          `json:"leads"`              // this one stands for them
	Channels *channelSetup `json:"channels,omitempty"` // to other groups, if there are any
	Peers    []string      `json:"peers"`              // addresses, by rank
	InjectAt []int         `json:"inject_at"`          // iterations at which to ask for a failure
	Silence  time.Duration `json:"silence"`
	From     int           `json:"from"` // checkpoint to restore, 0 none
	Iter     int           `json:"iter"` // its iteration
}

// writeOrder says what a rank has to write, and where.
type writeOrder struct {
	Rank  string   `json:"rank,omitempty"`  // its own file,
	Group []string `json:"group,omitempty"` // or those that the ranks write together
	// WithShared says that the shared zone comes with the rank's other regions.
	WithShared bool `json:"with_shared,omitempty"`
	// WithLibrary says the same of the library zone.
	WithLibrary bool `json:"with_library,omitempty"`
	// Base is the checkpoint to whose extents references may be made, 0 none.
	Base int `json:"base,omitempty"`
	// Oldest is the oldest checkpoint that may hold what is referred to.
	Oldest int `json:"oldest,omitempty"`
}

// writeReport is what a rank has written.
type writeReport struct {
	File       string          `json:"file"`               // that holds its regions
	Files      []writtenFile   `json:"files"`              // that it has completed
	Zones      zones.Sizes     `json:"zones"`              // of the rank, as in memory
	Pending    int64           `json:"pending"`            // bytes of messages in the image
	Channels   int64           `json:"channels,omitempty"` // bytes of the state of channels
	Vector     json.RawMessage `json:"vector,omitempty"`   // a channel.Vector
	Log        *image.LogStats `json:"log,omitempty"`      // since the checkpoint before
	LogFrom    uint64          `json:"log_from,omitempty"`
	Management time.Duration   `json:"management"`
	Storage    time.Duration   `json:"storage"`
	Trace      []byte          `json:"trace,omitempty"` // what was done, as an events file
}

type writtenFile struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Holes int64  `json:"holes,omitempty"`
	Index string `json:"index"`
}

// doneReport is the result of a rank.
type doneReport struct {
	Digest   string          `json:"digest"`        // of its data zone
	Residual *float64        `json:"residual"`      // nil if it is not a finite number
	Log      *image.LogStats `json:"log,omitempty"` // since the last checkpoint
}

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
	kindOther   = "other"
)

func reportError(err error) errorReport {
	r := errorReport{Text: err.Error(), Kind: kindOther}
	var damage *durable.DamageError
	switch {
	case errors.As(err, &damage):
		r.Kind, r.File, r.Offset, r.Reason = kindDamage, damage.File, damage.Offset, damage.Reason
	case errors.Is(err, durable.ErrOtherJob):
		r.Kind = kindForeign
	case errors.Is(err, durable.ErrStorageFull):
		r.Kind = kindFull
	}
	return r
}

// unrestorable reports whether err says that a checkpoint cannot be restored,
// and not merely that it could not be just now.
func unrestorable(err error) bool {
	for _, is := range []error{durable.ErrOtherJob, image.ErrCheckpointNotFound, container.ErrRegionsDiffer, container.ErrUnsupported, durable.ErrNewerVersion} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*durable.DamageError)) || errors.As(err, new(*foreignBinaryError))
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

// bodyError decodes the error in a body; text stands in for a missing one.
func bodyError(body []byte, text string) error {
	var r errorReport
	if err := json.Unmarshal(body, &r); err != nil || r.Text == "" {
		return errors.New(text)
	}
	return r.error()
}

// encode marshals a body of ours, which cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

func errorMessage(kind protocol.Kind, err error) protocol.Message {
	return protocol.Message{Kind: kind, Text: err.Error(), Body: encode(reportError(err))}
}
