package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// digestMember says in a file to which job it belongs: by the digest of the description, since
// another job may have the same name. Files of earlier versions lack it.
type digestMember struct {
	Digest string `json:"job_blake3,omitempty"`
}

func digestOf(j *image.Job) (digestMember, error) {
	digest, err := j.Digest()
	return digestMember{digest}, err
}

func (d digestMember) check(j *image.Job, path string) error {
	if d.Digest == "" {
		return nil
	}
	own, err := digestOf(j)
	if err == nil && d != own {
		err = OfAnother(path)
	}
	return err
}

// OfAnother says that a file is of another job of the same name.
func OfAnother(path string) error {
	return &durable.DamageError{File: path, Reason: "that job had this name, too", Err: durable.ErrOtherJob}
}

// sealOwned returns a struct as a sealed file of a job.
func sealOwned(j *image.Job, v any) ([]byte, error) {
	d, err := digestOf(j)
	if err != nil {
		return nil, err
	}
	head := Encode(d)
	return durable.Sealed(json.RawMessage(slices.Concat(head[:len(head)-1], []byte(","), Encode(v)[1:])))
}

// readOwned reads a file of sealOwned, or of an earlier version, into v. Read is
// durable.ReadSealed, or durable.ReadSealedOrPlain if those had no checksums.
func readOwned(j *image.Job, path string, limit int64, v any, read func(vfs.FS, string, int64, any) error) error {
	var raw json.RawMessage
	if err := read(j.FS(), path, limit, &raw); err != nil {
		return err
	}
	var d digestMember
	for _, into := range []any{v, &d} {
		if err := json.Unmarshal(raw, into); err != nil {
			return durable.Damaged(path, 0, "%v", err)
		}
	}
	return d.check(j, path)
}

// StatePath is where the engine of DMTCP keeps what its next run needs.
func StatePath(j *image.Job) string { return filepath.Join(j.Dir(), stateName) }

const stateName = "dmtcp/state.json"

// ReadState reads that file into v, if it exists. The file names the random id of the
// description, since the first checkpoint of such a job changes the description.
func ReadState(j *image.Job, v any) error {
	var raw json.RawMessage
	err := durable.ReadSealedOrPlain(j.FS(), StatePath(j), 1<<20, &raw)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var owner struct {
		ID string `json:"job_id"`
	}
	for _, into := range []any{v, &owner} {
		if err := json.Unmarshal(raw, into); err != nil {
			return durable.Damaged(StatePath(j), 0, "%v", err)
		}
	}
	// A description that is damaged tells nothing.
	if spec, err := ReadSpec(j); err == nil && owner.ID != "" && owner.ID != spec.ID {
		return OfAnother(StatePath(j))
	}
	return nil
}

// Encode marshals a body of ours, which cannot fail.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}
