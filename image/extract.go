package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"

	"golang.org/x/sync/errgroup"
)

// ErrNoArray says that a rank has no region of a name.
var ErrNoArray = errors.New("no such region")

// An Array is a region of a rank in a checkpoint.
type Array struct {
	Name  string     `json:"region"`
	Zone  zones.Zone `json:"zone"`
	Elem  zones.Elem `json:"element_type"`
	Bytes int64      `json:"bytes"`
	File  string     `json:"file"` // container file that lists it, relative to the job
	index int        // among the regions of the file
}

// Reads counts what was read from the storage, headers and indexes included.
type Reads struct {
	Calls int64 `json:"reads"`
	Bytes int64 `json:"bytes_read"`
}

// Arrays lists the regions of a rank, of its node's segment and of the library. It fails with
// ErrRankNotFound.
func (j *Job) Arrays(m *Manifest, rank int) ([]Array, error) {
	i := slices.IndexFunc(m.Ranks, func(r Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil, fmt.Errorf("checkpoint %d of job %s has %w %d", m.Number, j.name, ErrRankNotFound, rank)
	}
	r := m.Ranks[i]
	list, err := j.arrays(m, r)
	if err != nil || m.Level != levelApplication || i == 0 {
		return list, err
	}
	// Regions of the first rank that this one lacks are the same on all.
	same, err := j.arrays(m, m.Ranks[0])
	for _, a := range same {
		if a.Name == pendingRegion || slices.ContainsFunc(list, func(own Array) bool { return own.Name == a.Name }) {
			continue
		}
		list = append(list, a)
	}
	return list, err
}

// pendingRegion is the region that Rank.Pending is the size of.
const pendingRegion = "pending"

// arrays lists what a rank has stored itself, or has in common with its node or with all.
func (j *Job) arrays(m *Manifest, r Rank) ([]Array, error) {
	files := map[string][]zones.Zone{r.File: {zones.Data, zones.IOBuffer}}
	shared, library := cmp.Or(r.Shared, r.File), cmp.Or(r.Library, r.File)
	files[shared] = append(files[shared], zones.Shared)
	files[library] = append(files[library], zones.Library)
	var list []Array
	for path, wanted := range files {
		if path == "" {
			continue // it has nothing that is not the same on all ranks
		}
		k := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == path })
		if k < 0 {
			return nil, durable.Damaged(j.manifestPath(m.Number), 0, "rank %d is in %s, which is not among the files", r.Rank, path)
		}
		regions, err := j.Place().Regions(m.Files[k])
		if err != nil {
			return nil, err
		}
		node := leaderOf(m, path, r)
		for i, reg := range regions {
			own := reg.Of(r.Rank) || reg.Zone == zones.Shared && reg.Rank == node
			if own && slices.Contains(wanted, reg.Zone) {
				list = append(list, Array{reg.Name, reg.Zone, reg.Elem, reg.Size, path, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b Array) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.File, b.File), cmp.Compare(a.index, b.index))
	})
	return list, nil
}

// leaderOf returns the rank that has stored the segment of r's node in file path.
func leaderOf(m *Manifest, path string, r Rank) int {
	for _, other := range m.Ranks {
		if other.Node == r.Node && (r.Shared == "" && other.Rank == r.Rank || r.Shared == path) {
			return other.Rank
		}
	}
	return r.Rank
}

// FindArray returns the one of list that has the name.
func FindArray(list []Array, name string) (Array, error) {
	var names []string
	for _, a := range list {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Array{}, fmt.Errorf("%w: %q; there are %s", ErrNoArray, name, strings.Join(names, ", "))
}

// Extract writes an array to w, in order and checked. It reads the extents of the array only,
// with holes where that takes less time than another call. Progress, unless nil, gets the bytes
// written.
func (j *Job) Extract(ctx context.Context, m *Manifest, a Array, w io.Writer, progress func(int64)) (Reads, error) {
	j, reads := j.Counting()
	o, err := j.Open(m, a.File)
	if err != nil {
		return reads(), err
	}
	defer o.Close()
	r, err := a.in(o)
	if err == nil {
		err = r.Copy(ctx, w, 0, a.Bytes, progress)
	}
	return reads(), err
}

// in returns a reader of the array.
func (a Array) in(o *container.Contents) (*container.RegionReader, error) {
	if a.index >= len(o.Regions) || o.Regions[a.index].Name != a.Name || o.Regions[a.index].Size != a.Bytes {
		return nil, fmt.Errorf("%s: %w: there is no region %q", a.File, container.ErrRegionsDiffer, a.Name)
	}
	return o.Region(a.index), nil
}

// Counting returns the job, for reading, and what has been read through it so far.
func (j *Job) Counting() (again *Job, reads func() Reads) {
	count := &countingFS{FS: j.fs}
	return j.Through(count), count.reads
}

// A countingFS counts what is read of its files.
type countingFS struct {
	vfs.FS
	calls, bytes atomic.Int64
}

func (c *countingFS) reads() Reads { return Reads{c.calls.Load(), c.bytes.Load()} }

func (c *countingFS) Open(name string) (vfs.File, error) { return c.count(c.FS.Open(name)) }

func (c *countingFS) OpenDirect(name string) (vfs.File, error) {
	return c.count(c.FS.OpenDirect(name))
}

func (c *countingFS) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{f, c}, nil
}

type countingFile struct {
	vfs.File
	of *countingFS
}

func (f countingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.of.calls.Add(1)
	f.of.bytes.Add(int64(n))
	return n, err
}

const (
	verifyFiles = 3   // files verified at a time
	maxDamage   = 100 // entries in the report per file
)

// A Report says what Verify found.
type Report struct {
	CheckedBytes int64    // of files, read for this checkpoint
	Damage       []Damage // by file and offset; empty if all is well
}

// Damage is one place that is not what was written.
type Damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// A Verification verifies checkpoints of one job, and reads bytes that they share once.
type Verification struct {
	job  *Job
	memo container.Memo
}

// Verification returns one that has read nothing.
func (j *Job) Verification() *Verification { return &Verification{job: j} }

// Verify is Checkpoint of a new Verification.
func (j *Job) Verify(ctx context.Context, n int, progress func(int64)) (Report, error) {
	return j.Verification().Checkpoint(ctx, n, progress)
}

// Checkpoint reads every byte of checkpoint n, also in files of earlier checkpoints, and the
// description of the job, and reports all damage, also damage found before. It needs no lock
// and little memory. Progress, if not nil, is told the bytes checked since its last call, one
// call at a time.
//
// The error tells what kept Checkpoint from looking: ErrCheckpointNotFound,
// durable.ErrNewerVersion, no permission, ctx.
func (a *Verification) Checkpoint(ctx context.Context, n int, progress func(int64)) (Report, error) {
	j := a.job
	v := &verifier{progress: progress, damage: make(map[string][]Damage)}
	if _, err := j.Spec(); err != nil {
		if err := v.note(err); err != nil {
			return v.report(), err
		}
	}
	m, err := j.Manifest(n)
	if err != nil {
		err = v.note(err)
		return v.report(), err
	}
	if fi, err := j.fs.Stat(j.manifestPath(n)); err == nil {
		v.done(fi.Size())
	}
	files := &container.Verifier{Place: j.Place(), Note: v.note, Done: v.done, Memo: &a.memo}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyFiles)
	for _, f := range m.Files {
		g.Go(func() error { return files.File(gctx, f) })
	}
	if err := g.Wait(); err != nil {
		return v.report(), err
	}
	if err := files.References(ctx, m.Files); err != nil {
		return v.report(), err
	}
	rep := v.report()
	if len(rep.Damage) > 0 {
		// A running job may have taken it back: the manifest, then the files.
		if _, err := j.Manifest(n); errors.Is(err, ErrCheckpointNotFound) {
			return rep, err
		}
	}
	return rep, nil
}

type verifier struct {
	progress func(int64)

	mu      sync.Mutex
	checked int64
	damage  map[string][]Damage // by file
}

// note keeps err if it is damage, else returns it.
func (v *verifier) note(err error) error {
	if err == nil {
		return nil
	}
	var d *durable.DamageError
	var other *container.OtherJobError
	switch {
	case errors.As(err, &d):
	case errors.As(err, &other):
		d = &durable.DamageError{File: other.File, Reason: other.Reason()}
	default:
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.damage[d.File]) < maxDamage {
		v.damage[d.File] = append(v.damage[d.File], Damage{d.File, d.Offset, d.Reason})
	}
	return nil
}

func (v *verifier) done(n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked += n
	if v.progress != nil {
		v.progress(n)
	}
}

func (v *verifier) report() Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	rep := Report{CheckedBytes: v.checked}
	for _, list := range v.damage {
		rep.Damage = append(rep.Damage, list...)
	}
	slices.SortFunc(rep.Damage, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset),
			cmp.Compare(a.Reason, b.Reason))
	})
	rep.Damage = slices.Compact(rep.Damage)
	return rep
}
