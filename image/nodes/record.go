package nodes

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"ckpt/image"
	"ckpt/internal/durable"
)

// recordName is the file in the directory of a job, in the store, that says what the nodes
// have of it.
const recordName = "tier.json"

const (
	recordFormat = 1
	maxRecord    = 64 << 20
)

// A Record says what the nodes of a job have, for those who look into the store only. It
// is kept as well as may be, and decides nothing where the manifests on the nodes can be
// read: they do.
type Record struct {
	Format  int     `json:"format"`               // filled in by Write
	Digest  string  `json:"job_blake3,omitempty"` // of the description of the job; filled in by Write
	Setting Setting `json:"setting"`
	// Mapping is the number of ranks on each node, Hosts the hosts that are the nodes.
	Mapping  []int    `json:"mapping"`
	Hosts    []string `json:"hosts,omitempty"`
	Versions []Known  `json:"versions"` // by number
}

// Known is what a Record says of a version.
type Known struct {
	Number    int       `json:"number"`
	ID        string    `json:"id"`
	Iteration int64     `json:"iteration"`
	Level     State     `json:"storage_level"`
	Bytes     int64     `json:"stored_bytes"` // of its files, once
	Created   time.Time `json:"created"`
	// Manifest is that of the version, as its file has it, if the nodes are on several
	// hosts: a restart has to know it before their directories can be reached.
	Manifest string `json:"manifest,omitempty"`
}

// KnownOf returns what a Record says of a version.
func KnownOf(m *image.Manifest, level State) Known {
	return Known{Number: m.Number, ID: m.ID, Iteration: m.Iteration, Level: level, Bytes: m.StoredBytes, Created: m.Created}
}

// Of returns what the record says of a version.
func (r *Record) Of(number int) (Known, bool) {
	if r == nil {
		return Known{}, false
	}
	i := slices.IndexFunc(r.Versions, func(k Known) bool { return k.Number == number })
	if i < 0 {
		return Known{}, false
	}
	return r.Versions[i], true
}

// RecordPath is where the record of a job is.
func RecordPath(j *image.Job) string { return filepath.Join(j.Dir(), recordName) }

// ReadRecord reads the record of a job in the store; nil if there is none. It fails with
// a durable.DamageError, durable.ErrNewerVersion or an OwnerError if it is of another job.
func ReadRecord(j *image.Job) (*Record, error) {
	name := RecordPath(j)
	r := new(Record)
	err := durable.ReadSealedOrPlain(j.FS(), name, maxRecord, r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Format > recordFormat {
		return nil, durable.Op("read", name, -1, fmt.Errorf("format %d: %w", r.Format, durable.ErrNewerVersion))
	}
	if err := r.check(); err != nil {
		return nil, durable.Damaged(name, 0, "%v", err)
	}
	// The record of a job whose description cannot be read is still the best there is.
	if digest, err := j.Digest(); err == nil && r.Digest != "" && r.Digest != digest {
		return nil, &OwnerError{Dir: name, Job: j.Name()}
	}
	return r, nil
}

func (r *Record) check() error {
	if r.Format < 1 || len(r.Mapping) == 0 {
		return fmt.Errorf("format %d or mapping %v is out of range", r.Format, r.Mapping)
	}
	for _, n := range r.Mapping {
		if n < 0 {
			return fmt.Errorf("mapping %v is out of range", r.Mapping)
		}
	}
	return r.Setting.Check(len(r.Mapping))
}

// Write replaces the record of a job in the store.
func (r *Record) Write(j *image.Job) error {
	var err error
	if r.Digest, err = j.Digest(); err != nil {
		return err
	}
	r.Format = recordFormat
	if r.Versions == nil {
		r.Versions = []Known{}
	}
	return durable.ReplaceSealed(j.FS(), RecordPath(j), r)
}

// Next returns a number that no version has or had, as far as anything is left of it: in
// the store, in the record and on the nodes. Record and versions may be nil.
func Next(store *image.Job, r *Record, versions []Version) (int, error) {
	next, err := store.Next()
	if r != nil {
		for _, k := range r.Versions {
			next = max(next, k.Number+1)
		}
	}
	for _, v := range versions {
		next = max(next, v.Number+1)
	}
	return next, err
}
