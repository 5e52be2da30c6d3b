package coordinator

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/program"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
)

// accept serves connections until the listener is closed.
func (d *driver) accept() {
	wire.AcceptAll(d.socket.Listener, func(conn net.Conn) { d.Go(func() { d.serve(conn) }) }, d.limits.Silence, d.CannotAccept)
}

// serve serves one connection, of a rank or of a command.
func (d *driver) serve(conn net.Conn) {
	if !d.socket.Conns.Add(conn) {
		return
	}
	r := bufio.NewReaderSize(conn, wire.GreetingLimit)
	g, err := wire.ReadGreeting(conn, r, d.socket.Token)
	if err != nil {
		d.log.Debug("connection refused", "why", err)
		d.socket.Conns.Remove(conn)
		conn.Close()
		return
	}
	d.serveGreeted(conn, r, g)
}

// serveGreeted serves a connection that has shown its greeting.
func (d *driver) serveGreeted(conn net.Conn, r *bufio.Reader, g wire.Greeting) {
	defer d.socket.Conns.Remove(conn)
	switch g.Role {
	case wire.RoleRank:
		d.serveRank(conn, r, g)
	case wire.RoleControl:
		d.serveControl(conn, r)
		conn.Close()
	default:
		conn.Close()
	}
}

// serveRank passes the messages of a rank on, in order.
func (d *driver) serveRank(conn net.Conn, r *bufio.Reader, g wire.Greeting) {
	l, err := wire.NewLink(conn, r)
	if err != nil {
		conn.Close()
		return
	}
	admitted := make(chan *member, 1)
	d.Post(func() { admitted <- d.admit(g, l) })
	var m *member
	select {
	case m = <-admitted:
	case <-d.done:
	}
	if m == nil {
		l.Close()
		return
	}
	for {
		msg, err := l.Receive()
		if err != nil {
			d.engine.Gone(g, m.proc, err)
			l.Close()
			if m.gone != nil {
				close(m.gone)
			}
			return
		}
		if !m.signs.sign(d.now(), msg) {
			continue
		}
		d.Post(func() {
			if _, ok := msg.(protocol.Beat); ok {
				msg = *m.signs.beat.Swap(nil) // the newest
			}
			d.fromRank(g.Incarnation, g.Rank, m, msg)
		})
	}
}

// admit accepts a rank of the current incarnation that is not there yet. A rank that comes
// when all is over is refused: it would never be told to leave.
func (d *driver) admit(g wire.Greeting, l *wire.Link) *member {
	if g.Incarnation == d.groups[0].incarnation && d.outcome == nil {
		if err := d.engine.Admit(g); err != nil {
			if err != program.ErrStranger {
				d.Fail(err)
			}
			return nil
		}
	}
	if g.Rank < 0 || g.Rank >= len(d.members) || g.Incarnation != d.group(g.Rank).incarnation {
		return nil
	}
	m := d.members[g.Rank]
	if m == nil || m.link != nil || d.outcome != nil {
		return nil
	}
	m.link, m.host, m.hostName = l, g.Host, g.HostName
	if d.spec.Program != nil || d.remote(m) {
		m.gone = make(chan struct{})
	}
	if g.Process != nil {
		m.process = g.Process.PID
	}
	return m
}

// fromRank handles a message of a rank in the loop.
func (d *driver) fromRank(incarnation, rank int, m *member, msg protocol.Message) {
	g := d.group(rank)
	if incarnation != g.incarnation || d.members[rank] != m { // it has ended
		return
	}
	if s, ok := msg.(protocol.SetupFailed); ok && !s.Damaged {
		if err := wire.DecodeError(s.Body, s.Text); errors.As(err, new(*durable.DamageError)) {
			d.Fail(err) // to a message log: trying again makes it no better
			return
		}
	}
	if msg = g.level.Hear(rank, msg); msg == nil {
		return
	}
	if hello, ok := msg.(protocol.Hello); ok {
		m.addr, m.hello = hello.Address, true
		if p, ok := m.proc.(interface{ Identify(pid int, here bool) }); ok {
			p.Identify(hello.Process, !d.remote(m))
		}
	}
	d.step(g.id, protocol.FromRank{Incarnation: incarnation, Rank: rank, Message: msg}) // each is a sign of life
	switch msg := msg.(type) {
	case protocol.Done:
		m.done = true
	case protocol.Hello:
		g.Welcome()
	case protocol.InjectDue:
		d.inject.reached(rank, msg.Iter)
	case protocol.Restored:
		d.hasRead(rank, msg.Body)
	case protocol.Beat:
		m.step = msg.Step
		d.reached(rank, msg.Iter, d.now())
		d.progress(d.machine.Iteration(), d.spec.Iterations, d.underWay())
	case protocol.LogState:
		d.logState(rank, msg)
	case protocol.Placed:
		g.placed(rank, msg)
	case protocol.Share:
		if all, ok := g.exchange.Add(rank, msg); ok {
			g.broadcast(protocol.Shares{Number: msg.Number, Round: msg.Round, Body: all})
		}
	}
}

// Welcome configures the ranks of the group once all are there and what they will
// not read of their checkpoint has been checked. On several hosts, the first rank of each
// node makes the shared memory before the others are let in.
func (g *group) Welcome() {
	if g.d.outcome != nil || g.checked != g.incarnation {
		return
	}
	for _, rank := range g.ranks {
		if m := g.d.members[rank]; m == nil || !m.hello {
			return
		}
	}
	apart := g.overNetwork() && g.spec.Program == nil
	if apart {
		if err := g.checkHosts(); err != nil {
			g.d.Fail(err)
			return
		}
	}
	for _, rank := range g.ranks {
		if !apart || g.Leads(rank) {
			g.welcomeRank(rank)
		}
	}
}

// welcomeRank configures a rank.
func (g *group) welcomeRank(rank int) {
	node := g.spec.Nodes[rank]
	_, repeated, again := g.again()
	g.d.members[rank].link.Send(protocol.Welcome{Body: job.Encode(wire.Welcome{
		Spec: g.spec.Spec, Recut: g.spec.Recut, Job: g.job.Name(), StoreDir: g.store, Program: g.libraryPath(),
		Segment: g.segment(node), Sharing: g.perNode()[node], Leads: g.Leads(rank), Channels: g.channels(), Peers: g.peers(), InjectAt: g.d.inject.iterations(rank),
		Silence: g.limits.Silence, From: g.restored.number, Iter: g.restored.iter, Step: g.restored.step,
		Local: g.restored.local, Stored: g.restored.stored, ID: g.restored.id, Served: g.level.Served(), Again: again, Reach: g.restored.iter + repeated})})
}

// peers are the addresses of all ranks that are there. Ranks of other groups are
// announced when they come.
func (g *group) peers() []string {
	peers := make([]string, len(g.d.members))
	for rank, m := range g.d.members {
		if m != nil && m.hello {
			peers[rank] = m.addr
		}
	}
	return peers
}

// channels tells the ranks of the group of those to others, or nil.
func (g *group) channels() *wire.ChannelSetup {
	if !g.spec.Several() {
		return nil
	}
	c := &wire.ChannelSetup{Incarnation: uint64(g.incarnation), Line: g.spawned.Line}
	for _, of := range g.spec.GroupOf {
		c.Incarnations = append(c.Incarnations, uint64(g.d.groups[of].incarnation))
	}
	return c
}

// CannotAccept ends a job whose ranks wait to be let in. A job that computes does not
// need connections.
func (d *driver) CannotAccept(err error) {
	d.Post(func() {
		waits := func(m *member) bool { return m != nil && m.link == nil }
		if !d.Over() && slices.ContainsFunc(d.members, waits) {
			d.Fail(fmt.Errorf("ranks cannot connect: %w", err))
		}
	})
}

// tellSigns tells the protocol, before it looks for silent ranks, when each rank gave its
// last sign of life, however late the loop takes its messages.
func (d *driver) tellSigns(now time.Duration) {
	if at, ok := d.machine.Deadline(); !ok || now < at {
		return
	}
	for rank, m := range d.members {
		if m == nil || m.link == nil {
			continue
		}
		at := time.Duration(m.signs.heard.Load())
		if now-at >= d.limits.Silence/2 && m.proc.PID() > 0 && d.excused(m.proc.PID()) {
			d.excuse(rank, m, now-at)
			at = now
		}
		d.machine.Heard(rank, at)
	}
}

// excuse tells the user, once, of a silent rank that is not declared dead.
func (d *driver) excuse(rank int, m *member, silent time.Duration) {
	if silent < d.limits.Silence || m.excused {
		return
	}
	m.excused = true
	d.Warn(fmt.Sprintf("rank %d has given no sign of life for %v; its process waits for a disk, and is not declared dead",
		rank, silent.Round(time.Second/10)))
}
