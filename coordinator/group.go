package coordinator

import (
	"context"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/image"
	"ckpt/image/container"
)

// A restored is a checkpoint that a group resumes from.
type restored struct {
	number, iter int
	step         int64 // of a program
	otherNP      int   // ranks of the checkpoint, 0 if as many as there are
	// Of a job with directories of the nodes: who has it.
	local, stored bool
	id            string
}

// A life is what the driver knows of the incarnation of a group.
type life struct {
	incarnation int
	spawned     protocol.Spawn
	segments    []string // paths of the shared memory of each node
	restored    restored // the checkpoint that it resumes from
	checked     int      // incarnation whose checkpoint was checked
	started     bool     // all ranks compute, or did
	durable     int      // iteration of the newest checkpoint that it can go back to
	fellBack    string   // why a newer checkpoint was passed over
}

// An attempt is a checkpoint that is being written.
type attempt struct {
	tx       *image.Tx
	turn     *turns.Turn      // of the coordinator, until the commit; may be nil
	as       *job.Way         // how it is written; nil: as the description says
	joint    *job.JointLayout // how the ranks write its files together; nil: a file each
	base     int              // checkpoint that it may refer to, 0 none
	reuse    *container.File  // the library zone of an earlier checkpoint,
	storing  *libraryWrite    // or that it is written
	paths    []string         // of the files that ranks write together
	exchange *exchange        // what the ranks tell each other
	passed   string           // why bytes passed without turns on the storage; empty if they did not
	recorded *job.Recording   // what the coordinator writes; nil if that is not traced
}

// A group is the ranks that take checkpoints together and are restarted together:
// all of them, in a coordinated job. Like the driver's, its fields belong to the
// driver's loop.
type group struct {
	*setting
	d     *driver
	id    int
	ranks []int // ascending

	level level    // the first
	way   *job.Way // how the next checkpoint is written; nil: as the description says

	life
	attempt
	committing bool                  // a checkpoint is with the goroutine that commits it
	complete   bool                  // the next checkpoint must not refer to any
	lineage    lineage               // of the ranks' memory
	computed   bool                  // in this run
	takenAt    map[int]time.Duration // when its checkpoints were committed; 0: when it began to compute
	expect     int64                 // the least that a checkpoint has stored; 0 unknown
	taken      *image.Manifest       // the last one,
	landed     string                // and the state that it has on its level; empty in the store
	late       time.Duration         // for which its commit waited for a turn of the library zone
}

func newGroup(set *setting, d *driver, id int, ranks []int) *group {
	g := &group{setting: set, d: d, id: id, ranks: ranks}
	g.level = &storeLevel{g: g}
	return g
}

// name names the ranks of the group.
func (g *group) name() string { return job.NameRanks(g.ranks) }

// size is how many ranks the group has.
func (g *group) size() int {
	if g.spec.Lone() {
		return g.spec.NP
	}
	return len(g.ranks)
}

// first returns the first rank of the group on the node of rank.
func (g *group) first(rank int) int {
	for _, r := range g.ranks {
		if g.spec.Nodes[r] == g.spec.Nodes[rank] {
			return r
		}
	}
	return rank
}

// perNode returns how many ranks of the group each node has.
func (g *group) perNode() []int {
	n := make([]int, len(g.spec.Mapping))
	for _, r := range g.ranks {
		n[g.spec.Nodes[r]]++
	}
	return n
}

// leads reports whether a rank stands for its node in its group.
func (g *group) leads(rank int) bool { return g.first(rank) == rank }

// libraryWrite is the library zone on its way into the store, which is done by the
// coordinator, beside the writing of the ranks: the program is the same for all.
type libraryWrite struct {
	cancel context.CancelFunc
	done   chan struct{}
	file   container.File // when done
	waited time.Duration  // for its turn, of other jobs
	err    error
}
