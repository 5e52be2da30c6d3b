//go:build !(linux && amd64)

package bpf

import (
	"errors"
	"io"
	"os/exec"

	"ckpt/iotrace"
)

// A Recorder records the commands that this process starts.
type Recorder struct{}

// Open asks the kernel to record. The error says why it cannot.
func Open() (*Recorder, error) { return nil, errors.New("only Linux on amd64 is supported") }

// Close ends the recording.
func (*Recorder) Close() {}

// A Recording is a command that runs, or ran.
type Recording struct{}

// Start is never called, as Open fails.
func (*Recorder) Start(*exec.Cmd, io.Writer) (*Recording, error) { return nil, errors.ErrUnsupported }

// Live is never called.
func (*Recording) Live() []int { return nil }

// Wait is never called.
func (*Recording) Wait() {}

// Finish is never called.
func (*Recording) Finish() error { return errors.ErrUnsupported }

// WriteText is never called.
func (*Recording) WriteText(io.Writer, io.Reader) error { return errors.ErrUnsupported }

// Import is never called.
func (*Recording) Import(io.Reader, iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	return nil, nil, errors.ErrUnsupported
}
