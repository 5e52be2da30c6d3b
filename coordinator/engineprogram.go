package coordinator

import (
	"bufio"
	"net"
	"time"

	"ckpt/coordinator/program"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
)

// A programEngine runs a program of the user that calls ckpt.
type programEngine struct {
	*program.Engine
	reporting
}

// Ended is closed when the loop has ended.
func (l *loop) Ended() <-chan struct{} { return l.done }

// Stopping reports whether the job ends since it was asked to.
func (e *end) Stopping() bool {
	return e.outcome != nil && e.outcome.Result == protocol.StoppedByRequest
}

// Serve serves a connection that has shown its greeting.
func (d *driver) Serve(conn net.Conn, r *bufio.Reader, g wire.Greeting) { d.serveGreeted(conn, r, g) }

// Incarnation is the present one of a job of one group.
func (d *driver) Incarnation() int { return d.groups[0].incarnation }

// Members are the ranks of the present incarnation.
func (d *driver) Members() []program.Member {
	all := make([]program.Member, len(d.members))
	for rank, m := range d.members {
		if m != nil {
			all[rank] = program.Member{Here: true, Linked: m.link != nil, Closed: m.closed, Done: m.done, Gone: m.gone}
		}
	}
	return all
}

// Closed notes that the connection of a rank has ended.
func (d *driver) Closed(rank int) { d.members[rank].closed = true }

// Left is how long the run may still take, if it has a limit.
func (d *driver) Left() (left time.Duration, limited bool) {
	if d.wall == nil {
		return 0, false
	}
	return d.wall.Left(d.now()), true
}

// Exited takes the exit status of the command.
func (d *driver) Exited(status int) { d.result.ProgramStatus = &status }
