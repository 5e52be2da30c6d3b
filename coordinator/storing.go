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
	"ckpt/image"
	"ckpt/zones"
)

// prepare makes room for a checkpoint in the store.
func (d *driver) prepare(number int) {
	tx, err := d.job.Begin(number)
	if err == nil {
		if err = d.checkRoom(); err != nil {
			err = errors.Join(err, tx.Abort())
		}
	}
	if err != nil {
		d.later(protocol.CommitFailed{Number: number, Reason: err.Error(), Body: encode(reportError(err))})
		return
	}
	d.tx = tx
	d.base = d.chooseBase()
	d.findLibrary(number)
	d.exchange = newExchange(number, d.spec.NP)
	if d.group != nil {
		d.paths, err = tx.CreateGroup(d.spec.WritePath.Layout, d.group.files)
		if err != nil {
			d.later(protocol.CommitFailed{Number: number, Reason: err.Error(), Body: encode(reportError(err))})
		}
	}
}

// checkRoom fails when there is surely too little room for a checkpoint, before
// anything is written. Every second time it lets the writing find out.
func (d *driver) checkRoom() error {
	d.checks++
	if d.expect == 0 || d.stopOnFull || d.checks%2 == 0 {
		return nil
	}
	free, err := d.fs.Free(d.store)
	if err != nil || free >= d.expect {
		return nil // what cannot be told is found out by writing
	}
	return fmt.Errorf("%w: no checkpoint of this run stored less than %.1f MiB, %.1f MiB are free in %s", image.ErrStorageFull,
		float64(d.expect)/(1<<20), float64(free)/(1<<20), d.store)
}

// learnSize keeps the least that a checkpoint has stored. Those that are complete
// say nothing about the next one, which may store much less; the library zone is
// stored once.
func (d *driver) learnSize(m *image.Manifest, base int) {
	if d.spec.Incremental && base == 0 {
		return
	}
	n := int64(0)
	for _, f := range m.Files {
		if f.Kind != image.KindLibrary {
			n += f.Bytes
		}
	}
	if d.expect == 0 || n < d.expect {
		d.expect = n
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
func (d *driver) chooseBase() int {
	if !d.spec.Incremental || d.complete {
		return 0
	}
	numbers, err := d.job.Checkpoints()
	if n := d.line.newest(); err == nil && slices.Contains(numbers, n) {
		return n
	}
	return 0
}

// later posts an event from within the loop, whose mailbox may be full.
func (d *driver) later(ev protocol.Event) {
	d.helpers.Go(func() { d.post(func() { d.step(ev) }) })
}

// order says what a rank stores, and in which files. The segment of a node comes
// with its first rank, unless each is to have its own copy.
func (d *driver) order(rank int) writeOrder {
	o := writeOrder{WithShared: !d.spec.SharedOnce || d.leads(rank), WithLibrary: !d.spec.LibraryOnce}
	if d.tx == nil {
		return o // Begin failed: the checkpoint is being given up
	}
	o.Base, o.Oldest = d.base, d.line.oldest()
	if d.group != nil {
		o.Group = d.paths
	} else {
		o.Rank = d.tx.RankPath(rank)
	}
	return o
}

// leads reports whether a rank is the first of its node.
func (d *driver) leads(rank int) bool { return rank == 0 || d.nodes[rank-1] != d.nodes[rank] }

// commit assembles the manifest and renames it into place.
func (d *driver) commit(cp protocol.Checkpoint) {
	m, err := d.manifest(cp)
	tx, base, reuse, storing := d.tx, d.base, d.reuse, d.storing
	d.tx, d.committing = nil, true
	d.helpers.Go(func() {
		if err == nil {
			err = addLibrary(m, reuse, storing)
		}
		start := time.Now()
		if err == nil {
			err = tx.Commit(context.Background(), m)
		} else if aerr := tx.Abort(); aerr != nil {
			err = fmt.Errorf("%w; then %w", err, aerr)
		}
		d.post(func() {
			d.committing = false
			d.complete = err != nil
			if err != nil {
				d.step(protocol.CommitFailed{Number: cp.Number, Reason: err.Error(), Body: encode(reportError(err))})
				return
			}
			d.result.taken = m
			d.line.committed(m.Number)
			d.learnSize(m, base)
			d.step(protocol.Committed{Number: cp.Number})
		})
		if err == nil && d.spec.Trace {
			d.keepTrace(m, cp.Bodies, start)
		}
	})
}

func (d *driver) manifest(cp protocol.Checkpoint) (*image.Manifest, error) {
	m := &image.Manifest{Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, MPI: d.spec.MPI, Mode: d.spec.Mode,
		Number: cp.Number, Iteration: int64(cp.Iter), Created: time.Now().UTC().Truncate(time.Millisecond),
		Mapping: d.mapping, Parent: d.parent,
		Library: &image.Library{Blake3: d.library.digest, Bytes: d.library.bytes, Name: "ckpt"}}
	nodes := d.nodes
	shared := make([]string, len(d.mapping)) // paths, by node
	files := make(map[string]int)            // positions in m.Files
	var management time.Duration
	end := d.now()
	if cp.Resumed > 0 {
		end = cp.Resumed
	}
	for rank, body := range cp.Bodies {
		var w writeReport
		if err := json.Unmarshal(body, &w); err != nil {
			return nil, fmt.Errorf("report of rank %d: %w", rank, err)
		}
		entry := image.Rank{Rank: rank, Node: nodes[rank], Zones: w.Zones, Pending: w.Pending,
			Coordination: cp.Waited[rank].Seconds(), Management: w.Management.Seconds(), Storage: w.Storage.Seconds(),
			Pause: (end - cp.Stopped[rank]).Seconds()}
		for _, f := range w.Files {
			rel, err := filepath.Rel(d.job.Dir(), f.Path)
			if err != nil {
				return nil, fmt.Errorf("report of rank %d: %w", rank, err)
			}
			files[rel] = len(m.Files)
			m.Files = append(m.Files, image.File{Path: rel, Kind: f.Kind, Node: -1, Bytes: f.Bytes, Holes: f.Holes, IndexBlake3: f.Index})
		}
		rel, err := filepath.Rel(d.job.Dir(), w.File)
		if err != nil {
			return nil, fmt.Errorf("report of rank %d: %w", rank, err)
		}
		entry.File = rel
		if d.spec.SharedOnce && d.leads(rank) {
			shared[nodes[rank]] = rel
		}
		management = max(management, w.Management)
		m.Bytes = m.Bytes.Plus(w.Zones)
		m.Ranks = append(m.Ranks, entry)
	}
	for i := range m.Ranks {
		r := &m.Ranks[i]
		k, ok := files[r.File]
		if !ok {
			return nil, fmt.Errorf("no rank has completed %s, which holds rank %d", r.File, i)
		}
		f := &m.Files[k]
		f.Ranks = append(f.Ranks, i)
		if f.Kind == image.KindRank {
			f.Node = nodes[i]
		}
		r.Shared = shared[nodes[i]]
		m.Pause = max(m.Pause, r.Pause)
	}
	m.Latency = image.Latency{Coordination: cp.Coordination.Seconds(), Management: management.Seconds(),
		Storage: (cp.Writing - management).Seconds(), Total: (cp.Coordination + cp.Writing).Seconds()}
	return m, nil
}

// discard removes the debris of checkpoint number, if it is there, after it was
// given up. Nobody writes to it any more.
func (d *driver) discard(number int) {
	if d.tx != nil && d.tx.Number() == number {
		d.discardAny()
	}
}

// discardAny removes the debris of whatever checkpoint is being written.
func (d *driver) discardAny() {
	d.dropLibrary()
	if d.tx == nil {
		return
	}
	if err := d.tx.Abort(); err != nil {
		d.out.Warn(err.Error())
	}
	d.tx = nil
}

// examine checks what no rank will read of the checkpoint that is to be
// restored, while the ranks are starting, and then lets them in.
func (d *driver) examine(number int) {
	gen := d.gen
	d.restored.number, d.restored.iter = number, 0
	d.line.restored(number)
	if number == 0 {
		d.checked = gen
		return
	}
	d.helpers.Go(func() {
		m, err := d.job.Manifest(number)
		if err == nil {
			err = d.checkUnread(m)
		}
		d.post(func() {
			if gen != d.gen {
				return
			}
			if err != nil {
				d.step(protocol.Unusable{Gen: gen, Damaged: unrestorable(err), Reason: err.Error(), Body: encode(reportError(err))})
				return
			}
			d.restored.iter = int(m.Iteration)
			d.checked = gen
			d.welcome()
		})
	})
}

// checkUnread verifies the files of a checkpoint that restoring it does not
// read: the library zone, and shared segments under another mapping.
func (d *driver) checkUnread(m *image.Manifest) error {
	if m.Library != nil && m.Library.Blake3 != d.library.digest {
		return &foreignBinaryError{checkpoint: m.Number}
	}
	same := Mapping(m.Mapping).String() == d.mapping.String() && m.MPI == d.spec.MPI
	var paths []string
	for _, f := range m.Files {
		if f.Kind == image.KindLibrary || (f.Kind == image.KindShared && !same) {
			paths = append(paths, f.Path)
		}
	}
	return d.job.Check(context.Background(), m, paths)
}

// unlinkSegments removes the names of the shared memory: once all ranks have
// mapped it, it needs none, and nothing is left behind whoever dies.
func (d *driver) unlinkSegments() {
	for _, path := range d.segments {
		os.Remove(path)
	}
	d.segments = nil
}

// describeCheckpoint describes a committed checkpoint as its manifest tells.
func describeCheckpoint(m *image.Manifest) *CheckpointEvent {
	files := 1 // the manifest
	dir := fmt.Sprintf("%04d/", m.Number)
	for _, f := range m.Files {
		if len(f.Path) > len(dir) && f.Path[:len(dir)] == dir {
			files++
		}
	}
	return &CheckpointEvent{Type: "checkpoint", Job: m.Job, Number: m.Number, Iteration: int(m.Iteration), Ranks: m.NP,
		Bytes: m.Bytes, StoredBytes: m.StoredBytes, Files: files, Latency: m.Latency, Pause: m.Pause}
}

// A CheckpointEvent describes a committed checkpoint. Times are in seconds,
// sizes in bytes.
type CheckpointEvent struct {
	Type        string        `json:"type"` // "checkpoint"
	Job         string        `json:"job"`
	Number      int           `json:"number"`
	Iteration   int           `json:"iteration"`
	Ranks       int           `json:"ranks"`
	Bytes       zones.Sizes   `json:"bytes"`        // as in memory, all ranks
	StoredBytes int64         `json:"stored_bytes"` // added to the store
	Files       int           `json:"files"`        // added to the store, the manifest included
	Latency     image.Latency `json:"latency_s"`
	Pause       float64       `json:"pause_s"` // how long the application stood still
}
