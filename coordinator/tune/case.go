package tune

import (
	"fmt"
	"math"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/zones"
)

// A Case is a checkpoint to predict.
type Case struct {
	Instance *dataset.Instance
	Mapping  job.Mapping
	MPI      string // layout of the shared segment, mpich or openmpi
	Settings plan.Settings
	Codec    string // none, auto, s2, zstd or gzip; empty is none
	// Async lets the ranks compute while a copy of their memory is written. Incremental
	// says that extents are compared with those of the checkpoint before, and Following
	// that this one stores only what has changed since.
	Async, Incremental, Following bool
	// Library is what is stored beside a first checkpoint, in bytes; 0: nothing.
	Library int64
	// Content says what is stored of a region under a codec. If it is nil, the workload
	// says which share of a region is written to, and ratios are those of the description
	// or the usual ones.
	Content func(region, codec string) Content
	// Memory replaces what the ranks of Instance hold: images of another checkpointer,
	// which are stored as they are. Packing is the time that one processor needs before
	// the image of a rank is written.
	Memory  *PlannedMemory
	Packing func(rank int) float64
	// OneStream says that a rank has one write under way, as other checkpointers do.
	OneStream bool
	// Doubt is the relative standard deviation of the stored bytes.
	Doubt float64
	// Ranks are those that take part, by their positions; nil: all.
	Ranks []int
	// Limit is how many bytes of a node buffers and copies may take; 0: any number.
	Limit int64
	// Saved stores only the arrays that have to be saved, those that all ranks have with the first.
	Saved bool
	// Whole stores regions as they are: no zeros are left out, nothing is packed.
	Whole bool
	// Background is the share of the storage that other jobs take, below 1.
	Background float64
	Seed       uint64
	// Targets are those that files lie on; nil: as the file system deals them.
	Targets []int

	assumed   string       // the codec that auto chooses; empty: the best
	simulated *simulations // of a search; may be nil
	rough     bool         // a large job's time may be a rough one
}

// A Content is what is stored of a region.
type Content struct {
	// Written is the share that is neither zeros nor unchanged, Ratio what a codec leaves
	// of it; 0 if that is not known.
	Written, Ratio float64
}

// extentBytes is how much of a region is stored or left out together (docs/FORMAT.md).
const extentBytes = 256 << 10

// header is the block with which every file begins (docs/FORMAT.md).
const header = plan.PageSize

// A load is what the ranks of a case store.
type load struct {
	sources []plan.Source
	read    []int64 // bytes of memory that a rank looks at
	offered []int64 // bytes of memory that a rank offers to its codec
	copied  []int64 // bytes that a rank copies before its application continues
}

// load evaluates a case under a codec that has such ratios of its own.
func (c *Case) load(codec string, usual float64) (*load, error) {
	m := c.Memory
	if m == nil {
		var err error
		if m, err = PlanMemory(c.Instance, c.Mapping, c.MPI); err != nil {
			return nil, err
		}
		if c.Saved {
			m.save(c.Instance.Arrays)
		}
	}
	sources := m.Sources
	if c.Ranks != nil {
		sources = make([]plan.Source, len(c.Ranks))
		for i, at := range c.Ranks {
			sources[i] = m.Sources[at]
		}
	}
	l := &load{sources: make([]plan.Source, len(sources))}
	contents := make([]Content, len(m.Regions))
	for i, name := range m.Regions {
		contents[i] = c.content(name, codec, usual)
	}
	for i, s := range sources {
		pieces := make([]plan.Piece, 0, len(s.Pieces))
		var read, offered int64
		for _, p := range s.Pieces {
			x := contents[p.Key]
			written := wholeExtents(p.Bytes, x.Written)
			read += p.Bytes
			offered += written
			if stored := zones.PageRound(int64(math.Ceil(float64(written) * x.Ratio))); stored > 0 {
				pieces = append(pieces, plan.Piece{Key: p.Key, Bytes: stored, Align: p.Align})
			}
		}
		l.sources[i] = plan.Source{Rank: s.Rank, Node: s.Node, Pieces: pieces}
		l.read, l.offered, l.copied = append(l.read, read), append(l.offered, offered), append(l.copied, offered)
	}
	return l, nil
}

// wholeExtents returns the bytes of the extents that a share of a region touches.
func wholeExtents(bytes int64, share float64) int64 {
	if share >= 1 {
		return bytes
	}
	n := int64(math.Ceil(share * float64(bytes) / extentBytes))
	return min(bytes, n*extentBytes)
}

// content returns what a region holds.
func (c *Case) content(region, codec string, usual float64) Content {
	switch {
	case c.Whole || c.Memory != nil:
		return Content{1, 1}
	case c.Content != nil:
		x := c.Content(region, codec)
		if x.Ratio == 0 {
			x.Ratio = usual
		}
		return x
	}
	x := Content{Written: 1, Ratio: usual}
	if c.Following {
		// Of what is no array the page with the counter of iterations changes.
		x.Written = math.SmallestNonzeroFloat64
	}
	for _, a := range c.Instance.Arrays {
		if a.Name == region {
			x.Written = max(a.Used, a.Rewrite)
			if c.Following {
				x.Written = a.Rewrite
			}
		}
	}
	return x
}

// bytes adds up what all ranks store.
func (l *load) bytes() int64 {
	var sum int64
	for _, s := range l.sources {
		for _, p := range s.Pieces {
			sum += p.Bytes
		}
	}
	return sum
}

// plan makes the plan of the case.
func (l *load) plan(s plan.Settings) (*plan.Plan, error) {
	s.Header = header
	p, err := plan.New(l.sources, s)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	return p, nil
}

// check refuses what no forecast is about.
func (c *Case) check() error {
	if c.Instance == nil && c.Memory == nil {
		return fmt.Errorf("predict: no application is given")
	}
	if !(c.Background >= 0 && c.Background < 1) {
		return fmt.Errorf("predict: background %g: want a share from 0, below 1", c.Background)
	}
	return nil
}

// targets is how many targets the files may lie on.
func (c *Case) targets(sys *pfs.System) int {
	if c.Targets != nil {
		return len(c.Targets)
	}
	return max(1, sys.Targets.Count)
}

// OfJob is a checkpoint that a job writes into its store in a way. Of several groups it is one of
// those with the most ranks; unless they are spread over time, the others take their part of the
// storage. Copies from nodes are packed already. A program tells its memory with its checkpoints.
func OfJob(r *job.Resolved, way job.Way) (c Case, err error) {
	c = Case{Saved: r.Program == nil && r.SavesArrays(), Mapping: r.Mapping, MPI: r.MPI, Settings: way.WritePath, Codec: way.Codec, Async: r.Async, Incremental: r.Incremental}
	if r.Program == nil {
		if c.Instance, err = r.Instance(); err != nil {
			return c, err
		}
	}
	if r.Several() {
		c.Ranks = r.Groups[Watched(r)]
		if r.Stagger == supervisor.Together {
			c.Background = 1 - 1/float64(len(r.Groups))
		}
	}
	if r.Tier != nil {
		c.Packing = func(int) float64 { return 0 }
	}
	return c, nil
}

// OfSpec is a checkpoint that a described job writes in its own way.
func OfSpec(s job.Spec) (Case, error) {
	r, err := s.Resolve()
	if err != nil {
		return Case{}, err
	}
	return OfJob(r, r.Way())
}

// Watched is the group of a job whose checkpoints tell how the way does.
func Watched(r *job.Resolved) int {
	most := 0
	for g, ranks := range r.Groups {
		if len(ranks) > len(r.Groups[most]) {
			most = g
		}
	}
	return most
}
