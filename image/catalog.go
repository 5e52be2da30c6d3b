package image

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// The catalog of a job repeats what its manifests say, a line per checkpoint, so that a list
// need not read them all:
//
//	ckpt-catalog 1
//	+ NUMBER ITERATION NEEDS FILES STORED LENGTH MODIFIED SUMMARY CRC
//	- NUMBER CRC
//
// A line is added after a commit, and before a checkpoint is taken back. It decides nothing: a
// checkpoint exists if its manifest does. A directory that it does not list is looked into, and
// a damaged catalog is made anew.
//
// The suffix makes a ckpt that does not know the catalog sweep it away first.
const (
	catalogName  = "catalog" + durable.TempSuffix
	catalogMagic = "ckpt-catalog 1\n"
	maxCatalog   = 1 << 30
	// noList stands for an empty list in a line.
	noList = "-"
)

// A Summary describes a checkpoint in lists. Times are in seconds, sizes in bytes.
type Summary struct {
	Number    int       `json:"number"`
	Iteration int64     `json:"iteration"`
	Job       string    `json:"job"`
	App       string    `json:"app"`
	NP        int       `json:"np"`
	MPI       string    `json:"mpi"`
	Origin    string    `json:"origin,omitempty"`
	Created   time.Time `json:"created"`
	Mapping   []int     `json:"mapping"`
	Parent    int       `json:"parent"`
	Ranks     int       `json:"ranks"`
	Of        []int     `json:"of,omitempty"` // which ranks, unless all
	Files     int       `json:"files"`        // that it added, the manifest included
	// Bytes add up the images of all ranks: segment and library count once per rank.
	Bytes zones.Sizes `json:"bytes"`
	// Memory counts the segment once per node and the library once. It is nil for imported
	// checkpoints, whose images do not tell what they share.
	Memory      *zones.Sizes `json:"memory,omitempty"`
	StoredBytes int64        `json:"stored_bytes"`
	Latency     Latency      `json:"latency_s"`
	Pause       float64      `json:"pause_s"`
	TurnWait    float64      `json:"turn_wait_s,omitempty"` // as in Manifest
	Log         *LogStats    `json:"log,omitempty"`
}

// Summary describes a committed checkpoint.
func (m *Manifest) Summary() Summary {
	s := Summary{Number: m.Number, Iteration: m.Iteration, Job: m.Job, App: m.App, NP: m.NP, MPI: m.MPI, Origin: m.Origin,
		Created: m.Created, Mapping: m.Mapping, Parent: m.Parent, Ranks: len(m.Ranks), Files: 1,
		Bytes: m.Bytes, Memory: m.memory(), StoredBytes: m.StoredBytes, Latency: m.Latency, Pause: m.Pause, TurnWait: m.TurnWait, Log: m.Log}
	for _, f := range m.Files {
		if f.Number() == m.Number {
			s.Files++
		}
	}
	if m.Groups > 1 {
		for _, r := range m.Ranks {
			s.Of = append(s.Of, r.Rank)
		}
	}
	return s
}

// memory returns the bytes of each zone that the ranks of a checkpoint occupied.
func (m *Manifest) memory() *zones.Sizes {
	if m.Origin != "" {
		return nil
	}
	var s zones.Sizes
	segments := make(map[int]int64) // by node
	for _, r := range m.Ranks {
		s.Data += r.Zones.Data
		s.IOBuffer += r.Zones.IOBuffer
		s.Library = max(s.Library, r.Zones.Library)
		segments[r.Node] = max(segments[r.Node], r.Zones.Shared)
	}
	for _, n := range segments {
		s.Shared += n
	}
	return &s
}

// A record is what the catalog says of a committed checkpoint.
type record struct {
	number    int
	iteration int64
	needs     []int    // directories of earlier checkpoints that hold bytes of it, ascending
	files     []string // that it uses in the directory of the job's own files
	stored    int64
	length    int64 // of the manifest
	modified  int64 // the manifest, in nanoseconds since 1970
	summary   string
	// unread: the manifest is not read yet, or cannot be; only the number is known.
	unread bool
	listed bool // it has a line in the file
}

// sealLine ends a line with its checksum.
func sealLine(line string) string {
	return fmt.Sprintf("%s %08x\n", line, durable.Sum([]byte(line)))
}

func (r *record) line() string {
	needs := make([]string, len(r.needs))
	for i, n := range r.needs {
		needs[i] = strconv.Itoa(n)
	}
	return sealLine(fmt.Sprintf("+ %d %d %s %s %d %d %d %s", r.number, r.iteration,
		cmp.Or(strings.Join(needs, ","), noList), cmp.Or(strings.Join(r.files, ","), noList),
		r.stored, r.length, r.modified, r.summary))
}

func dropLine(n int) string { return sealLine(fmt.Sprintf("- %d", n)) }

// listable reports whether the record can be written as a line.
func (r *record) listable() bool {
	for _, f := range r.files {
		if strings.ContainsAny(f, " ,\n") {
			return false
		}
	}
	return !r.unread && !strings.Contains(r.summary, "\n")
}

var errCatalog = errors.New("not a line of a catalog")

// parseCatalog reads the records of the checkpoints that have not been taken back.
func parseCatalog(b []byte) (records map[int]*record, lines int, err error) {
	text, ok := bytes.CutPrefix(b, []byte(catalogMagic))
	if !ok {
		return nil, 0, errCatalog
	}
	records = make(map[int]*record)
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return nil, 0, errCatalog // it was never completed
		}
		if err := readLine(records, string(text[:end+1])); err != nil {
			return nil, 0, err
		}
		text = text[end+1:]
		lines++
	}
	return records, lines, nil
}

// readLine applies a line, which has one form only, to records.
func readLine(records map[int]*record, line string) error {
	fields := strings.SplitN(line, " ", 9)
	switch {
	case len(fields) == 3 && fields[0] == "-":
		n, err := strconv.Atoi(fields[1])
		if err != nil || records[n] == nil || line != dropLine(n) {
			return errCatalog
		}
		delete(records, n)
	case len(fields) == 9 && fields[0] == "+":
		r, err := parseRecord(fields[1:])
		if err != nil || records[r.number] != nil || line != r.line() {
			return errCatalog
		}
		records[r.number] = r
	default:
		return errCatalog
	}
	return nil
}

// parseRecord reads the fields of a line; the caller compares the line.
func parseRecord(fields []string) (*record, error) {
	var wrong error
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		wrong = cmp.Or(wrong, err)
		return n
	}
	list := func(text string) []string {
		if text == noList {
			return nil
		}
		return strings.Split(text, ",")
	}
	r := &record{number: int(number(fields[0])), iteration: number(fields[1]), files: list(fields[3]),
		stored: number(fields[4]), length: number(fields[5]), modified: number(fields[6]), listed: true}
	r.summary = fields[7][:max(0, strings.LastIndexByte(fields[7], ' '))]
	for _, text := range list(fields[2]) {
		n := int(number(text))
		if n < 1 || n >= r.number || len(r.needs) > 0 && n <= r.needs[len(r.needs)-1] {
			return nil, errCatalog
		}
		r.needs = append(r.needs, n)
	}
	for _, f := range r.files {
		if n, ok := container.PathNumber(f); !container.LocalPath(f) || !ok || n != container.JobNumber {
			return nil, errCatalog
		}
	}
	if r.number < 1 || r.number > math.MaxUint32 || min(r.iteration, r.stored, r.length) < 0 {
		return nil, errCatalog
	}
	return r, wrong
}

// newRecord makes the record of a checkpoint that is committed. Paths are all files that hold
// bytes of it.
func (j *Job) newRecord(m *Manifest, paths []string) (*record, error) {
	fi, err := j.fs.Stat(j.manifestPath(m.Number))
	if err != nil {
		return nil, err
	}
	summary, err := json.Marshal(m.Summary())
	if err != nil {
		return nil, err
	}
	r := &record{number: m.Number, iteration: m.Iteration, stored: m.StoredBytes, length: fi.Size(), modified: fi.ModTime().UnixNano(),
		summary: string(summary)}
	for _, p := range paths {
		switch n, _ := container.PathNumber(p); n {
		case m.Number:
		case container.JobNumber:
			r.files = append(r.files, p)
		default:
			r.needs = append(r.needs, n)
		}
	}
	r.needs, r.files = distinct(r.needs), distinct(r.files)
	return r, nil
}

// examine makes the record of checkpoint n out of its manifest and indexes.
func (j *Job) examine(n int) (*record, error) {
	m, err := j.Manifest(n)
	if err != nil {
		return nil, err
	}
	paths, err := j.pathsOf(m)
	if err != nil {
		return nil, err
	}
	return j.newRecord(m, paths)
}

// pathsOf lists all files that hold bytes of a checkpoint.
func (j *Job) pathsOf(m *Manifest) ([]string, error) {
	var paths []string
	for _, f := range m.Files {
		refs, err := j.Place().References(f, false)
		if err != nil {
			return nil, err
		}
		paths = append(append(paths, f.Path), refs...)
	}
	return paths, nil
}

func (j *Job) catalogPath() string { return filepath.Join(j.dir, catalogName) }
