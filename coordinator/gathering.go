package coordinator

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
)

// firstIncarnation is that of the ranks that a gathering waits for.
const firstIncarnation = 1

const (
	// oddTime is how long a program of one rank waits for another one, where its
	// launcher says that there are more: they are as many programs of one rank.
	oddTime = time.Second
	// remindTime is how long ranks may be missing before the user is told.
	remindTime = time.Minute
	// lookTime is how often the connections of ranks that have come are looked at.
	lookTime = 200 * time.Millisecond
	// lastTime is how long greetings that are under way may take when the command ends.
	lastTime = 100 * time.Millisecond
)

// A gathering is what happens from the start of a program's command until all its ranks
// have come: how many there are and where is known only then. Its socket and its
// connections pass to the driver of the job.
type gathering struct {
	socket   *socket
	program  *launch.Program
	run      *launch.ProgramRun
	out      Observer
	want     int // ranks, 0: as many as the first of them says
	come     []*arrival
	missing  int
	arrivals chan *arrival
	failed   chan error    // connections cannot be accepted
	handed   chan struct{} // closed when there is a driver
	driver   *driver
	serving  sync.WaitGroup
}

// An arrival is a connection of a rank that waits for the others.
type arrival struct {
	conn     net.Conn
	r        *bufio.Reader
	greeting wire.Greeting
}

// newGathering opens a socket and starts the command of a program; so many ranks are to
// come, 0 if that is not known.
func newGathering(p *launch.Program, want int, silence time.Duration, listen string, out Observer) (*gathering, error) {
	g := &gathering{socket: &socket{}, program: p, out: out, want: want, arrivals: make(chan *arrival), failed: make(chan error, 1),
		handed: make(chan struct{})}
	if err := g.socket.open("unix", listen, 0); err != nil {
		return nil, err
	}
	g.serving.Go(func() {
		wire.AcceptAll(g.socket.listener, func(conn net.Conn) { g.serving.Go(func() { g.serve(conn) }) }, silence, g.cannotAccept)
	})
	var err error
	g.run, err = p.Run(launch.Rank{Incarnation: firstIncarnation, Socket: g.socket.address, Token: g.socket.token, Beat: programBeat(silence)})
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// programBeat is short enough for the limit of silence. How many ranks send is not known.
func programBeat(silence time.Duration) time.Duration { return min(silence/4, time.Second) }

// close ends the command and all connections, if they have not passed to a driver.
func (g *gathering) close() {
	if g.run != nil {
		g.run.End()
	}
	g.socket.close()
	close(g.handed)
	g.serving.Wait()
	g.socket.remove(nil)
}

// hand passes the socket and all connections to the driver.
func (g *gathering) hand(d *driver) {
	g.driver = d
	close(g.handed)
	d.helpers.Go(g.serving.Wait)
	for _, a := range g.come {
		d.helpers.Go(func() { d.serveGreeted(a.conn, a.r, a.greeting) })
	}
}

func (g *gathering) cannotAccept(err error) {
	select {
	case <-g.handed:
		if g.driver != nil {
			g.driver.cannotAccept(err)
		}
	case g.failed <- err:
	}
}

// serve reads the greeting of a connection and keeps that of a rank until all have come.
func (g *gathering) serve(conn net.Conn) {
	if !g.socket.conns.add(conn) {
		return
	}
	r := bufio.NewReaderSize(conn, wire.GreetingLimit)
	greeting, err := wire.ReadGreeting(conn, r, g.socket.token)
	if err != nil || greeting.Role == wire.RoleRank && greeting.Process == nil {
		g.socket.conns.remove(conn)
		conn.Close()
		return
	}
	if greeting.Role == wire.RoleRank {
		select {
		case g.arrivals <- &arrival{conn, r, greeting}:
			return
		case <-g.handed:
		}
	} else {
		<-g.handed // a command is answered by the driver
	}
	if g.driver == nil {
		conn.Close()
		return
	}
	g.driver.serveGreeted(conn, r, greeting)
}

// gather waits until all ranks have come. An *EarlyError says that the command ended
// before, ErrStopped that it was interrupted.
func (g *gathering) gather(ctx context.Context, interrupts <-chan struct{}) error {
	remind := time.NewTicker(remindTime)
	defer remind.Stop()
	look := time.NewTicker(lookTime)
	defer look.Stop()
	var odd <-chan time.Time
	for {
		select {
		case a := <-g.arrivals:
			if err := g.take(a); err != nil {
				return err
			}
			if g.missing > 0 {
				continue
			}
			if odd == nil && !a.odd() {
				return nil
			}
			odd = time.After(oddTime)
		case <-odd:
			return nil
		case <-g.run.Over():
			return g.ended()
		case <-g.program.InputTooLong():
			return errLongInput()
		case err := <-g.failed:
			return fmt.Errorf("ranks cannot connect: %w", err)
		case <-remind.C:
			g.remind()
		case <-look.C:
			if err := g.left(); err != nil {
				return err
			}
		case <-interrupts:
			return g.interrupt(ctx, interrupts)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// left finds a rank that has come and whose agent is gone: the others would wait for ever.
// That of a command which is over says nothing.
func (g *gathering) left() error {
	for rank, a := range g.come {
		if a == nil || !wire.Ended(a.conn) {
			continue
		}
		select {
		case <-g.run.Over():
			return g.ended()
		case <-time.After(causeGrace):
			p := a.greeting.Process
			return &GatherError{Text: fmt.Sprintf("rank %d, process %d on %s, was lost before all ranks had come: %d are missing", rank, p.PID, p.Name, g.missing), lost: true}
		}
	}
	return nil
}

// ended takes greetings that are under way when the command has ended.
func (g *gathering) ended() error {
	late := time.After(lastTime)
	for {
		select {
		case a := <-g.arrivals:
			if err := g.take(a); err != nil {
				return err
			}
			if g.missing == 0 {
				return nil // the driver sees how it ended
			}
		case <-g.program.InputTooLong():
			return errLongInput()
		case <-late:
			return &EarlyError{Came: len(g.come) - g.missing, Size: len(g.come), Status: g.run.Status(), Cause: g.run.Cause()}
		}
	}
}

// interrupt asks the command to end, and kills it at the next interrupt.
func (g *gathering) interrupt(ctx context.Context, interrupts <-chan struct{}) error {
	g.run.Terminate()
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case <-g.run.Over():
	case <-interrupts:
	case <-grace.C:
	case <-ctx.Done():
	}
	return errStopped
}

// remind tells the user which ranks have not come.
func (g *gathering) remind() {
	if len(g.come) == 0 {
		g.out.Warn("the program has not called ckpt_init yet: it runs without checkpoints")
		return
	}
	for rank, a := range g.come {
		if a == nil {
			g.out.Warn(fmt.Sprintf("%d of %d ranks have not called ckpt_init yet, rank %d among them: the others wait in it", g.missing, len(g.come), rank))
			return
		}
	}
}

// mapping returns the nodes of the ranks: consecutive ranks on one host are one node.
func (g *gathering) mapping() job.Mapping {
	var m job.Mapping
	for rank, a := range g.come {
		if rank == 0 || a.greeting.Process.Host != g.come[rank-1].greeting.Process.Host {
			m = append(m, 0)
		}
		m[len(m)-1]++
	}
	return m
}
