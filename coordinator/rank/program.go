package rank

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	client "ckpt/coordinator/process"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
)

// A program is the agent of a process that runs a program of the user. The process passes
// boundaries by itself until Limit; the goroutine of serve answers its calls and decides with a
// protocol.Member what they wait for.
type program struct {
	*process
	client *client.Process
	member *protocol.Member

	waiting   *client.Call // the call that the process waits in; nil while it computes
	step      int64        // of the program, at the boundary that it waits at
	began     bool         // the application may compute: Start has come
	readyTold bool
	writing   int  // how many checkpoints are taken and not written yet
	finished  bool // the program has called finalize
	left      bool // the coordinator needs this rank no more
	// launchers are the launcher's processes of this host, which pass output on, the nearest first.
	launchers []family.Process
	// orphan says that the launcher had died before the agent looked for it.
	orphan bool
	notice client.Answer // of an earlier checkpoint, for the next call
}

// graceAfterQuit is how long a process may take to end after its coordinator and launcher should
// have ended it.
const graceAfterQuit = time.Minute

// runProgram is Run for a program's process, whose client has left a descriptor of its link.
func runProgram(ctx context.Context, fsys vfs.FS, getenv func(string) string, text string) error {
	fd, err := strconv.Atoi(text)
	if err != nil {
		return &job.UsageError{Text: fmt.Sprintf("%s=%q is not a descriptor", wire.EnvClient, text), Fix: "clients start agents"}
	}
	c, err := client.Open(fd)
	if err != nil {
		return err
	}
	defer c.Close()
	p := &program{process: newProcess(fsys, getenv(wire.EnvToken)), client: c}
	p.process.program = p
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := p.meet(ctx, getenv); err != nil {
		return p.refuse(err)
	}
	defer p.link.Close()
	if err := c.Welcome(nil); err != nil {
		return err
	}
	if err := p.admitted(ctx); err != nil {
		return fmt.Errorf("rank %d: %w", p.id, err)
	}
	defer p.together.close()
	defer p.closePeers()
	defer func() { p.turns.Load().Close() }()
	return p.serve(ctx)
}

// refuse tells the process why it cannot take part, and ends it: it would compute without
// protection, or from the beginning.
func (p *program) refuse(err error) error {
	err = errors.Join(err, p.client.Welcome(err))
	select {
	case <-p.client.Done():
	case <-time.After(time.Second): // for the user to read it
		p.end()
	}
	return err
}

// meet connects to the coordinator and describes the process, or says why it cannot take part.
func (p *program) meet(ctx context.Context, getenv func(string) string) error {
	period, err := p.identify(getenv)
	if err != nil {
		return err
	}
	hello := p.client.Hello()
	p.id = hello.Rank
	d := describe(hello, getenv)
	if err := p.connect(ctx, getenv(wire.EnvSocket), d); err != nil {
		return fmt.Errorf("rank %d cannot reach its coordinator: %w", p.id, err)
	}
	if d.Trouble != "" {
		return errors.New(d.Trouble)
	}
	go p.beat(ctx, period)
	return nil
}

// admitted waits until all ranks are there. Calls of the process wait meanwhile.
func (p *program) admitted(ctx context.Context) error {
	joined := make(chan error, 1)
	go func() { joined <- p.join(ctx) }()
	select {
	case err := <-joined:
		if err != nil {
			p.end()
			return err
		}
	case <-p.client.Done():
		return errors.New("the process has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
	state, err := newProgramState(ctx, p.fs, p.id, &p.cfg, p.spec, p.tier, p.turns.Load(), p.worked)
	if err != nil {
		return err
	}
	p.state = state
	p.member = protocol.NewMember(p.cfg.Iter)
	if p.spec.Schedule.Epoch {
		p.client.SetEpochs()
	}
	p.client.SetLimit(0)
	return nil
}

// end kills the process and waits for its death, so that a restarted job does not meet it.
func (p *program) end() {
	p.client.Kill()
	<-p.client.Done()
}

// serve answers the process and the coordinator until one of them is gone. After the end of a
// process that has finished its program, the agent waits for the coordinator. The coordinator
// learns of any other end by the end of our connection.
func (p *program) serve(ctx context.Context) error {
	gone := make(chan error, 1)
	go func() { gone <- p.hear(ctx) }()
	calls := p.client.Calls()
	p.lookAfter()
	orphan := p.orphaned(ctx)
	var late <-chan time.Time
	for !p.left || calls != nil {
		select {
		case err := <-gone:
			if p.left {
				gone, late = nil, time.After(graceAfterQuit)
				continue
			}
			p.end()
			return fmt.Errorf("rank %d: the coordinator is gone: %w", p.id, err)
		case <-late:
			p.end()
			return nil
		case <-orphan:
			if orphan = nil; !p.finished && !p.left {
				p.end()
				return fmt.Errorf("rank %d: %w", p.id, errLauncher)
			}
		case err := <-p.failed:
			p.end()
			return fmt.Errorf("rank %d: %w", p.id, err)
		case <-ctx.Done():
			return ctx.Err()
		case call, ok := <-calls:
			if ok {
				p.called(ctx, call)
				continue
			}
			calls = nil
			if !p.finished && !p.left {
				p.end() // it may have closed the link and run on
				return fmt.Errorf("rank %d: the process ended without ckpt_finalize", p.id)
			}
		case ev := <-p.mail:
			p.event(ctx, ev)
		}
	}
	return nil
}

// lookAfter finds the launcher's processes of this host above the process. The nearest looks after
// it.
func (p *program) lookAfter() {
	of, ok := family.Find(p.client.Hello().PID)
	// An agent that cannot see the coordinator may be in a container, and the launcher outside.
	p.orphan = ok && p.beside && launch.LostLauncher(of)
	for ok {
		if of, ok = launch.LauncherOf(of); ok {
			p.launchers = append(p.launchers, of)
		}
	}
}

// launcherLives reports whether output can be passed on.
func (p *program) launcherLives() bool {
	return !p.orphan && (len(p.launchers) == 0 || p.launchers[0].Alive())
}

const (
	// outputLooks bounds how often a checkpoint or the end looks for output, a millisecond apart:
	// a second, and longer where the machine is so busy that looks and launchers take longer.
	outputLooks = 1000
	// busyLooks of them wait at most for a launcher that has read all, and goes on.
	busyLooks = outputLooks / 5
	// The kernel takes its time to pass on what is printed to a terminal: this many looks, a
	// millisecond each, find it with its reader.
	terminalLooks = 5
)

// awaitPrinted waits until the launcher has passed on what the program had printed before a
// checkpoint, or before its end: the program prints no such line again, and the launcher's
// processes may die.
func (p *program) awaitPrinted(ctx context.Context) {
	if len(p.launchers) == 0 {
		return
	}
	pid, looks := p.client.Hello().PID, 1
	if onTerminal(pid) {
		looks = terminalLooks
	}
	for idle, busy, looked := 0, 0, 0; busy < busyLooks && looked < outputLooks; looked++ {
		switch {
		case unread(pid):
			idle = 0
		case slices.ContainsFunc(p.launchers, func(l family.Process) bool { return !l.Idle() }):
			idle, busy = 0, busy+1
		default:
			if idle++; idle == looks {
				return
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// brokenOutput reports whether one of the launcher's processes has died, perhaps with lines that it had
// yet to pass on. A checkpoint of now must not exist: a restart from it would not print them again.
func brokenOutput(launchers []family.Process) bool {
	return slices.ContainsFunc(launchers, func(l family.Process) bool { return !l.Alive() })
}

// onTerminal reports whether a process prints to a terminal, as under Open MPI.
func onTerminal(pid int) bool {
	var s unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/fd/1", pid), &s)
	const first, last = 136, 143 // Unix98 terminals
	return err == nil && s.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(s.Rdev) >= first && unix.Major(s.Rdev) <= last
}

// unread reports whether a pipe that a process prints into holds bytes.
func unread(pid int) bool {
	for fd := 1; fd <= 2; fd++ {
		name := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
		if fi, err := os.Stat(name); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
			continue
		}
		pipe, err := unix.Open(name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ) // FIONREAD
		_ = unix.Close(pipe)
		if err == nil && n > 0 {
			return true
		}
	}
	return false
}

// orphaned is closed when the launcher has ended and the process goes on: the launcher would
// have ended it with the others.
func (p *program) orphaned(ctx context.Context) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		for p.launcherLives() {
			select {
			case <-time.After(lookTime):
			case <-p.client.Done():
				return
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(lookTime): // it may be about to end with its launcher
			close(gone)
		case <-p.client.Done():
		}
	}()
	return gone
}

var errLauncher = errors.New("its launcher is gone")

// lookTime is how often an agent looks whether the launcher lives.
const lookTime = 500 * time.Millisecond

// event takes what the coordinator says, and what this agent has done.
func (p *program) event(ctx context.Context, ev protocol.MemberEvent) {
	if r, ok := ev.(protocol.Received); ok {
		if _, kill := r.Message.(protocol.KillProcess); kill {
			p.fail(errors.New("the coordinator ends the process"))
			return
		}
		p.bind()
		p.note(r.Message)
	}
	switch ev.(type) {
	case protocol.WriteDone, protocol.WriteEnded:
		p.writing--
	}
	if e, ok := ev.(protocol.WriteEnded); ok && p.notice.Text == "" {
		err := wire.DecodeError(e.Body, e.Text)
		p.tell(client.Answer{Status: statusOf(err), Text: err.Error()})
	}
	p.do(ctx, ev)
	p.client.SetLimit(p.limit())
	if p.writing == 0 && p.waiting != nil && p.waiting.Kind == client.Wait {
		p.answer(p.outcome())
	}
	if p.began && p.writing == 0 && p.waiting != nil && p.waiting.Kind == client.Finalize {
		p.finalize(ctx)
	}
}

// bind stops the process at its next boundary, and tells the member which one that is, since what
// the coordinator is about to ask may depend on it.
func (p *program) bind() {
	p.client.SetLimit(0)
	n, _ := p.client.Passed()
	if p.began && !p.finished && !p.atBoundary() {
		p.member.Step(protocol.Computing{Iter: int(n) + 1})
	}
}

// atBoundary reports whether the process waits at a boundary that the member knows of.
func (p *program) atBoundary() bool { return p.waiting != nil && p.waiting.Kind == client.Boundary }

func (p *program) limit() int64 {
	if !p.began {
		return 0
	}
	return int64(min(p.member.Limit(), p.dies()))
}

// dies is the boundary at which a failure is injected into this process.
func (p *program) dies() int {
	next := math.MaxInt
	for _, iter := range p.cfg.InjectAt {
		if iter > p.cfg.Iter {
			next = min(next, iter)
		}
	}
	return next
}

func (p *program) do(ctx context.Context, ev protocol.MemberEvent) {
	for _, a := range p.member.Step(ev) {
		switch a := a.(type) {
		case protocol.Leave:
			p.leave()
		case protocol.Proceed:
			p.proceed(ctx)
		case protocol.BeginDrain:
			// A boundary promises that nothing is in flight that matters.
			p.do(ctx, protocol.DrainDone{})
		case protocol.CancelDrain:
		case protocol.BeginCapture:
			p.writing++
			p.act(ctx, a)
		case protocol.DropCapture:
			p.writing--
			p.act(ctx, a)
		case protocol.BeginWrite:
			if !a.Copied {
				p.writing++
			}
			p.act(ctx, a)
		default:
			p.act(ctx, a)
		}
	}
}

// proceed lets the process go on: from its call of restore, or from a boundary.
func (p *program) proceed(ctx context.Context) {
	first := !p.began
	p.began = true
	if first && p.cfg.From > 0 { // not before: the coordinator asks when all ranks compute
		p.link.Send(protocol.Restored{Body: job.Encode(p.state.restored)})
	}
	if p.waiting == nil {
		return
	}
	switch k := p.waiting.Kind; {
	case k == client.Restore:
		p.client.SetPassed(int64(p.cfg.Iter))
		p.client.SetLimit(p.limit())
		p.answer(p.resumed())
	case k == client.Boundary && first: // it has not called restore
		p.do(ctx, protocol.Reached{Iter: int(p.waiting.Count), Save: p.waiting.Save})
	case k == client.Boundary:
		p.client.SetLimit(p.limit())
		p.answer(p.outcome())
	case k == client.Finalize && first:
		p.finalize(ctx)
	}
}

func (p *program) leave() {
	p.left = true
	if p.waiting != nil {
		p.answer(p.farewell(p.waiting.Kind))
	}
}

func describe(h client.Hello, getenv func(string) string) *wire.Process {
	d := &wire.Process{Version: wire.Version, Client: int(h.Version), Language: h.Language, Size: h.Size, PID: h.PID}
	host, name := wire.ThisHost()
	d.Host, d.Name = host+" "+name, name // several simulated nodes may share a host
	for _, name := range wire.SizeVariables {
		if n, err := strconv.Atoi(getenv(name)); err == nil {
			d.Sizes = append(d.Sizes, wire.Size{Variable: name, Ranks: n})
		}
	}
	exe := fmt.Sprintf("/proc/%d/exe", h.PID)
	d.Program, _ = os.Readlink(exe)
	if h.Rank == 0 {
		d.Digest, _, _ = launch.Digest(exe) // only rank 0 warns of another binary
	}
	if h.Version < client.OldestVersion || h.Version > client.Version {
		d.Trouble = fmt.Sprintf("the client in the program of rank %d has version %d, this ckpt needs version %d", h.Rank, h.Version, client.Version)
	}
	return d
}
