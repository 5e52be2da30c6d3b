package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/internal/wording"
)

// firstIncarnation is the incarnation that a gathering waits for.
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

// A Gathering is what happens from the start of a program's command until all its ranks
// have come: how many there are and where is known only then. Its socket and its
// connections pass to the driver of the job.
type Gathering struct {
	Socket   *launch.Socket
	program  *launch.Program
	run      *launch.ProgramRun
	warn     func(string)
	want     int // ranks, 0: as many as the first of them says
	known    bool
	come     []*arrival
	missing  int
	arrivals chan *arrival
	failed   chan error    // connections cannot be accepted
	handed   chan struct{} // closed when there is a driver
	driver   Driver
	serving  sync.WaitGroup
}

// An arrival is a connection of a rank that waits for the others.
type arrival struct {
	conn     net.Conn
	r        *bufio.Reader
	greeting wire.Greeting
}

// newGathering opens a socket and starts the command of a program.
func newGathering(p *launch.Program, opt Options) (*Gathering, error) {
	g := &Gathering{Socket: &launch.Socket{}, program: p, warn: opt.Warn, want: opt.Want, known: opt.Known, arrivals: make(chan *arrival), failed: make(chan error, 1),
		handed: make(chan struct{})}
	if err := g.Socket.Open("unix", opt.Listen, 0); err != nil {
		return nil, err
	}
	g.serving.Go(func() {
		wire.AcceptAll(g.Socket.Listener, func(conn net.Conn) { g.serving.Go(func() { g.serve(conn) }) }, opt.Silence, g.cannotAccept)
	})
	var err error
	g.run, err = p.Run(launch.Rank{Incarnation: firstIncarnation, Socket: g.Socket.Address, Token: g.Socket.Token, Beat: beat(opt.Silence)})
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// beat is short enough for the limit of silence. How many ranks send is not known.
func beat(silence time.Duration) time.Duration { return min(silence/4, time.Second) }

// Close ends the command and all connections, if they have not passed to a driver.
func (g *Gathering) Close() {
	if g.run != nil {
		g.run.End()
		g.run.Sweep()
	}
	g.Socket.Close()
	close(g.handed)
	g.serving.Wait()
	g.Socket.Remove(nil)
}

// hand passes the socket and all connections to the driver.
func (g *Gathering) hand(d Driver) {
	g.driver = d
	close(g.handed)
	d.Go(g.serving.Wait)
	for _, a := range g.come {
		d.Go(func() { d.Serve(a.conn, a.r, a.greeting) })
	}
}

func (g *Gathering) cannotAccept(err error) {
	select {
	case <-g.handed:
		if g.driver != nil {
			g.driver.CannotAccept(err)
		}
	case g.failed <- err:
	}
}

// serve reads the greeting of a connection and keeps a rank's until all have come.
func (g *Gathering) serve(conn net.Conn) {
	if !g.Socket.Conns.Add(conn) {
		return
	}
	r := bufio.NewReaderSize(conn, wire.GreetingLimit)
	greeting, err := wire.ReadGreeting(conn, r, g.Socket.Token)
	if err != nil || greeting.Role == wire.RoleRank && greeting.Process == nil {
		g.Socket.Conns.Remove(conn)
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
	g.driver.Serve(conn, r, greeting)
}

// gather waits until all ranks have come. An *EarlyError says that the command ended
// before, [ErrStopped] that it was interrupted.
func (g *Gathering) gather(ctx context.Context, interrupts <-chan struct{}) error {
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
		case orphan := <-g.run.Orphaned():
			return &EarlyError{Came: len(g.come) - g.missing, Size: len(g.come), Status: killedStatus, Cause: orphan}
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
// Once the command is over, a lost agent says nothing.
func (g *Gathering) left() error {
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
func (g *Gathering) ended() error {
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
			return &EarlyError{Came: len(g.come) - g.missing, Size: len(g.come), Status: g.run.Status(), Cause: g.run.Cause(), known: g.known}
		}
	}
}

// interrupt asks the command to end, and kills it at the next interrupt.
func (g *Gathering) interrupt(ctx context.Context, interrupts <-chan struct{}) error {
	g.run.Terminate()
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case <-g.run.Over():
	case <-interrupts:
	case <-grace.C:
	case <-ctx.Done():
	}
	return ErrStopped
}

// remind tells the user which ranks have not come.
func (g *Gathering) remind() {
	if len(g.come) == 0 {
		g.warn("the program has not called ckpt_init yet: it runs without checkpoints")
		return
	}
	for rank, a := range g.come {
		if a == nil {
			g.warn(fmt.Sprintf("%d of %d ranks have not called ckpt_init yet, rank %d among them: the others wait in it", g.missing, len(g.come), rank))
			return
		}
	}
}

// Mapping returns the nodes of the ranks: consecutive ranks on one host are one node.
func (g *Gathering) Mapping() job.Mapping {
	var m job.Mapping
	for rank, a := range g.come {
		if rank == 0 || a.greeting.Process.Host != g.come[rank-1].greeting.Process.Host {
			m = append(m, 0)
		}
		m[len(m)-1]++
	}
	return m
}

// Count is how many ranks have come, and First is the process of the first.
func (g *Gathering) Count() int           { return len(g.come) }
func (g *Gathering) First() *wire.Process { return g.come[0].greeting.Process }

// Implementation names the MPI library, as far as the variables of its launcher tell.
func (g *Gathering) Implementation() string {
	for _, s := range g.First().Sizes {
		if s.Variable == "OMPI_COMM_WORLD_SIZE" {
			return "openmpi"
		}
	}
	return "mpich"
}

// maxRanks bounds the ranks of a program, as manifests do.
const maxRanks = 1 << 20

// ErrStopped says that a program was interrupted before it was protected.
var ErrStopped = errors.New("stopped before all ranks had come")

// An EarlyError says that the command of a program ended before all its ranks had come.
type EarlyError struct {
	Came, Size int // ranks; 0 if the first had not come
	Status     int // of the command
	Cause      string
	known      bool // the program has called ckpt_init in an earlier run
}

// killedStatus is the status of a command that was killed.
const killedStatus = 128 + int(syscall.SIGKILL)

// foreign reports whether the program may be one that calls nothing of ckpt, and has
// completed.
func (e *EarlyError) foreign() bool { return e.Came == 0 && e.Status == 0 && !e.known }

func (e *EarlyError) Error() string {
	switch {
	case e.foreign():
		return "the program never called ckpt_init: it was not protected, and its end is not known; " + e.Cause
	case e.Came == 0:
		return "the program ended before any rank had called ckpt_init: " + e.Cause
	}
	return fmt.Sprintf("%d of %d ranks called ckpt_init before the program ended: %s", e.Came, e.Size, e.Cause)
}

// Hint says what to do about it.
func (e *EarlyError) Hint() string {
	switch {
	case e.foreign():
		return wording.Sprintf("call ckpt_init and ckpt_finalize on each rank, and have the command pass the variables CKPT_* on to the ranks; {engine} dmtcp runs a program that is not changed")
	case e.Came == 0 && !e.known:
		return wording.Sprintf("see what the command says; a program that calls nothing of ckpt runs with {engine} dmtcp")
	}
	return ""
}

// An ExitError says that a program has completed with an exit status other than 0.
type ExitError struct{ Status int }

func (e *ExitError) Error() string {
	return fmt.Sprintf("the program completed, and its command exited with status %d", e.Status)
}

// A GatherError says that the ranks that came do not make one program that can be run.
type GatherError struct {
	Text, Fix string
	lost      bool // one of them died
}

func (e *GatherError) Error() string { return e.Text }

// Hint says what to do about it.
func (e *GatherError) Hint() string { return e.Fix }

// take notes a rank that has come. An error says that the ranks do not fit together.
func (g *Gathering) take(a *arrival) error {
	p, rank := a.greeting.Process, a.greeting.Rank
	if err := a.check(); err != nil {
		return err
	}
	if g.come == nil {
		if g.want > 0 && g.want != p.Size {
			return otherSize(p.Size, g.want)
		}
		g.come, g.missing = make([]*arrival, p.Size), p.Size
	}
	if p.Size != len(g.come) {
		return g.oneOfMany(a, fmt.Sprintf("rank %d says that the program has %d ranks, others say %d", rank, p.Size, len(g.come)))
	}
	if other := g.come[rank]; other != nil {
		return g.oneOfMany(a, fmt.Sprintf("rank %d came twice, from processes %d and %d on %s", rank, other.greeting.Process.PID, p.PID, p.Name))
	}
	g.come[rank] = a
	g.missing--
	return nil
}

// otherSize refuses to restart a program with another number of ranks than was asked for.
func otherSize(came, want int) error {
	return &GatherError{Text: fmt.Sprintf("the program has %s now, not %d", RanksText(came), want),
		Fix: wording.Sprintf("start it with %s again; or restart the job with {np} %d, if all regions are global or replicated", RanksText(want), came)}
}

// check refuses what cannot take part in any program.
func (a *arrival) check() error {
	p, rank := a.greeting.Process, a.greeting.Rank
	switch {
	case p.Version != wire.Version:
		return &GatherError{Text: fmt.Sprintf("the agent of rank %d on %s speaks version %d, this ckpt speaks version %d", rank, p.Name, p.Version, wire.Version),
			Fix: "install the same ckpt on all hosts"}
	case p.Trouble != "":
		return &GatherError{Text: fmt.Sprintf("rank %d on %s: %s", rank, p.Name, p.Trouble),
			Fix: wording.Sprintf("take the source that {sdk %s} prints into the program again", p.Language)}
	case p.Size < 1 || p.Size > maxRanks || rank < 0 || rank >= p.Size:
		return &GatherError{Text: fmt.Sprintf("rank %d of %d called ckpt_init: there is no such rank", rank, p.Size), Fix: "pass what MPI_Comm_rank and MPI_Comm_size say"}
	}
	return nil
}

// odd reports whether the launcher of a rank says that there are others, and MPI that
// there are none.
func (a *arrival) odd() bool { return a.greeting.Process.Size == 1 && a.more() != "" }

// more is how the launcher counts ranks, "" if it knows of no more than MPI does.
func (a *arrival) more() string {
	for _, s := range a.greeting.Process.Sizes {
		if s.Ranks > a.greeting.Process.Size {
			return fmt.Sprintf("%s=%d", s.Variable, s.Ranks)
		}
	}
	return ""
}

// oneOfMany says why a rank does not fit to the others: perhaps the launcher has started
// many programs.
func (g *Gathering) oneOfMany(a *arrival, text string) error {
	e := &GatherError{Text: text, Fix: "start one program, and pass what MPI_Comm_rank and MPI_Comm_size say to ckpt_init"}
	if more := a.more(); more != "" {
		e.Text += fmt.Sprintf("; the launcher has started programs of %s (%s)", RanksText(a.greeting.Process.Size), more)
		e.Fix = "use the mpiexec of the MPI library that the program was built with"
		if strings.HasPrefix(more, "SLURM") {
			e.Fix = "set SLURM_MPI_TYPE=pmi2 for srun, which then starts one program; or use the mpiexec of the MPI library that the program was built with"
		}
	}
	return e
}

// RanksText says how many ranks.
func RanksText(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", n)
}
