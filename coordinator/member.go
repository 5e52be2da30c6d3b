package coordinator

import (
	"sync/atomic"
	"time"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
)

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
	// Of a job with directories of the nodes: what the rank said first, until it serves its
	// node's, and where it does.
	first  protocol.Message
	served *wire.Served
	signs  signs
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

// group returns that of a rank.
func (d *driver) group(rank int) *group { return d.groups[d.spec.GroupOf[rank]] }

func (d *driver) kill(rank int) {
	if m := d.members[rank]; m != nil && m.proc != nil {
		d.engine.kill(rank)
	}
}

// lose tells the protocol, once, that a rank is gone.
func (d *driver) lose(incarnation, rank int, cause string) {
	m := d.members[rank]
	if incarnation != d.group(rank).incarnation || m == nil || m.lost {
		return
	}
	m.lost = true
	d.step(d.spec.GroupOf[rank], protocol.RankLost{Incarnation: incarnation, Rank: rank, Cause: cause, Final: d.engine.hopeless()})
}

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

func (d *driver) send(rank int, m protocol.Message) {
	if member := d.members[rank]; member != nil && member.link != nil {
		member.link.Send(m)
	}
}
