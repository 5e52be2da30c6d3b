package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
)

// learnSize keeps the least that a checkpoint has stored. Those that are complete
// say nothing about the next one, which may store much less; the library zone is
// stored once.
func (g *group) learnSize(m *image.Manifest, base int) {
	if g.spec.Incremental && base == 0 {
		return
	}
	n := int64(0)
	for _, f := range m.Files {
		if f.Kind != container.KindLibrary {
			n += f.Bytes - f.Holes
		}
	}
	if g.expect == 0 || n < g.expect {
		g.expect = n
	}
}

// sharesSegment reports whether one rank of each node stores the segment for all.
func (g *group) sharesSegment() bool {
	return g.spec.SharedOnce && g.spec.Program == nil && !g.spec.SavesArrays()
}

func (g *group) manifest(cp protocol.Checkpoint) (*image.Manifest, error) {
	m := &image.Manifest{Job: g.job.Name(), App: g.spec.App, NP: g.spec.NP, MPI: g.spec.MPI, Mode: string(g.spec.Mode),
		Number: cp.Number, Iteration: int64(cp.Iter), Created: time.Now().UTC().Truncate(time.Millisecond),
		Mapping: g.spec.Mapping, Parent: g.d.parent, Level: string(g.spec.Level)}
	if g.spec.Program == nil && !g.spec.SavesArrays() {
		m.Library = &image.Library{Blake3: g.library.digest, Bytes: g.library.bytes, Name: "ckpt"}
	}
	if g.spec.Several() {
		m.Group, m.Groups = g.id, len(g.d.groups)
	}
	nodes := g.spec.Nodes
	shared := make([]string, len(g.spec.Mapping)) // paths, by node
	files := make(map[string]int)                 // positions in m.Files
	var management, waited time.Duration
	end := g.d.now()
	if cp.Resumed > 0 {
		end = cp.Resumed
	}
	for i, body := range cp.Bodies {
		rank := g.ranks[i]
		var w wire.WriteReport
		if err := json.Unmarshal(body, &w); err != nil {
			return nil, fmt.Errorf("report of rank %d: %w", rank, err)
		}
		if len(w.Refused) > 0 {
			g.d.log.Debug("memory is taken in a slower way", "rank", rank, "refused", w.Refused)
		}
		entry := image.Rank{Rank: rank, Node: nodes[rank], Zones: w.Zones, Pending: w.Pending,
			Channels: w.Channels, Vector: w.Vector, LogFrom: w.LogFrom, Global: w.Global, Replicated: w.Replicated,
			Coordination: cp.Waited[i].Seconds(), Management: w.Management.Seconds(), Storage: w.Storage.Seconds(), TurnWait: w.TurnWait.Seconds(),
			Pause: (end - cp.Stopped[i]).Seconds()}
		for _, f := range w.Files {
			rel, err := filepath.Rel(g.job.Dir(), f.Path)
			if err != nil {
				return nil, fmt.Errorf("report of rank %d: %w", rank, err)
			}
			files[rel] = len(m.Files)
			m.Files = append(m.Files, container.File{Path: rel, Kind: f.Kind, Node: -1, Bytes: f.Bytes, Holes: f.Holes, IndexBlake3: f.Index})
		}
		if w.File != "" {
			rel, err := filepath.Rel(g.job.Dir(), w.File)
			if err != nil {
				return nil, fmt.Errorf("report of rank %d: %w", rank, err)
			}
			entry.File = rel
		}
		if g.sharesSegment() && g.Leads(rank) {
			shared[nodes[rank]] = entry.File
		}
		if w.Log != nil {
			if m.Log == nil {
				m.Log = new(image.LogStats)
			}
			*m.Log = m.Log.Plus(*w.Log)
		}
		g.passed = cmp.Or(g.passed, w.TurnPassed)
		management, waited = max(management, w.Management), max(waited, w.TurnWait)
		if i == 0 {
			m.Step = w.Step
		}
		if w.Step != m.Step {
			return nil, fmt.Errorf("rank %d passes its step %d to ckpt_boundary where rank %d passes %d: all ranks have to pass the same", rank, w.Step, g.ranks[0], m.Step)
		}
		m.Bytes = m.Bytes.Plus(w.Zones)
		m.Ranks = append(m.Ranks, entry)
	}
	if err := g.checkArrays(m); err != nil {
		return nil, err
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		r.Shared = shared[r.Node]
		m.Pause = max(m.Pause, r.Pause)
		if r.File == "" {
			continue // what it has is the same on all ranks
		}
		k, ok := files[r.File]
		if !ok {
			return nil, fmt.Errorf("no rank has completed %s, which holds rank %d", r.File, r.Rank)
		}
		f := &m.Files[k]
		f.Ranks = append(f.Ranks, r.Rank)
		if f.Kind == container.KindRank {
			f.Node = r.Node
		}
	}
	// Ranks that write together wait for each other: one that waits for its turn makes the
	// management of others long.
	waited = max(0, min(waited, cp.Writing))
	management = min(management, cp.Writing-waited)
	m.TurnWait = waited.Seconds()
	m.Latency = image.Latency{Coordination: cp.Coordination.Seconds(), Management: management.Seconds(),
		Storage: (cp.Writing - management - waited).Seconds(), Total: (cp.Coordination + cp.Writing).Seconds()}
	return m, nil
}

// checkArrays checks that the parts of the ranks of the group belong to whole arrays, unless
// the checkpoint before had the same.
func (g *group) checkArrays(m *image.Manifest) error {
	if was := g.taken; was != nil && slices.EqualFunc(was.Ranks, m.Ranks, sameParts) {
		return nil
	}
	return job.CheckArrays(m)
}

func sameParts(a, b image.Rank) bool {
	return slices.Equal(a.Replicated, b.Replicated) && slices.EqualFunc(a.Global, b.Global, func(p, q image.GlobalPart) bool {
		return p.Region == q.Region && p.Part.Equal(&q.Part)
	})
}

// libraryPath is the file whose content is the library zone, "" for a program, which has
// none.
func (g *group) libraryPath() string {
	if g.spec.Program != nil {
		return ""
	}
	return LibraryFile
}

// findLibrary sees to it that the checkpoint under way has a library zone.
func (g *group) findLibrary(number int) {
	g.reuse, g.storing = nil, nil
	if !g.spec.LibraryOnce || g.spec.Program != nil || g.spec.SavesArrays() {
		return
	}
	if g.reuse = g.libraryFile(); g.reuse != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &libraryWrite{cancel: cancel, done: make(chan struct{})}
	var trace *container.Tracing
	if g.recorded != nil {
		trace = g.recorded.OfCoordinator(number)
	}
	g.storing = w
	g.d.Go(func() {
		defer close(w.done)
		w.file, w.waited, w.err = g.d.writeLibrary(ctx, number, trace)
	})
}

// dropLibrary ends the writing, if it goes on.
func (g *group) dropLibrary() {
	if g.storing != nil {
		g.storing.cancel()
		<-g.storing.done
		g.storing = nil
	}
}

func (d *driver) writeLibrary(ctx context.Context, number int, trace *container.Tracing) (container.File, time.Duration, error) {
	mem := mpi.NewMemory()
	if err := mem.MapLibrary(job.LibraryRegion, LibraryFile); err != nil {
		return container.File{}, 0, err
	}
	var f container.File
	b := turns.Burst{Kind: turns.Checkpoint, File: job.LibraryRegion, Bytes: d.library.bytes}
	told, err := d.turns.client.Move(ctx, d.job.FS(), b, func(through vfs.FS) (err error) {
		f, err = d.job.WriteLibrary(ctx, through, number, mem.Regions(), container.WriteOptions{Codec: container.NewCodec(d.spec.Codec, 0), Trace: trace})
		return err
	})
	return f, told.Waited, errors.Join(err, mem.Close())
}

// addLibrary enters the library zone into a manifest, once it is stored.
func addLibrary(m *image.Manifest, reuse *container.File, w *libraryWrite) error {
	if w != nil {
		<-w.done
		if w.err != nil {
			return w.err
		}
		reuse = &w.file
	}
	if reuse == nil {
		return nil // every rank has its own
	}
	m.AddLibrary(reuse)
	return nil
}

// waitLibrary is addLibrary, and returns for how long the commit waited because the library
// zone waited for its turn, after the writes of the ranks had theirs.
func waitLibrary(m *image.Manifest, reuse *container.File, w *libraryWrite) (late time.Duration, err error) {
	began := time.Now()
	err = addLibrary(m, reuse, w)
	if w == nil {
		return 0, err
	}
	return min(time.Since(began), max(0, w.waited-seconds(m.TurnWait))), err
}

// libraryFile finds the library zone in an earlier checkpoint of the job. One
// that this run has not written itself is verified before it is relied on.
func (g *group) libraryFile() *container.File {
	numbers, err := g.job.Checkpoints()
	if err != nil {
		return nil
	}
	for _, n := range slices.Backward(numbers) {
		m, err := g.job.Manifest(n)
		if err != nil || m.Library == nil || m.Library.Blake3 != g.library.digest {
			continue
		}
		i := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Kind == container.KindLibrary })
		if i < 0 {
			continue
		}
		f := m.Files[i]
		if g.d.trusted != f.Path {
			if err := g.job.Check(context.Background(), m, []string{f.Path}); err != nil {
				g.d.Warn(fmt.Sprintf("the library zone is stored anew: %v", err))
				continue
			}
			g.d.trusted = f.Path
		} else if _, err := g.job.FS().Stat(filepath.Join(g.job.Dir(), f.Path)); err != nil {
			g.d.Warn(fmt.Sprintf("the library zone is stored anew: %v", err))
			continue
		}
		return &f
	}
	return nil
}

// keepTrace keeps what the coordinator and the ranks have recorded. A trace that
// cannot be kept is no loss for the job.
func (d *driver) keepTrace(m *image.Manifest, own *job.Recording, bodies [][]byte) {
	if err := d.writeTrace(m, own, bodies); err != nil {
		d.log.Debug("trace", "checkpoint", m.Number, "error", err)
	}
}

func (d *driver) writeTrace(m *image.Manifest, own *job.Recording, bodies [][]byte) error {
	b, err := own.End()
	if err != nil {
		return err
	}
	parts := [][]byte{b}
	for _, body := range bodies {
		if len(body) == 0 {
			continue // of an agent, whose writes are recorded here
		}
		var w wire.WriteReport
		if err := json.Unmarshal(body, &w); err != nil {
			return err
		}
		parts = append(parts, w.Trace)
	}
	return job.WriteTrace(d.job, job.TracePath(d.job, m.Number), parts)
}

// libraryID identifies the binary that the ranks run.
type libraryID struct {
	digest string
	bytes  int64
}

// LibraryFile is the file whose content is the library zone. Tests name a small one, so
// that a store of before fits another build, and that jobs need not store all of ckpt.
var LibraryFile = launch.Self

// identifySelf digests the binary that the ranks will run.
func identifySelf() (libraryID, error) {
	digest, bytes, err := launch.Digest(LibraryFile)
	return libraryID{digest, bytes}, err
}
