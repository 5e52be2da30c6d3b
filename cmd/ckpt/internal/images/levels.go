package images

import (
	"context"
	"fmt"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nvcache"
)

// levelsLine says where a checkpoint lives, if its job keeps checkpoints on nodes.
type levelsLine struct {
	// Levels are local or protected, if nodes have it, and stored, if the store does.
	Levels []nvcache.State `json:"storage_levels,omitempty"`
	// TierNodes are the nodes that were seen to have all of their part of it.
	TierNodes []int `json:"tier_nodes,omitempty"`
	of        int   // so many nodes
	found     bool  // on some node
}

// on reports whether nodes have the checkpoint, as far as is known.
func (l *levelsLine) on() bool { return len(l.Levels) > 0 && l.Levels[0] != nvcache.Stored }

// stored reports whether the store has it. A job without node directories has no other
// place.
func (l *levelsLine) stored() bool {
	return len(l.Levels) == 0 || slices.Contains(l.Levels, nvcache.Stored)
}

// seen reports whether the checkpoint can be reached from here.
func (l *levelsLine) seen() bool { return l.stored() || l.found }

// text says where a checkpoint lives in a table.
func (l *levelsLine) text() string {
	if !l.on() {
		return string(nvcache.Stored)
	}
	text := string(l.Levels[0])
	switch n := len(l.TierNodes); {
	case n == 0 && !l.found:
		text += ", not seen"
	case n < l.of:
		text += fmt.Sprintf(" on %d of %d nodes", n, l.of)
	}
	if l.stored() {
		text += ", stored"
	}
	return text
}

// levelsOf says where a checkpoint lives.
func levelsOf(ctx context.Context, l *job.Levels, number int, stored bool) levelsLine {
	var line levelsLine
	if l == nil || l.Tier == nil {
		return line
	}
	line.of = len(l.Tier.Nodes())
	if v := l.Version(number); v != nil {
		line.found = true
		line.Levels, line.TierNodes = []nvcache.State{v.State}, wholeNodes(l.Tier.Survey(ctx, v.Manifest))
	}
	if stored {
		line.Levels = append(line.Levels, nvcache.Stored)
	}
	return line
}

// wholeNodes lists the nodes of which all files are there.
func wholeNodes(findings []nvcache.Finding) []int {
	whole := make(map[int]bool)
	for _, f := range findings {
		sound, known := whole[f.Node]
		whole[f.Node] = (sound || !known) && f.Condition == nvcache.Sound
	}
	nodes := []int{}
	for n, sound := range whole {
		if sound {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// addVersions adds the checkpoints that only nodes have to those of the store, and says of
// all where they live.
func addVersions(ctx context.Context, name string, lines []checkpointLine, l *job.Levels, history job.Events, last int) []checkpointLine {
	if l.Tier == nil {
		return lines
	}
	inStore := make(map[int]bool)
	for i := range lines {
		inStore[lines[i].Number] = true
		lines[i].levelsLine = levelsOf(ctx, l, lines[i].Number, true)
	}
	for _, v := range l.Versions {
		if !inStore[v.Number] {
			line := describeManifest(history, v.Manifest)
			line.PerRank = nil
			line.levelsLine = levelsOf(ctx, l, v.Number, false)
			lines = append(lines, line)
		}
	}
	for _, k := range l.Unseen() {
		if !inStore[k.Number] {
			lines = append(lines, unseen(name, l, k))
		}
	}
	slices.SortStableFunc(lines, func(a, b checkpointLine) int { return a.Number - b.Number })
	if last > 0 && len(lines) > last {
		lines = lines[len(lines)-last:]
	}
	return lines
}

// unseen describes a checkpoint as the record of the job does.
func unseen(name string, l *job.Levels, k nvcache.Known) checkpointLine {
	e := &job.CheckpointEvent{Type: "checkpoint", Job: name, Number: k.Number, Iteration: int(k.Iteration), StoredBytes: k.Bytes, Ranks: len(l.Tier.Topology().NodeOf)}
	line := checkpointLine{CheckpointEvent: e, Created: k.Created, Mapping: job.Mapping(l.Record.Mapping)}
	line.levelsLine = levelsLine{Levels: []nvcache.State{nvcache.StateOf(l.Tier.Setting().Protect)}, of: len(l.Tier.Nodes())}
	return line
}

// readLevels looks for checkpoints on the nodes of a job. A job whose description cannot
// be read is listed without them.
func readLevels(ctx context.Context, g *ui.Globals, j *image.Job) *job.Levels {
	l, err := job.ReadLevels(ctx, j)
	if l == nil {
		l = new(job.Levels)
	}
	if err == nil {
		for _, v := range l.Stale {
			g.Warn("nodes %s have another checkpoint %d than the store or the record of the job: it is left out, and the next restart removes it", ui.Numbers(v.Nodes), v.Number)
		}
	}
	return l
}

// warnUnread says which nodes and manifests could not be read.
func warnUnread(g *ui.Globals, l *job.Levels) {
	for _, err := range l.Wrong {
		g.Warn("%s", ui.OneLine(err.Error()))
	}
}
