package coordinator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
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
		if g.sharesSegment() && g.leads(rank) {
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
