package images

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image/nodes"
)

// levelsLine says where a checkpoint lives, if its job keeps checkpoints on nodes.
type levelsLine struct {
	// Levels are local or protected, if nodes have it, stored, if the store does, and next.
	Levels []nodes.State `json:"storage_levels,omitempty"`
	// TierNodes are the nodes that were seen to have all of their part of it.
	TierNodes []int `json:"tier_nodes,omitempty"`
	// Unseen are the nodes that have it according to the job's record, and are not seen to.
	Unseen []job.UnseenNode `json:"unseen_node_list,omitempty"`
	// Next are the next stores that have it, as the record of the job says.
	Next  []string `json:"next_stores,omitempty"`
	lost  bool     // with its nodes
	lacks []string // parts of ranks that no node has, with their nodes
	of    int      // so many nodes
	found bool     // on some node
}

// on reports whether nodes have the checkpoint, as far as is known.
func (l *levelsLine) on() bool {
	return len(l.Levels) > 0 && l.Levels[0] != nodes.Stored && l.Levels[0] != nodes.InNext
}

// stored reports whether the store has it, the only place without node directories.
func (l *levelsLine) stored() bool {
	return len(l.Levels) == 0 || slices.Contains(l.Levels, nodes.Stored)
}

// seen reports whether the checkpoint can be reached from here.
func (l *levelsLine) seen() bool { return l.stored() || l.found || len(l.Next) > 0 }

// text says where a checkpoint lives in a table.
func (l *levelsLine) text() string {
	var words []string
	if l.on() {
		words = append(words, l.nodesText())
	}
	if l.stored() {
		words = append(words, string(nodes.Stored))
	}
	switch n := len(l.Next); {
	case n == 1:
		words = append(words, string(nodes.InNext))
	case n > 1:
		words = append(words, fmt.Sprintf("%d next", n))
	}
	return strings.Join(words, ", ")
}

func (l *levelsLine) nodesText() string {
	text := string(l.Levels[0])
	switch n := len(l.TierNodes); {
	case n == 0 && !l.found && l.lost:
		text += ", lost"
	case n == 0 && !l.found:
		text += ", not seen"
	case n < l.of:
		text += fmt.Sprintf(" on %d of %d nodes", n, l.of)
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
		findings := l.Tier.Survey(ctx, v.Manifest)
		line.Levels, line.TierNodes = []nodes.State{v.State}, wholeNodes(findings)
		if !stored {
			line.lacks = lacking(l.Tier, findings)
		}
	}
	if stored {
		line.Levels = append(line.Levels, nodes.Stored)
	}
	return line
}

// lacking lists the ranks whose parts are on no node, own or copied, without parities to build
// them from.
func lacking(t *nodes.Tier, findings []nodes.Finding) (list []string) {
	for _, f := range findings {
		if f.Role == nodes.RoleParity {
			return nil // verify tells whether they suffice
		}
	}
	for _, f := range findings {
		there := func(o nodes.Finding) bool {
			return o.Rank == f.Rank && o.Condition == nodes.Sound && (o.Role == nodes.RoleOwn || o.Role == nodes.RoleCopy)
		}
		if f.Role == nodes.RoleOwn && !slices.ContainsFunc(findings, there) {
			list = append(list, fmt.Sprintf("rank %d (node %d: %s)", f.Rank, f.Node, t.Nodes()[f.Node].Dir))
		}
	}
	return list
}

// wholeNodes lists the nodes of which all files are there.
func wholeNodes(findings []nodes.Finding) []int {
	whole := make(map[int]bool)
	for _, f := range findings {
		sound, known := whole[f.Node]
		whole[f.Node] = (sound || !known) && f.Condition == nodes.Sound
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

// addVersions adds the checkpoints that only nodes have, and says of all where they live.
func addVersions(ctx context.Context, name string, lines []checkpointLine, l *job.Levels, history job.Events, last int) ([]checkpointLine, error) {
	all, err := l.Checkpoints()
	if err != nil {
		return lines, err
	}
	for i := range lines {
		lines[i].levelsLine = levelsOf(ctx, l, lines[i].Number, true)
	}
	for _, c := range all {
		switch {
		case c.Stored:
		case c.Version != nil:
			line := describeManifest(history, c.Version.Manifest)
			line.PerRank = nil
			line.levelsLine = levelsOf(ctx, l, c.Number, false)
			lines = append(lines, line)
		default:
			lines = append(lines, unseen(name, l, c.Known))
		}
	}
	lines, err = addNext(lines, l, history)
	slices.SortStableFunc(lines, func(a, b checkpointLine) int { return a.Number - b.Number })
	if last > 0 && len(lines) > last {
		lines = lines[len(lines)-last:]
	}
	return lines, err
}

// addNext says which checkpoints next stores have, and adds those that only they have.
func addNext(lines []checkpointLine, l *job.Levels, history job.Events) ([]checkpointLine, error) {
	stores, err := levels.ReadNext(l.Job())
	for _, next := range stores {
		for _, s := range next.Checkpoints {
			i := slices.IndexFunc(lines, func(o checkpointLine) bool { return o.Number == s.Number })
			if i < 0 {
				i = len(lines)
				lines = append(lines, describeSummary(history, s))
				lines[i].Levels = []nodes.State{nodes.InNext}
			} else if len(lines[i].Next) == 0 {
				if len(lines[i].Levels) == 0 {
					lines[i].Levels = []nodes.State{nodes.Stored}
				}
				lines[i].Levels = append(lines[i].Levels, nodes.InNext)
			}
			lines[i].Next = append(lines[i].Next, next.Store)
		}
	}
	return lines, err
}

// unseen describes a checkpoint as the record of the job does.
func unseen(name string, l *job.Levels, k *nodes.Known) checkpointLine {
	r := l.Record
	e := &job.CheckpointEvent{Type: "checkpoint", Job: name, Number: k.Number, Iteration: int(k.Iteration), StoredBytes: k.Bytes, Ranks: len(job.Mapping(r.Mapping).Nodes())}
	line := checkpointLine{CheckpointEvent: e, Created: k.Created, Mapping: job.Mapping(r.Mapping)}
	where := l.Unreached(k.Number)
	line.levelsLine = levelsLine{Levels: []nodes.State{nodes.StateOf(r.Setting.Protect)}, of: len(r.Mapping), Unseen: where.Nodes, lost: where.Lost()}
	return line
}

// warnUnread says which nodes and manifests could not be read.
func warnUnread(g *ui.Globals, l *job.Levels) {
	for _, err := range l.Wrong {
		g.Warn("%s", ui.OneLine(err.Error()))
	}
}
