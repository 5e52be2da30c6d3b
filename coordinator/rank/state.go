package rank

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/app"
	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/exec"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// state is the memory of a rank: what a checkpoint saves and a restart fills.
type state struct {
	fs       vfs.FS // of the store
	rank     int
	cfg      *wire.Welcome
	spec     *job.Resolved
	node     int
	mem      *mpi.Memory
	segment  *mpi.Segment
	app      *app.App
	pending  []byte             // messages restored
	channels *job.SavedChannels // restored; may be nil
	job      *image.Job
	images   *image.Job      // where the checkpoint restored is read: of the store, or of the node
	found    *image.Manifest // of that checkpoint, if it is read on a node
	tier     *nodeTier       // directories of the nodes; may be nil
	turns    *turns.Client   // on the storage of the store; may be nil
	wrote    map[bool]int64  // bytes of the last complete, and incremental, checkpoint in the store
	lost     error           // of a program: why its part of the checkpoint is nowhere
	codec    *container.Codec
	history  *container.History // nil: every checkpoint is complete by itself
	log      *msglog.Log        // of messages from other groups; may be nil
	replay   *msglog.Reader     // what is replayed of it
	logged   msglog.Stats       // what has been reported of it
	// logFailed hears that the log has failed, and nil when it is in order again.
	logFailed func(error)
	progress  func(bytes int64)  // takes the bytes restored
	restored  wire.RestoreReport // what was read
	copies    *copies            // of several checkpoints in flight
	staging   *container.Staging // nil: the rank waits until its memory is written
	way       job.Way            // how to write the next checkpoint
	joint     *job.JointLayout   // nil: a file per rank
	buffers   exec.Buffers
	step      int64 // of a program, in the checkpoint that was restored
}

// openState opens the job of a rank, which has no memory yet.
func openState(fsys vfs.FS, id int, cfg *wire.Welcome, spec *job.Resolved, tier *nodeTier,
	taken *turns.Client, progress func(int64)) (*state, error) {
	s := &state{tier: tier, turns: taken, wrote: map[bool]int64{}, progress: progress,
		rank: id, cfg: cfg, spec: spec, node: spec.Nodes[id], joint: spec.Layouts[spec.GroupOf[id]],
		codec: container.NewCodec(spec.Codec, 0), way: spec.Way()}
	if spec.Incremental {
		s.history = container.NewHistory()
	}
	store, err := image.OpenStore(fsys, cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	if s.job, err = store.Job(cfg.Job); err != nil {
		return nil, err
	}
	s.fs = s.job.FS()
	return s, nil
}

// newState allocates the memory of a rank and fills it, from a checkpoint or with the initial
// fields.
func newState(ctx context.Context, fsys vfs.FS, id int, cfg *wire.Welcome, spec *job.Resolved, tier *nodeTier, taken *turns.Client, here *hostDir, progress func(int64)) (*state, error) {
	s, err := openState(fsys, id, cfg, spec, tier, taken, progress)
	if err != nil {
		return nil, err
	}
	s.mem = mpi.NewMemory()
	inst, err := spec.Instance()
	if err != nil {
		return nil, err
	}
	if n := spec.Flights(); n > 1 {
		if s.copies, err = newCopies(n, spec.StagingBytes(inst.DataBytes())); err != nil {
			return nil, err
		}
	} else if spec.Async {
		mem, err := mpi.MapTouched(spec.StagingBytes(inst.DataBytes()))
		if err != nil {
			return nil, fmt.Errorf("staging buffer: %w", err)
		}
		s.staging = container.NewStaging(mem)
	}
	if err := s.mem.MapLibrary(job.LibraryRegion, cfg.Program); err != nil {
		return nil, err
	}
	s.app, err = app.New(inst, id, func(name string, elem zones.Elem, bytes int64) ([]byte, error) {
		return s.mem.Alloc(name, zones.Data, elem, bytes)
	})
	if err != nil {
		return nil, err
	}
	if s.segment, err = s.openSegment(here); err != nil {
		return nil, err
	}
	s.mem.AddShared(s.segment)
	if cfg.From == 0 || spec.SavesArrays() {
		if err := s.app.Init(); err != nil || cfg.From == 0 && spec.Recut == nil {
			return s, err
		}
	}
	restore := s.restore
	if cfg.From == 0 {
		restore = s.restoreRecut
	}
	if err := restore(ctx); err != nil {
		return nil, err
	}
	if got := s.app.Iteration(); got != cfg.Iter {
		return nil, &durable.DamageError{File: job.ManifestPath(s.job, cfg.From), Reason: fmt.Sprintf("it is of iteration %d, the memory in it of %d", cfg.Iter, got)}
	}
	return s, nil
}

func (s *state) zone(z zones.Zone) []zones.Region {
	var regions []zones.Region
	for _, r := range s.mem.Regions() {
		if r.Zone == z {
			regions = append(regions, s.described(r))
		}
	}
	return regions
}

// take gathers what an order stores of this rank, and what is to be told of it.
func (s *state) take(order wire.WriteOrder, snap *mpi.Snapshot) (t *taken, err error) {
	report := &wire.WriteReport{Zones: s.mem.Sizes(), Pending: int64(len(snap.Pending)), Channels: int64(len(snap.State)), LogFrom: snap.LogFrom}
	regions := s.zone(zones.Data)
	tell(report, regions)
	extra, progress := mpi.NewMemory(), mpi.NewMemory()
	t = &taken{report: report, close: func() { _, _ = extra.Close(), progress.Close() }}
	defer func() {
		if err != nil {
			t.end()
		}
	}()
	if s.spec.SavesArrays() {
		var all []zones.Region
		if regions, all, err = s.saved(progress); err != nil {
			return nil, err
		}
		tell(report, all)
		report.Zones = job.StoredZones(regions)
	}
	for i := range regions {
		t.live = append(t.live, i)
	}
	add := func(name string, zone zones.Zone, b []byte) error {
		if len(b) == 0 {
			return nil
		}
		mem, err := extra.Alloc(name, zone, zones.Bytes, int64(len(b)))
		copy(mem, b)
		return err
	}
	if err := errors.Join(add(job.PendingRegion, zones.Data, snap.Pending), add(job.ChannelsRegion, job.ChannelsZone, snap.State)); err != nil {
		return nil, err
	}
	if s.cfg.Channels != nil {
		report.Vector, report.Log = job.Encode(snap.Vector), s.logStats()
	}
	regions = append(regions, extra.Regions()...)
	if order.WithShared {
		t.live = append(t.live, len(regions))
		regions = append(regions, s.segment.Drained())
	}
	if order.WithLibrary {
		regions = append(regions, s.zone(zones.Library)...)
	}
	t.regions = regions
	return t, nil
}

// store stores regions as ordered: in a file of its own or, through net, as a part of the files
// that all write.
func (s *state) store(ctx context.Context, number int, order wire.WriteOrder, net *layoutNetwork, regions []zones.Region, opt container.WriteOptions, report *wire.WriteReport) (err error) {
	opt.Codec, opt.History, opt.Base, opt.Oldest = s.codec, s.history, order.Base, order.Oldest
	if net == nil && len(regions) == 0 {
		if !order.Local {
			return nil
		}
		return s.writeNothing(ctx, number, report) // all that the rank has is the same on all ranks
	}
	fsys := s.fs
	if !order.Local {
		t := s.writing(ctx, order, regions, &opt)
		defer func() { s.wroteIn(t, order.Base == 0, report, err) }()
		fsys = t.FS(s.fs)
	}
	if net != nil {
		return s.writeJoint(ctx, fsys, number, order, net, regions, opt, report)
	}
	h := container.Header{Job: s.cfg.Job, Number: number, Rank: s.rank, Node: s.node, Kind: container.KindRank}
	opt.Buffer = s.way.WritePath.Buffer
	var info container.FileInfo
	if order.Local {
		info, err = s.writeLocal(ctx, h, regions, opt, report)
	} else {
		info, err = container.Write(ctx, fsys, order.Rank, h, regions, opt)
	}
	if err != nil {
		return err
	}
	report.File = order.Rank
	report.Files = []wire.WrittenFile{{Kind: h.Kind, Path: order.Rank, Bytes: info.Bytes, Holes: 0, Index: info.IndexBlake3}}
	report.Management, report.Storage = info.ManagementTime, info.StorageTime
	return nil
}

// measure notes how long restoring takes and what it reads, until done is called.
func (s *state) measure() (done func()) {
	var read atomic.Int64
	progress, began := s.progress, time.Now()
	s.progress = func(bytes int64) {
		read.Add(bytes)
		progress(bytes)
	}
	return func() {
		s.progress, s.restored.Read, s.restored.ReadBytes = progress, max(0, time.Since(began)-s.restored.TurnWait), read.Load()
	}
}

// tracing records what is read of a checkpoint, until done is called.
func (s *state) tracing(number int) (done func()) {
	if !s.spec.Trace {
		return func() {}
	}
	was, recording := s.images, job.NewRecording(s.cfg.Job)
	s.images = was.Through(recording.OfRank(s.rank, s.node, number).Reads(was.FS()))
	return func() {
		s.images = was
		s.restored.Trace, _ = recording.End() // a restart without a trace is as good
	}
}

// keeping has each file of a checkpoint be opened once, until done is called.
func (s *state) keeping() (done func()) {
	images, job := s.images, s.job
	kept, over := images.Keep()
	s.images = kept
	if job == images {
		s.job = kept
	}
	return func() {
		over()
		s.images, s.job = images, job
	}
}

// restore fills the memory from a checkpoint, checking all it reads. Parts of the image without a
// place in this process are not read. The queues of the shared segments, which were drained,
// start empty, whatever the mapping.
func (s *state) restore(ctx context.Context) error {
	defer s.measure()()
	if err := s.findImage(ctx); err != nil {
		return err
	}
	m, err := s.manifest()
	if err != nil {
		return err
	}
	defer s.reading(ctx, m)()
	defer s.tracing(m.Number)()
	defer s.keeping()()
	if m.NP != s.spec.NP {
		return s.restoreDealt(ctx, m)
	}
	was, err := job.RankOf(s.images, m, s.rank)
	if err != nil {
		return err
	}
	if err := job.CheckRegion(s.images, m, was, job.PendingRegion, was.Pending); err != nil {
		return err
	}
	if s.cfg.Channels != nil {
		if s.channels, err = job.ReadChannels(ctx, s.images, s.spec, m, s.rank); err != nil {
			return err
		}
	}
	extra := mpi.NewMemory()
	defer extra.Close()
	if s.spec.SavesArrays() {
		if s.pending, err = s.restoreSaved(ctx, m, was); err != nil {
			return err
		}
		return s.recall(m, was)
	}
	own := s.zone(zones.Data)
	var pending []byte
	if was.Pending > 0 {
		if pending, err = extra.Alloc(job.PendingRegion, zones.Data, zones.Bytes, was.Pending); err != nil {
			return err
		}
		own = append(own, extra.Regions()...)
	}
	if err := s.images.Load(ctx, m, was.File, s.rank, own, container.LoadOptions{Progress: s.progress}); err != nil {
		return err
	}
	if job.Mapping(m.Mapping).String() == s.spec.Mapping.String() && m.MPI == s.spec.MPI {
		if err := s.checkShared(ctx, m, was); err != nil {
			return err
		}
	}
	s.pending = append([]byte(nil), pending...)
	return s.recall(m, was)
}

// checkShared checks the segment of the node in the checkpoint: its first rank does, unless each
// rank has a copy. The new segment, as good as the drained one that was saved, is not written:
// other ranks of the node may be about to open it, and would find a damaged header before this
// rank could tell of it.
func (s *state) checkShared(ctx context.Context, m *image.Manifest, was *image.Rank) error {
	file := was.Shared
	if file == "" {
		file = was.File
	} else if !s.cfg.Leads {
		return nil
	}
	return s.images.Load(ctx, m, file, s.rank, s.zone(zones.Shared), container.LoadOptions{Progress: s.progress, Check: true})
}

// recall remembers what is stored where, so that the next checkpoint can refer to it.
func (s *state) recall(m *image.Manifest, was *image.Rank) error {
	if s.history == nil || was.File == "" || s.tier != nil {
		return nil // files on nodes refer to no others
	}
	if s.cfg.Leads && was.Shared != "" && was.Shared != was.File {
		if err := s.job.Recall(s.history, m, was.Shared, s.rank); err != nil {
			return err
		}
	}
	return s.job.Recall(s.history, m, was.File, s.rank)
}

// logStats returns what the message log has cost since it was last asked.
func (s *state) logStats() *image.LogStats {
	if s.log == nil {
		return nil
	}
	was, now := s.logged, s.log.Stats()
	s.logged = now
	return &image.LogStats{Bytes: now.Bytes - was.Bytes, Fsyncs: now.Fsyncs - was.Fsyncs, Seconds: (now.SyncTime - was.SyncTime).Seconds()}
}

// result is what the rank reports at its end: the digest of its data zone, with the names and
// sizes of the regions, and the digests of the arrays that all ranks hold together.
func (s *state) result() wire.DoneReport {
	h := blake3.New()
	for _, r := range s.zone(zones.Data) {
		fmt.Fprintf(h, "%s %d\n", r.Name, r.Size)
		h.Write(r.Mem[:r.Size])
	}
	report := wire.DoneReport{Digest: hex.EncodeToString(h.Sum(nil)), Log: s.logStats()}
	for _, f := range s.app.Fields() {
		report.Fields = append(report.Fields, wire.Field(f))
	}
	if r := s.app.Residual(); !math.IsNaN(r) && !math.IsInf(r, 0) {
		report.Residual = &r
	}
	return report
}
