package coordinator

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
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
	base     int              // checkpoint that it may refer to, or 0
	reuse    *container.File  // the library zone of an earlier checkpoint,
	storing  *libraryWrite    // or that it is written
	paths    []string         // of the files that ranks write together
	exchange *wire.Exchange   // what the ranks tell each other
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

	level levels.Level // the first
	way   *job.Way     // how the next checkpoint is written; nil: as the description says

	life
	attempt
	committing bool            // a checkpoint is with the goroutine that commits it
	complete   bool            // the next checkpoint must not refer to any
	lineage    lineage         // of the ranks' memory
	computed   bool            // in this run
	takenAt    map[int]moment  // when its checkpoints were taken; 0: when it began to compute
	begun      int             // the newest checkpoint that it may have begun, in any run
	safe       time.Duration   // when the newest state was reached that is safe
	expect     int64           // the least that a checkpoint has stored; 0 unknown
	taken      *image.Manifest // the last one,
	landed     string          // and the state that it has on its level; empty in the store
	late       time.Duration   // for which its commit waited for a turn of the library zone
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

// Leads reports whether a rank stands for its node in its group.
func (g *group) Leads(rank int) bool { return g.first(rank) == rank }

// libraryWrite is the library zone on its way into the store, which is done by the
// coordinator, beside the writing of the ranks: the program is the same for all.
type libraryWrite struct {
	cancel context.CancelFunc
	done   chan struct{}
	file   container.File // when done
	waited time.Duration  // for its turn, of other jobs
	err    error
}

// A lineage is the checkpoints that the memory of the ranks descends from.
type lineage struct {
	numbers []int // ascending; of those before the run, the ones there were
}

// restored says that the ranks begin with checkpoint n, 0 the beginning.
func (l *lineage) restored(n int) {
	l.numbers = slices.DeleteFunc(l.numbers, func(k int) bool { return k > n })
}

func (l *lineage) committed(n int) { l.numbers = append(l.numbers, n) }

// newest returns the last one, or 0.
func (l *lineage) newest() int {
	if len(l.numbers) == 0 {
		return 0
	}
	return l.numbers[len(l.numbers)-1]
}

// oldest returns the oldest that the next may depend on.
func (l *lineage) oldest() int {
	if len(l.numbers) <= job.MaxAge {
		return 0
	}
	return l.numbers[len(l.numbers)-job.MaxAge]
}

// member is the coordinator's side of one rank of the current incarnation.
type member struct {
	proc launch.Process
	link *wire.Link
	addr string
	lost bool
	// Of the greeting: the host, and its name for people.
	host, hostName string
	process        int // of a program, as numbered on its host
	// Of a program: its agent's connection has ended, and its rank has called ckpt_finalize.
	closed, done bool
	// gone is closed with the connection, of a program or of a rank on another host.
	gone  chan struct{}
	step  uint64 // of a program, as of its last sign of life
	hello bool
	signs signs
	// excused says that the user knows that it is silent and not dead.
	excused bool
}

// pids returns the numbers of the processes that compute, on their host.
func (m *member) pids() []int {
	if all, ok := m.proc.(interface{ PIDs() []int }); ok {
		return all.PIDs()
	}
	if m.process > 0 {
		return []int{m.process}
	}
	return []int{m.proc.PID()}
}

// ends are the channels that are closed when nothing of the rank is left.
func (m *member) ends() []<-chan struct{} {
	if m.gone == nil {
		return []<-chan struct{}{m.proc.Done()}
	}
	return []<-chan struct{}{m.proc.Done(), m.gone}
}

// group returns the group of a rank.
func (d *driver) group(rank int) *group { return d.groups[d.spec.GroupOf[rank]] }

// signs is what the goroutine that reads from a rank notes of its signs of life, at once
// and without the loop, which may stand still in an operation of the store.
type signs struct {
	heard atomic.Int64 // nanoseconds since the start of the run
	beat  atomic.Pointer[protocol.Beat]
	waits atomic.Bool // for its turn on the storage
}

// sign notes a message that arrived at time now. It reports whether the loop is to be
// told: of a beat, if it has not been told of an earlier one that it still has to take.
func (l *signs) sign(now time.Duration, m protocol.Message) bool {
	l.heard.Store(int64(now))
	b, ok := m.(protocol.Beat)
	if ok {
		l.waits.Store(b.Waits)
	}
	return !ok || l.beat.Swap(&b) == nil
}

func (d *driver) Send(rank int, m protocol.Message) {
	if member := d.members[rank]; member != nil && member.link != nil {
		member.link.Send(m)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
