// Package nodes keeps checkpoints on the nodes that made them, before and after they
// are in the store: the tier.
//
// Each node has a directory, which is a store by itself. It holds the container files of
// its ranks, what protects files of other nodes, and the manifest of the whole
// checkpoint:
//
//	DIR/format
//	DIR/jobs/JOB/job                   the description of the job, as in the store
//	DIR/jobs/JOB/node                  which node the directory belongs to
//	DIR/jobs/JOB/NNNN/rank-R.img       of this node's ranks, and copies of others'
//	DIR/jobs/JOB/NNNN/parity-S-I.par   of set S
//	DIR/jobs/JOB/NNNN/manifest         of all ranks
//
// A coordinator opens the tier and makes room for a version, the ranks write their files
// through writers, and Commit makes the version exist:
//
//	tier, err := nodes.Open(job, description, setting, nodesOfRanks, nodes)
//	err = tier.Prepare(node, number)          // for each node
//	// in each rank process:
//	w, err := tier.Writer(ctx, number, rank, sinks...)
//	info, err := container.Write(ctx, w.FS(), w.Path(), header, regions, options)
//	err = w.Finish(ctx)
//	// in the coordinator again:
//	err = tier.Commit(ctx, manifest)
//
// # Promises
//
//   - A version without a manifest does not exist. All its bytes, and those that protect
//     them, are durable before its first manifest is written; so any one sound manifest
//     means that it exists.
//   - Its manifests go first, on all nodes, when a version is reclaimed.
//   - Recover puts in place the bytes that were written, wherever it finds them: the
//     manifest leads to digests and checksums of all of them.
//   - A version is stale if the store has another checkpoint of this number: Settle
//     removes it.
//
// Everything goes through a vfs.FS for each node, which may reach another host.
//
// # Protection
//
// A Scheme protects files from the loss of nodes: by copies on partner nodes, or by parity
// of a set of ranks on different nodes.
//
//	sets := scheme.Sets(topology)
//	sink, err := Coded(set, member, holders)
//	tee := Tee(fsys, path, sink)
//	container.Write(ctx, tee, path, …) // one pass over the bytes
//	tee.Wait(ctx)                       // what protects them is durable
//
// The nodes are divided into groups. The ranks that have the same index within their
// nodes make a set: one member for each node of the group. A node that has fewer ranks
// than the others takes part without a rank, so that every rank is in a set.
//
// The members' files are cut into units. In each row, some members' nodes hold parity
// and the next units of the others are the data; the places move by one from row to
// row, as in RAID-5 and RAID-6. Bytes beyond the end of a file count as zeros. So each
// node of a group of K+M holds parity of M/K of a file for each of its ranks.
package nodes

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/image"
	"ckpt/internal/durable"
)

// A Setting is how a job uses the directories of its nodes, as its description keeps it.
type Setting struct {
	// Dir is the directory of each node; {node} stands for the number of the node.
	Dir     string `json:"dir"`
	Protect Scheme `json:"protect"`
	// Domains is the failure domain of each node; empty: each node is its own.
	Domains []int `json:"domains,omitempty"`
	Drain   Drain `json:"drain"`
	// Rate is how many bytes per second all ranks together copy into the store; 0: no limit.
	Rate int64 `json:"rate_bytes_per_s,omitempty"`
}

// nodeVar stands for the number of a node.
const nodeVar = "{node}"

// Check says what is wrong with the setting of a job on so many nodes, if anything.
func (s Setting) Check(nodes int) error {
	switch {
	case !filepath.IsAbs(s.Dir):
		return fmt.Errorf("directory %q of the nodes is not an absolute path", s.Dir)
	case !strings.Contains(s.Dir, nodeVar):
		return fmt.Errorf("directory %q of the nodes lacks %s, which keeps the nodes of one host apart", s.Dir, nodeVar)
	case s.Rate < 0:
		return fmt.Errorf("%d bytes per second are no rate", s.Rate)
	case len(s.Domains) > 0 && len(s.Domains) != nodes:
		return fmt.Errorf("%d failure domains are given for %d nodes", len(s.Domains), nodes)
	}
	if err := s.Drain.check(); err != nil {
		return err
	}
	return s.Protect.Check(nodes)
}

// NodeDir returns the directory of a node.
func (s Setting) NodeDir(node int) string {
	return filepath.Clean(strings.ReplaceAll(s.Dir, nodeVar, strconv.Itoa(node)))
}

// A Drain says which versions go to the store.
type Drain struct {
	Mode  string // one of the constants below
	Every int    // with DrainEvery
}

// The modes of a Drain.
const (
	DrainBehind = "behind" // each version, behind the job
	DrainEvery  = "every"  // each so many-th one
	DrainNone   = "none"   // the nodes are all there is
)

// errDrain says what a Drain may be.
var errDrain = errors.New("want behind, every=N or none")

// ParseDrain reads a Drain.
func ParseDrain(text string) (Drain, error) {
	mode, n, counted := strings.Cut(text, "=")
	d := Drain{Mode: mode}
	if counted {
		every, err := strconv.Atoi(n)
		if err != nil || every < 1 {
			return Drain{}, fmt.Errorf("drain %q: %w", text, errDrain)
		}
		d.Every = every
	}
	if err := d.check(); err != nil {
		return Drain{}, fmt.Errorf("drain %q: %w", text, errDrain)
	}
	return d, nil
}

func (d Drain) check() error {
	switch {
	case d.Mode == DrainEvery && d.Every >= 1, d.Mode == DrainBehind && d.Every == 0, d.Mode == DrainNone && d.Every == 0:
		return nil
	}
	return fmt.Errorf("drain %q with %d: %w", d.Mode, d.Every, errDrain)
}

// String returns what ParseDrain reads.
func (d Drain) String() string {
	if d.Mode == DrainEvery {
		return fmt.Sprintf("%s=%d", d.Mode, d.Every)
	}
	return d.Mode
}

// MarshalText implements encoding.TextMarshaler.
func (d Drain) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Drain) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDrain(string(b))
	return err
}

// period returns of how many versions one goes to the store; 0: no version does.
func (d Drain) period() int {
	switch d.Mode {
	case DrainBehind:
		return 1
	case DrainEvery:
		return d.Every
	}
	return 0
}

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
	// Manifest is the manifest file of the version, if the nodes are on several
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
func RecordPath(j *image.Job) string { return filepath.Join(j.Dir(), image.RecordName) }

// ReadRecord reads the record of a job in the store, or nil. It fails with
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
