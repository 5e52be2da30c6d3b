package image

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

const (
	manifestName  = container.ManifestName
	manifestMagic = "ckpt-manifest "
	maxManifest   = 256 << 20
)

// Manifest says what a checkpoint consists of. The checkpoint exists from the moment its
// manifest is renamed into place. Times are in seconds, sizes in bytes.
type Manifest struct {
	Format int    `json:"format"` // filled in by Commit
	Job    string `json:"job"`    // filled in by Commit if empty
	// Description is the digest of the description that the checkpoint was taken under. Commit
	// fills it in; old manifests lack it.
	Description string `json:"job_blake3,omitempty"`
	App         string `json:"app"` // what runs, like bt.S.4
	NP          int    `json:"np"`  // number of ranks
	MPI         string `json:"mpi"`
	Mode        string `json:"mode"`
	// Level is "application" if ranks store only what they need to continue. Then the first
	// rank has all regions that are alike on all ranks; a rank without others has no file.
	Level string `json:"level,omitempty"`
	// Origin names the checkpointer of an imported checkpoint, like dmtcp.
	Origin    string    `json:"origin,omitempty"`
	Number    int       `json:"number"`         // filled in by Commit if 0
	Iteration int64     `json:"iteration"`      // of a program of the user, the boundaries passed
	Step      int64     `json:"step,omitempty"` // and its own number of this one
	Created   time.Time `json:"created"`
	// Mapping is the number of ranks on each node, dealt in blocks.
	Mapping []int `json:"mapping"`
	// Parent is the checkpoint that this run was restored from, or 0.
	Parent int `json:"parent"`
	// Group, of Groups, took the checkpoint by itself; 0 groups: all ranks did together.
	Group  int              `json:"group,omitempty"`
	Groups int              `json:"groups,omitempty"`
	Files  []container.File `json:"files"`
	Ranks  []Rank           `json:"ranks"`
	// Bytes is the memory of all ranks together.
	Bytes zones.Sizes `json:"bytes"`
	// StoredBytes is the length of the files that this checkpoint added; Commit fills it in.
	StoredBytes int64   `json:"stored_bytes"`
	Latency     Latency `json:"latency_s"`
	Pause       float64 `json:"pause_s"`
	// TurnWait is how long its writes waited for other jobs: in Latency.Total, in no part of
	// it.
	TurnWait float64 `json:"turn_wait_s,omitempty"`
	// Log is what the ranks have logged of messages since the checkpoint before.
	Log     *LogStats `json:"log,omitempty"`
	Library *Library  `json:"library,omitempty"`
	// ID is random, 128 bits in hex: it tells checkpoints of one number apart that were
	// committed on the nodes and in the store. Empty without nodes.
	ID string `json:"id,omitempty"`
	// Fence is the number of the holder of the lock who committed it, in an object storage; 0 in a
	// directory.
	Fence int64 `json:"fence,omitempty"`
	// Tier says how the nodes hold the checkpoint, which were the first to have it.
	Tier *Tier `json:"tier,omitempty"`
}

// Tier is the directories of the nodes that a checkpoint was written to first.
type Tier struct {
	Dir     string   `json:"dir"`               // of each node, with {node} for its number
	Protect string   `json:"protect"`           // scheme of redundancy, like partner:1
	Domains []int    `json:"domains,omitempty"` // failure domain of each node; empty: each its own
	Hosts   []string `json:"hosts,omitempty"`   // of the nodes
	// Parities are the files that lost ones can be rebuilt from.
	Parities []Parity `json:"parities,omitempty"`
}

// A Parity is a file that protects the files of a set of ranks.
type Parity struct {
	Path   string `json:"path"` // as in Files
	Set    int    `json:"set"`
	Index  int    `json:"index"` // among the parities of the set
	Node   int    `json:"node"`  // that has it
	Bytes  int64  `json:"bytes"` // length of the file
	Blake3 string `json:"blake3,omitempty"`
}

// levelApplication is the value of Manifest.Level.
const levelApplication = "application"

// Rank is the part of one rank in a checkpoint. Its paths name entries of Files.
type Rank struct {
	Rank    int         `json:"rank"`
	Node    int         `json:"node"`
	Zones   zones.Sizes `json:"zones"` // as in memory
	File    string      `json:"file"`
	Shared  string      `json:"shared,omitempty"`
	Library string      `json:"library,omitempty"`
	// Pending is the size of the region "pending": messages that had arrived and were not
	// received; 0 without it.
	Pending int64 `json:"pending_bytes,omitempty"`
	// Channels is the size of the region "channels": the channels to other groups. Vector says
	// what the rank depends on, as the coordinator words it; LogFrom is the next frame of its
	// message log.
	Channels int64           `json:"channels_bytes,omitempty"`
	Vector   json.RawMessage `json:"vector,omitempty"`
	LogFrom  uint64          `json:"log_from,omitempty"`
	// Global is what the rank holds of arrays of all ranks; Replicated names regions that all
	// ranks have alike. Another number of ranks can resume from these. A program or the
	// specification of a workload tells both.
	Global       []GlobalPart `json:"global,omitempty"`
	Replicated   []string     `json:"replicated,omitempty"`
	Coordination float64      `json:"coordination_s"`
	Management   float64      `json:"management_s"`
	Storage      float64      `json:"storage_s"`
	Pause        float64      `json:"pause_s"`
	TurnWait     float64      `json:"turn_wait_s,omitempty"`
}

// Latency is the time of a checkpoint and its parts, in seconds.
type Latency struct {
	Coordination float64 `json:"coordination"`
	Management   float64 `json:"management"`
	Storage      float64 `json:"storage"`
	Total        float64 `json:"total"`
}

// LogStats is what message logs have cost.
type LogStats struct {
	Bytes   int64   `json:"bytes"`
	Fsyncs  int64   `json:"fsyncs"`
	Seconds float64 `json:"seconds"` // spent in them, of all ranks together
}

// Plus returns the sum of two.
func (l LogStats) Plus(o LogStats) LogStats {
	return LogStats{l.Bytes + o.Bytes, l.Fsyncs + o.Fsyncs, l.Seconds + o.Seconds}
}

// AddLibrary enters the file of the library zone; nil: each rank has its own.
func (m *Manifest) AddLibrary(f *container.File) {
	if f == nil {
		return
	}
	m.Files = append(m.Files, *f)
	for i := range m.Ranks {
		m.Ranks[i].Library = f.Path
	}
}

// Library identifies the program that ran.
type Library struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Blake3 string `json:"blake3"`
}

// The limits of a manifest are beyond anything real; sums within them do not overflow.
const (
	maxNumber    = math.MaxUint32 // of a checkpoint
	maxNP        = 1 << 20
	maxBytes     = 1 << 58
	maxIteration = 1 << 53
	maxFrame     = 1 << 62 // as package msglog has it
)

// check checks that the manifest makes sense by itself.
func (m *Manifest) check() error {
	if err := m.checkNumbers(); err != nil {
		return err
	}
	nodes, err := m.checkMapping()
	if err != nil {
		return err
	}
	files := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		if err := m.checkFile(&f); err != nil {
			return fmt.Errorf("file %q: %w", f.Path, err)
		}
		if files[f.Path] {
			return fmt.Errorf("file %q is listed twice", f.Path)
		}
		files[f.Path] = true
	}
	if err := m.checkTier(files); err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	ranks := make(map[int]bool, len(m.Ranks))
	for _, r := range m.Ranks {
		if r.Rank < 0 || r.Rank >= m.NP || ranks[r.Rank] {
			return fmt.Errorf("rank %d is out of range or listed twice", r.Rank)
		}
		ranks[r.Rank] = true
		if err := r.check(nodes, files); err != nil {
			return fmt.Errorf("rank %d: %w", r.Rank, err)
		}
	}
	return nil
}

// checkNumbers checks what concerns the checkpoint as a whole.
func (m *Manifest) checkNumbers() error {
	switch {
	case !container.ValidJobName(m.Job):
		return fmt.Errorf("job name %q is not valid", m.Job)
	case m.Description != "" && !isDigest(m.Description):
		return errors.New("job_blake3 is not a digest")
	case m.Number < 1 || m.Number > maxNumber || m.NP < 1 || m.NP > maxNP || m.Parent < 0 || m.Parent >= m.Number:
		return fmt.Errorf("number %d, np %d or parent %d is out of range", m.Number, m.NP, m.Parent)
	case m.Level != "" && m.Level != levelApplication:
		return fmt.Errorf("level %q is not known", m.Level)
	case m.Iteration < 0 || m.Iteration > maxIteration:
		return fmt.Errorf("iteration %d is out of range", m.Iteration)
	case m.Step < 0:
		return fmt.Errorf("step %d is out of range", m.Step)
	case m.Groups < 0 || m.Groups > m.NP || m.Group < 0 || m.Group >= max(1, m.Groups):
		return fmt.Errorf("group %d of %d is out of range", m.Group, m.Groups)
	case m.TurnWait < 0:
		return fmt.Errorf("turn_wait_s %g is out of range", m.TurnWait)
	case !validSizes(m.Bytes) || m.StoredBytes < 0 || m.StoredBytes > maxBytes:
		return fmt.Errorf("bytes %+v or stored_bytes %d are out of range", m.Bytes, m.StoredBytes)
	case m.Log != nil && (m.Log.Bytes < 0 || m.Log.Bytes > maxBytes || m.Log.Fsyncs < 0 || m.Log.Seconds < 0):
		return fmt.Errorf("log %+v is out of range", *m.Log)
	case m.Library != nil && (m.Library.Bytes < 0 || m.Library.Bytes > maxBytes || !isDigest(m.Library.Blake3)):
		return fmt.Errorf("library %+v is out of range or has no digest", *m.Library)
	}
	return nil
}

// checkMapping returns the node of each rank; nil if the manifest does not say.
func (m *Manifest) checkMapping() ([]int, error) {
	if len(m.Mapping) == 0 {
		return nil, nil
	}
	nodes := make([]int, 0, m.NP)
	for node, n := range m.Mapping {
		if n < 0 || n > m.NP-len(nodes) {
			return nil, fmt.Errorf("mapping %v does not place %d ranks", m.Mapping, m.NP)
		}
		for range n {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) != m.NP {
		return nil, fmt.Errorf("mapping %v does not place %d ranks", m.Mapping, m.NP)
	}
	return nodes, nil
}

func (r *Rank) check(nodes []int, files map[string]bool) error {
	for _, p := range []string{r.File, r.Shared, r.Library} {
		if p != "" && !files[p] {
			return fmt.Errorf("it needs file %q, which is not listed", p)
		}
	}
	switch {
	case nodes != nil && r.Node != nodes[r.Rank]:
		return fmt.Errorf("it is on node %d, the mapping places it on node %d", r.Node, nodes[r.Rank])
	case !validSizes(r.Zones):
		return fmt.Errorf("zones %+v are out of range", r.Zones)
	case r.Pending < 0 || r.Pending > maxBytes || r.Channels < 0 || r.Channels > maxBytes:
		return fmt.Errorf("pending_bytes %d or channels_bytes %d is out of range", r.Pending, r.Channels)
	case r.LogFrom > maxFrame:
		return fmt.Errorf("log_from %d is out of range", r.LogFrom)
	}
	for _, g := range r.Global {
		if err := g.Check(); err != nil {
			return fmt.Errorf("region %q: %w", g.Region, err)
		}
	}
	return nil
}

func validSizes(s zones.Sizes) bool {
	for _, n := range []int64{s.Library, s.Data, s.Shared, s.IOBuffer} {
		if n < 0 || n > maxBytes {
			return false
		}
	}
	return true
}

// isDigest reports whether s is a blake3-256 in hex.
func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}

func (m *Manifest) checkFile(f *container.File) error {
	switch {
	case !container.LocalPath(f.Path):
		return errors.New("path leaves the directory of the job")
	case f.Number() > m.Number:
		return errors.New("file is of a later checkpoint")
	case !container.ValidKind(f.Kind):
		return fmt.Errorf("kind %q is unknown", f.Kind)
	case f.Bytes < 3*container.BlockSize || f.Bytes > maxBytes:
		return fmt.Errorf("%d bytes are too few or too many for an image", f.Bytes)
	case f.Node < -1 || f.Node >= m.NP:
		return fmt.Errorf("node %d is out of range", f.Node)
	case f.Holes < 0 || f.Holes > f.Bytes-3*container.BlockSize:
		return fmt.Errorf("%d of %d bytes cannot be in holes", f.Holes, f.Bytes)
	}
	if !isDigest(f.IndexBlake3) {
		return errors.New("index_blake3 is not a digest")
	}
	for _, r := range f.Ranks {
		if r < 0 || r >= m.NP {
			return fmt.Errorf("rank %d is out of range", r)
		}
	}
	return nil
}

// Encode returns the manifest as its file has it.
func (m *Manifest) Encode() ([]byte, error) {
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return seal(manifestMagic, append(body, '\n')), nil
}

// DecodeManifest reads what Encode has made. It fails with a durable.DamageError, or
// durable.ErrNewerVersion if the manifest is sound.
func DecodeManifest(path string, b []byte) (*Manifest, error) {
	body, version, err := unseal(path, manifestMagic, b)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, durable.Damaged(path, int64(bytes.Index(b, body)), "manifest is not valid JSON: %v", err)
	}
	if m.Format != version {
		return nil, durable.Damaged(path, 0, "manifest says format %d in line 1 and %d inside", version, m.Format)
	}
	if err := m.check(); err != nil {
		return nil, durable.Damaged(path, 0, "manifest: %v", err)
	}
	return m, nil
}
