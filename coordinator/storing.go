package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// prepare makes room for a checkpoint in the store.
func (g *group) prepare(number int) {
	begin := g.job.Begin
	if g.several() {
		begin = g.job.BeginApart
	}
	tx, err := begin(number)
	if err == nil {
		if err = g.checkRoom(); err != nil {
			err = errors.Join(err, tx.Abort())
		}
	}
	if err != nil {
		g.later(protocol.CommitFailed{Number: number, Reason: err.Error(), Body: encode(reportError(err))})
		return
	}
	g.tx = tx
	g.recorded = nil
	if g.spec.Trace {
		g.recorded = newRecording(g.job.Name())
		tx.Trace = g.recorded.ofCoordinator(number)
	}
	g.base = g.chooseBase()
	g.findLibrary(number)
	g.exchange = newExchange(number, g.ranks)
	if g.joint != nil {
		g.paths, err = tx.CreateGroup(g.spec.WritePath.Layout, g.joint.files)
		if err != nil {
			g.discardAny()
			g.later(protocol.CommitFailed{Number: number, Reason: err.Error(), Body: encode(reportError(err))})
		}
	}
}

// checkRoom fails when there is surely too little room for a checkpoint, before
// anything is written. Every second time it lets the writing find out.
func (g *group) checkRoom() error {
	g.checks++
	if g.expect == 0 || g.stopOnFull || g.checks%2 == 0 {
		return nil
	}
	free, err := g.fs.Free(g.store)
	if err != nil || free >= g.expect {
		return nil // what cannot be told is found out by writing
	}
	return fmt.Errorf("%w: no checkpoint of this run stored less than %.1f MiB, %.1f MiB are free in %s", durable.ErrStorageFull,
		float64(g.expect)/(1<<20), float64(free)/(1<<20), g.store)
}

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

// maxAge bounds the number of earlier checkpoints that one depends on.
const maxAge = 15

// A lineage is the checkpoints that the memory of the ranks descends from.
type lineage struct {
	numbers []int // ascending; of those before the run, the ones there were
}

// restored says that the ranks begin with checkpoint n, 0 the beginning.
func (l *lineage) restored(n int) {
	l.numbers = slices.DeleteFunc(l.numbers, func(k int) bool { return k > n })
}

func (l *lineage) committed(n int) { l.numbers = append(l.numbers, n) }

// newest returns the last one, 0 if there is none.
func (l *lineage) newest() int {
	if len(l.numbers) == 0 {
		return 0
	}
	return l.numbers[len(l.numbers)-1]
}

// oldest returns the oldest that the next may depend on.
func (l *lineage) oldest() int {
	if len(l.numbers) <= maxAge {
		return 0
	}
	return l.numbers[len(l.numbers)-maxAge]
}

// chooseBase returns the checkpoint that the next may refer to: the newest that
// the ranks descend from, unless it was pruned. After a checkpoint that could not
// be committed the next is complete by itself: perhaps a file that it referred to
// is damaged.
func (g *group) chooseBase() int {
	if !g.spec.Incremental || g.complete {
		return 0
	}
	numbers, err := g.job.Checkpoints()
	if n := g.line.newest(); err == nil && slices.Contains(numbers, n) {
		return n
	}
	return 0
}

// order says what a rank stores, and in which files. The segment of a node comes
// with its first rank, unless each is to have its own copy.
func (g *group) order(rank int) writeOrder {
	o := writeOrder{WithShared: !g.spec.SharedOnce || g.leads(rank), WithLibrary: !g.spec.LibraryOnce}
	o.Base, o.Oldest = g.base, g.line.oldest()
	if g.joint != nil {
		o.Group = g.paths
	} else {
		o.Rank = g.tx.RankPath(rank)
	}
	return o
}

// commit assembles the manifest and renames it into place.
func (g *group) commit(cp protocol.Checkpoint) {
	m, err := g.manifest(cp)
	tx, base, reuse, storing, recorded := g.tx, g.base, g.reuse, g.storing, g.recorded
	g.tx, g.committing = nil, true
	g.helpers.Go(func() {
		if err == nil {
			err = addLibrary(m, reuse, storing)
		}
		if err == nil {
			err = tx.Commit(context.Background(), m)
		} else if aerr := tx.Abort(); aerr != nil {
			err = fmt.Errorf("%w; then %w", err, aerr)
		}
		var vectors []channel.Vector
		if err == nil && g.several() {
			vectors, err = vectorsOf(m)
		}
		g.post(func() {
			g.committing = false
			g.complete = err != nil
			if err != nil {
				g.step(protocol.CommitFailed{Number: cp.Number, Reason: err.Error(), Body: encode(reportError(err))})
				return
			}
			g.taken = m
			g.line.committed(m.Number)
			if g.several() {
				g.driver.line.Taken[g.id] = m.Number
			}
			g.learnSize(m, base)
			g.step(protocol.Committed{Number: cp.Number, Vectors: vectors})
		})
		if err == nil && recorded != nil {
			g.keepTrace(m, recorded, cp.Bodies)
		}
	})
}

func (g *group) manifest(cp protocol.Checkpoint) (*image.Manifest, error) {
	m := &image.Manifest{Job: g.job.Name(), App: g.spec.App, NP: g.spec.NP, MPI: g.spec.MPI, Mode: g.spec.Mode,
		Number: cp.Number, Iteration: int64(cp.Iter), Created: time.Now().UTC().Truncate(time.Millisecond),
		Mapping: g.mapping, Parent: g.parent,
		Library: &image.Library{Blake3: g.library.digest, Bytes: g.library.bytes, Name: "ckpt"}}
	if g.several() {
		m.Group, m.Groups = g.id, len(g.groups)
	}
	nodes := g.nodes
	shared := make([]string, len(g.mapping)) // paths, by node
	files := make(map[string]int)            // positions in m.Files
	var management time.Duration
	end := g.now()
	if cp.Resumed > 0 {
		end = cp.Resumed
	}
	for i, body := range cp.Bodies {
		rank := g.ranks[i]
		var w writeReport
		if err := json.Unmarshal(body, &w); err != nil {
			return nil, fmt.Errorf("report of rank %d: %w", rank, err)
		}
		entry := image.Rank{Rank: rank, Node: nodes[rank], Zones: w.Zones, Pending: w.Pending,
			Channels: w.Channels, Vector: w.Vector, LogFrom: w.LogFrom,
			Coordination: cp.Waited[i].Seconds(), Management: w.Management.Seconds(), Storage: w.Storage.Seconds(),
			Pause: (end - cp.Stopped[i]).Seconds()}
		for _, f := range w.Files {
			rel, err := filepath.Rel(g.job.Dir(), f.Path)
			if err != nil {
				return nil, fmt.Errorf("report of rank %d: %w", rank, err)
			}
			files[rel] = len(m.Files)
			m.Files = append(m.Files, container.File{Path: rel, Kind: f.Kind, Node: -1, Bytes: f.Bytes, Holes: f.Holes, IndexBlake3: f.Index})
		}
		rel, err := filepath.Rel(g.job.Dir(), w.File)
		if err != nil {
			return nil, fmt.Errorf("report of rank %d: %w", rank, err)
		}
		entry.File = rel
		if g.spec.SharedOnce && g.leads(rank) {
			shared[nodes[rank]] = rel
		}
		if w.Log != nil {
			if m.Log == nil {
				m.Log = new(image.LogStats)
			}
			*m.Log = m.Log.Plus(*w.Log)
		}
		management = max(management, w.Management)
		m.Bytes = m.Bytes.Plus(w.Zones)
		m.Ranks = append(m.Ranks, entry)
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		k, ok := files[r.File]
		if !ok {
			return nil, fmt.Errorf("no rank has completed %s, which holds rank %d", r.File, r.Rank)
		}
		f := &m.Files[k]
		f.Ranks = append(f.Ranks, r.Rank)
		if f.Kind == container.KindRank {
			f.Node = r.Node
		}
		r.Shared = shared[r.Node]
		m.Pause = max(m.Pause, r.Pause)
	}
	m.Latency = image.Latency{Coordination: cp.Coordination.Seconds(), Management: management.Seconds(),
		Storage: (cp.Writing - management).Seconds(), Total: (cp.Coordination + cp.Writing).Seconds()}
	return m, nil
}

// discard removes the debris of checkpoint number, if it is there, after it was
// given up. Nobody writes to it any more.
func (g *group) discard(number int) {
	if g.tx != nil && g.tx.Number() == number {
		g.discardAny()
	}
}

// discardAny removes the debris of whatever checkpoint is being written.
func (g *group) discardAny() {
	g.dropLibrary()
	if g.tx == nil {
		return
	}
	if err := g.tx.Abort(); err != nil {
		g.out.Warn(err.Error())
	}
	g.tx = nil
}

// examine checks what no rank will read of the checkpoint that is to be
// restored, while the ranks are starting, and then lets them in.
func (g *group) examine(number int) {
	gen := g.gen
	g.restored.number, g.restored.iter = number, 0
	g.line.restored(number)
	if number == 0 {
		g.checked = gen
		return
	}
	g.helpers.Go(func() {
		m, err := g.job.Manifest(number)
		if err == nil {
			err = g.spec.checkTaken(g.job, m, g.spec.groups(g.mapping))
		}
		if err == nil {
			err = g.checkUnread(m)
		}
		g.post(func() {
			if gen != g.gen {
				return
			}
			if err != nil {
				g.step(protocol.Unusable{Gen: gen, Damaged: unrestorable(err), Reason: err.Error(), Body: encode(reportError(err))})
				return
			}
			g.restored.iter = int(m.Iteration)
			g.checked = gen
			g.welcome()
		})
	})
}

// checkUnread verifies the files of a checkpoint that restoring it does not
// read: the library zone, and shared segments under another mapping.
func (g *group) checkUnread(m *image.Manifest) error {
	if m.Library != nil && m.Library.Blake3 != g.library.digest {
		return &foreignBinaryError{checkpoint: m.Number}
	}
	same := Mapping(m.Mapping).String() == g.mapping.String() && m.MPI == g.spec.MPI
	var paths []string
	for _, f := range m.Files {
		if f.Kind == container.KindLibrary || (f.Kind == container.KindShared && !same) {
			paths = append(paths, f.Path)
		}
	}
	return g.job.Check(context.Background(), m, paths)
}

// unlinkSegments removes the names of the shared memory: once all ranks have
// mapped it, it needs none, and nothing is left behind whoever dies.
func (g *group) unlinkSegments() {
	for _, path := range g.segments {
		os.Remove(path)
	}
	g.segments = nil
}

// describeCheckpoint describes a committed checkpoint as its manifest tells.
func describeCheckpoint(s image.Summary) *CheckpointEvent {
	var log image.LogStats
	if s.Log != nil {
		log = *s.Log
	}
	return &CheckpointEvent{Type: "checkpoint", Job: s.Job, Number: s.Number, Iteration: int(s.Iteration), Ranks: s.Ranks, Of: s.Of,
		LogBytes: log.Bytes, LogFsyncs: log.Fsyncs, LogSeconds: log.Seconds,
		Bytes: s.Bytes, StoredBytes: s.StoredBytes, Files: s.Files, Latency: s.Latency, Pause: s.Pause}
}

// A CheckpointEvent describes a committed checkpoint. Times are in seconds,
// sizes in bytes.
type CheckpointEvent struct {
	Type        string        `json:"type"` // "checkpoint"
	Job         string        `json:"job"`
	Number      int           `json:"number"`
	Iteration   int           `json:"iteration"`
	Ranks       int           `json:"ranks"`
	Of          []int         `json:"of,omitempty"` // which ranks, unless all
	Bytes       zones.Sizes   `json:"bytes"`        // as in memory, all ranks
	StoredBytes int64         `json:"stored_bytes"` // added to the store
	Files       int           `json:"files"`        // added to the store, the manifest included
	Latency     image.Latency `json:"latency_s"`
	Pause       float64       `json:"pause_s"` // how long the application stood still
	// Of the messages logged since the checkpoint before: bytes, fsyncs, and the
	// seconds that the ranks spent in these, together.
	LogBytes   int64   `json:"log_bytes,omitempty"`
	LogFsyncs  int64   `json:"log_fsyncs,omitempty"`
	LogSeconds float64 `json:"log_s,omitempty"`
}
