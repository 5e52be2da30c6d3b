package turns

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
)

// looking is the time between two looks at how much a command has moved.
const looking = 200 * time.Millisecond

// A player runs a command in its turns.
type player struct {
	g       *ui.Globals
	connect func() *turns.Client
	dir     string
	name    string
	kind    string
	command []string
	left    int64 // bytes, -1 if unknown
	sync    bool

	client  *turns.Client
	turn    *turns.Turn
	group   *group // nil until the first turn
	signals chan os.Signal
	result  turnResult
}

// A cause ends a part of a command's life.
type cause int

const (
	granted  cause = iota
	revoked        // the turn is wanted back
	over           // the command has ended
	asleep         // ^Z
	unwanted       // a signal came before the command began
)

// play runs the command until its end.
func (p *player) play(ctx context.Context) (*turnResult, error) {
	p.signals = make(chan os.Signal, 8)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(p.signals, s)
		}
	}
	defer signal.Stop(p.signals)
	began := time.Now()
	p.begin()
	defer func() { p.client.Close() }()
	defer func() {
		if p.group != nil {
			p.group.resume() // what the command has started may outlive it
			p.group.release()
		}
	}()
	for {
		why, err := p.await(ctx)
		if why == granted && err == nil {
			if why, err = p.hold(); why != over && err == nil {
				p.group.suspend()
			}
			p.flush()
			p.turn.Leave(p.progress())
		}
		if why == asleep && err == nil {
			p.end()
			p.client.Close() // the controller hears of it before ckpt stands still
			p.sleep()
			p.begin()
			continue
		}
		if why == over || why == unwanted || err != nil {
			p.end()
			p.result.Wall = time.Since(began).Seconds()
			return &p.result, err
		}
	}
}

// begin connects and asks for a turn.
func (p *player) begin() {
	p.client = p.connect()
	p.turn = p.client.Begin(turns.Burst{Kind: p.kind, Offset: -1, Bytes: p.left})
}

// end gives it back for good.
func (p *player) end() {
	r := p.turn.End()
	p.result.Waits += r.Times
	p.result.Waited += r.Waited.Seconds()
	p.result.Without = r.Passed
	if p.group != nil {
		select {
		case <-p.group.over:
			p.result.ExitStatus = p.group.status()
		default:
		}
	}
}

// await waits for the turn.
func (p *player) await(ctx context.Context) (cause, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entered := make(chan error, 1)
	go func() { entered <- p.turn.Enter(ctx) }()
	leave := func() {
		cancel()
		if <-entered == nil {
			p.turn.Leave(0)
		}
	}
	var ended chan struct{}
	if p.group != nil {
		ended = p.group.over
	}
	for {
		select {
		case err := <-entered:
			return granted, err
		case <-ended:
			leave()
			return over, nil
		case s := <-p.signals:
			switch {
			case s == syscall.SIGTSTP:
				leave()
				return asleep, nil
			case p.group == nil:
				leave()
				p.g.Warn("%v: %s had no turn yet and was not started", s, p.command[0])
				p.result.ExitStatus = 128 + int(s.(syscall.Signal))
				return unwanted, nil
			}
			p.group.signal(s)
		}
	}
}

// hold lets the command run while it has the turn.
func (p *player) hold() (cause, error) {
	wanted := p.turn.Revoked()
	if p.group == nil {
		var in io.Reader
		if f, ok := p.g.In.(*os.File); ok && !ui.IsTerminal(f) {
			in = f
		}
		var err error
		if p.group, err = newGroup(p.command, in, p.g.CommandOutput(), p.g.Err); err != nil {
			return over, fmt.Errorf("start %s: %w", p.command[0], err)
		}
	} else {
		p.group.resume()
	}
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for {
		select {
		case <-p.group.over:
			return over, nil
		case <-wanted:
			return revoked, nil
		case <-tick.C:
			p.turn.Progress(p.progress())
		case s := <-p.signals:
			if s == syscall.SIGTSTP {
				return asleep, nil
			}
			p.group.signal(s)
		}
	}
}

// progress is how much the command has moved since the last call.
func (p *player) progress() int64 {
	if p.group == nil {
		return 0
	}
	n := p.group.progress()
	p.result.Moved += n
	if p.left >= 0 {
		p.left = max(0, p.left-n)
	}
	return n
}

// flush waits until the bytes that the command has written are on the storage.
func (p *player) flush() {
	if !p.sync {
		return
	}
	d, err := os.Open(p.dir)
	if err == nil {
		defer d.Close()
		err = unix.Syncfs(int(d.Fd()))
	}
	if err != nil {
		p.g.Warn("--sync: %v", err)
	}
}

// sleep stops ckpt, as ^Z does with other programs, until the user continues it. The
// command stands still already.
func (p *player) sleep() {
	// Go cannot give SIGTSTP back to the kernel once it was asked for.
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}
