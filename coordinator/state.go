package coordinator

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/app"
	"ckpt/coordinator/mpi"
	"ckpt/image"
	"ckpt/image/vfs"
	"ckpt/zones"
)

// pendingRegion is the name of the region that holds the messages which had
// arrived at a rank but were not received yet when it was stopped.
const pendingRegion = "pending"

// libraryRegion is the name of the region of the binary.
const libraryRegion = "ckpt"

// state is the memory of a rank: what a checkpoint saves and a restart fills.
type state struct {
	fs      vfs.FS // of the store
	rank    int
	cfg     *welcome
	node    int
	mem     *mpi.Memory
	segment *mpi.Segment
	app     *app.App
	pending []byte // messages restored
	job     *image.Job
	codec   *image.Codec
	history *image.History // nil: every checkpoint is complete by itself
}

// newState allocates the memory of a rank and fills it, from a checkpoint or
// with the initial fields.
func newState(ctx context.Context, fsys vfs.FS, id int, cfg *welcome) (*state, error) {
	s := &state{fs: fsys, rank: id, cfg: cfg, node: cfg.Mapping.Nodes()[id], mem: mpi.NewMemory()}
	inst, err := cfg.Spec.instance()
	if err != nil {
		return nil, err
	}
	setting, err := cfg.Spec.codec()
	if err != nil {
		return nil, err
	}
	s.codec = image.NewCodec(setting, 0)
	if cfg.Spec.Incremental {
		s.history = image.NewHistory()
	}
	store, err := image.OpenStore(fsys, cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	if s.job, err = store.Job(cfg.Job); err != nil {
		return nil, err
	}
	if err := s.mem.MapLibrary(libraryRegion, self); err != nil {
		return nil, err
	}
	s.app, err = app.New(inst, id, func(name string, elem zones.Elem, bytes int64) ([]byte, error) {
		return s.mem.Alloc(name, zones.Data, elem, bytes)
	})
	if err != nil {
		return nil, err
	}
	flavour, err := mpi.ParseFlavour(cfg.Spec.MPI)
	if err != nil {
		return nil, err
	}
	if s.segment, err = mpi.OpenSegment(cfg.Segment, flavour, cfg.Mapping[s.node]); err != nil {
		return nil, err
	}
	s.mem.AddShared(s.segment)
	if cfg.From == 0 {
		return s, s.app.Init()
	}
	if err := s.restore(ctx); err != nil {
		return nil, err
	}
	if got := s.app.Iteration(); got != cfg.Iter {
		return nil, fmt.Errorf("checkpoint %d is of iteration %d, the memory in it of %d", cfg.From, cfg.Iter, got)
	}
	return s, nil
}

// zone returns the regions of one zone.
func (s *state) zone(z zones.Zone) []zones.Region {
	var regions []zones.Region
	for _, r := range s.mem.Regions() {
		if r.Zone == z {
			regions = append(regions, r)
		}
	}
	return regions
}

// leads reports whether this rank acts for its node.
func (s *state) leads() bool { return s.cfg.Mapping.first(s.node) == s.rank }

// write writes the files it is ordered to.
func (s *state) write(ctx context.Context, number int, order writeOrder, pending []byte, progress func(int64)) (*writeReport, error) {
	report := &writeReport{Zones: s.mem.Sizes(), Pending: int64(len(pending))}
	put := func(kind, path string, regions []zones.Region) error {
		if path == "" {
			return nil
		}
		h := image.Header{Job: s.cfg.Job, Number: number, Rank: -1, Node: -1, Kind: kind}
		switch kind {
		case image.KindRank:
			h.Rank, h.Node = s.rank, s.node
		case image.KindShared:
			h.Node = s.node
		}
		opt := image.WriteOptions{Codec: s.codec, History: s.history, Base: order.Base, Oldest: order.Oldest, Progress: progress}
		if kind == image.KindLibrary {
			opt.History = nil // it is written when there is none to refer to
		}
		info, err := image.Write(ctx, s.fs, path, h, regions, opt)
		if err != nil {
			return err
		}
		report.Files = append(report.Files, writtenFile{kind, filepath.Clean(info.Path), info.Bytes, info.IndexBlake3})
		report.Management += info.ManagementTime
		report.Storage += info.StorageTime
		return nil
	}
	own := s.zone(zones.Data)
	if len(pending) > 0 {
		extra := mpi.NewMemory()
		defer extra.Close()
		mem, err := extra.Alloc(pendingRegion, zones.Data, zones.Bytes, int64(len(pending)))
		if err != nil {
			return nil, err
		}
		copy(mem, pending)
		own = append(own, extra.Regions()...)
	}
	if order.WithShared {
		own = append(own, s.zone(zones.Shared)...)
	}
	if order.WithLibrary {
		own = append(own, s.zone(zones.Library)...)
	}
	if err := put(image.KindRank, order.Rank, own); err != nil {
		return nil, err
	}
	if err := put(image.KindShared, order.Shared, s.zone(zones.Shared)); err != nil {
		return nil, err
	}
	return report, put(image.KindLibrary, order.Library, s.zone(zones.Library))
}

// restore fills the memory from a checkpoint, checking all it reads. Under
// another mapping the queues of the shared segments have another shape; they
// were drained, so that nothing is lost by starting with empty ones.
func (s *state) restore(ctx context.Context) error {
	m, err := s.job.Manifest(s.cfg.From)
	if err != nil {
		return err
	}
	if s.rank >= len(m.Ranks) || m.Ranks[s.rank].Rank != s.rank {
		return fmt.Errorf("checkpoint %d has no rank %d", m.Number, s.rank)
	}
	was := m.Ranks[s.rank]
	sameNode := Mapping(m.Mapping).String() == s.cfg.Mapping.String() && m.MPI == s.cfg.Spec.MPI

	extra := mpi.NewMemory() // for what has no place in this process
	defer extra.Close()
	own := s.zone(zones.Data)
	var pending []byte
	if was.Pending > 0 {
		if pending, err = extra.Alloc(pendingRegion, zones.Data, zones.Bytes, was.Pending); err != nil {
			return err
		}
		own = append(own, extra.Regions()...)
	}
	shared := s.zone(zones.Shared)
	switch {
	case was.Shared != "" && sameNode && s.leads():
		if err := s.load(ctx, m, was.Shared, shared); err != nil {
			return err
		}
	case was.Shared == "" && sameNode:
		own = append(own, shared...)
	case was.Shared == "":
		stray := mpi.NewMemory()
		defer stray.Close()
		if _, err := stray.Alloc(shared[0].Name, zones.Shared, zones.Bytes, was.Zones.Shared); err != nil {
			return err
		}
		own = append(own, stray.Regions()...)
	}
	if was.Library == "" {
		stray := mpi.NewMemory()
		defer stray.Close()
		if _, err := stray.Alloc(s.zone(zones.Library)[0].Name, zones.Library, zones.Bytes, was.Zones.Library); err != nil {
			return err
		}
		own = append(own, stray.Regions()...)
	}
	if err := s.load(ctx, m, was.File, own); err != nil {
		return err
	}
	s.pending = append([]byte(nil), pending...)
	return nil
}

// load reads a file of a checkpoint, and remembers what is in it.
func (s *state) load(ctx context.Context, m *image.Manifest, file string, regions []zones.Region) error {
	if err := s.job.Load(ctx, m, file, regions); err != nil {
		return err
	}
	if s.history == nil {
		return nil
	}
	return s.job.Recall(s.history, m, file)
}

// result is what the rank reports at its end: the digest of its data zone, the
// names and sizes of the regions included.
func (s *state) result() doneReport {
	h := blake3.New()
	for _, r := range s.zone(zones.Data) {
		fmt.Fprintf(h, "%s %d\n", r.Name, r.Size)
		h.Write(r.Mem[:r.Size])
	}
	report := doneReport{Digest: hex.EncodeToString(h.Sum(nil))}
	if r := s.app.Residual(); !math.IsNaN(r) && !math.IsInf(r, 0) {
		report.Residual = &r
	}
	return report
}
