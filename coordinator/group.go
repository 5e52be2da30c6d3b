package coordinator

import (
	"math"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/container"
)

// A group is the ranks that take checkpoints together and are restarted together:
// all of them, in a coordinated job. Like the driver's, its fields belong to the
// driver's loop.
type group struct {
	d     *driver
	id    int
	ranks []int // ascending

	incarnation int
	tx          *image.Tx        // the checkpoint that is being written
	reuse       *container.File  // the library zone of an earlier checkpoint, for tx
	storing     *libraryWrite    // or that it is written for tx
	joint       *job.JointLayout // how ranks write common files; nil: a file each
	paths       []string         // of the common files of tx
	exchange    *exchange        // what the ranks that write tx tell each other
	recorded    *job.Recording   // what the coordinator writes for tx; nil if that is not traced

	base       int     // checkpoint that tx may refer to, 0 none
	complete   bool    // the next checkpoint must not refer to any
	line       lineage // of the ranks' memory
	expect     int64   // the least that a checkpoint has stored; 0 unknown
	committing bool    // tx is with the goroutine that commits it
	segments   []string
	restored   struct{ number, iter int } // what the generation begins with
	checked    int                        // generation whose checkpoint was checked
	started    bool                       // all ranks compute, or did
	fellBack   string                     // why a newer checkpoint was not taken
	taken      *image.Manifest            // the last one
	spawned    protocol.Spawn             // of the present generation
}

// group returns that of a rank.
func (d *driver) group(rank int) *group { return d.groups[d.spec.GroupOf[rank]] }

// name names the ranks of the group.
func (g *group) name() string { return job.NameRanks(g.ranks) }

// first returns the first rank of the group on the node of rank.
func (g *group) first(rank int) int {
	for _, r := range g.ranks {
		if g.d.spec.Nodes[r] == g.d.spec.Nodes[rank] {
			return r
		}
	}
	return rank
}

// startLine tells, once, that the groups begin to compute, and from where.
func (d *driver) startLine() {
	if d.computes {
		return
	}
	d.computes = true
	ev := &StartEvent{Type: "start", Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, Mapping: d.spec.Mapping,
		Iterations: d.spec.Iterations, Generation: 1, Iteration: math.MaxInt}
	for _, g := range d.groups {
		from := g.spawned.From
		ev.Line = append(ev.Line, from)
		ev.Iteration = min(ev.Iteration, d.stored[from])
	}
	ev.From = slices.Min(ev.Line)
	d.event(ev)
}

// perNode returns how many ranks of the group each node has.
func (g *group) perNode() []int {
	n := make([]int, len(g.d.spec.Mapping))
	for _, r := range g.ranks {
		n[g.d.spec.Nodes[r]]++
	}
	return n
}

// leads reports whether a rank stands for its node in its group.
func (g *group) leads(rank int) bool { return g.first(rank) == rank }

// event passes an event to the protocol from outside of the loop.
func (g *group) later(ev protocol.Event) {
	g.d.helpers.Go(func() { g.d.post(func() { g.step(ev) }) })
}
