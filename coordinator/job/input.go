package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/wording"
)

// InputLimit is how much of a standard input a job keeps.
const InputLimit = 64 << 20

// inputName is the file with the standard input of a program.
const inputName = "stdin.json"

// An Input is the standard input of a program, as its job keeps it for later runs.
type Input struct {
	Data  []byte `json:"data,omitempty"`
	Ended bool   `json:"ended"` // else more may have come after Data
	// File holds it, in place of Data: it is longer than InputLimit.
	File *InputFile `json:"file,omitempty"`
}

// An InputFile is a file that is read again, unless it has changed.
type InputFile struct {
	Path     string `json:"path"`
	At       int64  `json:"at"` // where the program begins to read
	Size     int64  `json:"size"`
	Modified int64  `json:"modified_ns"`
}

// WriteInput keeps the standard input of a job.
func WriteInput(j *image.Job, in Input) error {
	b, err := sealOwned(j, in)
	if err != nil {
		return err
	}
	return durable.Replace(j.FS(), filepath.Join(j.Dir(), inputName), b)
}

// ReadInput returns the standard input of a job, nil if it has kept none, as before there
// was a file for it.
func ReadInput(j *image.Job) (*Input, error) {
	var in Input
	err := readOwned(j, filepath.Join(j.Dir(), inputName), 2*InputLimit, &in, durable.ReadSealed)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &in, nil
}

// Check reports whether the input can be given again.
func (in *Input) Check(j *image.Job) error {
	again := wording.Sprintf("{restart %s} -- COMMAND with a command that reads its input from a file", j.Name())
	if f := in.File; f != nil {
		fi, err := os.Stat(f.Path)
		if err == nil && (fi.Size() != f.Size || fi.ModTime().UnixNano() != f.Modified) {
			err = errors.New("it has changed since")
		}
		if err != nil {
			return &UsageError{Text: fmt.Sprintf("standard input of job %s was the file %s: %v", j.Name(), f.Path, err), Fix: "put it back as it was; or " + again}
		}
	}
	if !in.Ended && len(in.Data) > 0 {
		return &UsageError{Text: fmt.Sprintf("standard input of job %s had not ended when its run did: only the first %d bytes are known", j.Name(), len(in.Data)), Fix: again}
	}
	return nil
}
