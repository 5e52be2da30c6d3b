package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
)

const (
	// looking is the time between two looks at how much a command has moved in its turn.
	looking = 200 * time.Millisecond
	// glance is the time between two looks at a command that has no turn, and glances how much
	// more than a look it is.
	glance  = 20 * time.Millisecond
	glances = 50
	// A command that moves less than little in a second needs no turn.
	little = 64 << 10
)

// A player runs a command, and has it move its bytes in turns.
type player struct {
	g       *ui.Globals
	connect func() *turns.Client
	dir     string
	name    string
	kind    string
	command []string
	left    int64 // bytes, -1 if unknown
	sync    bool
	calls   bool // count the bytes of calls: the storage counts nothing

	client  *turns.Client
	turn    *turns.Turn // nil while the command computes
	group   *group
	signals chan os.Signal
	result  turnResult
}

// A cause ends a part of a command's life.
type cause int

const (
	granted cause = iota
	revoked       // the turn is wanted back
	over          // the command has ended
	asleep        // ^Z
	moving        // it moves bytes and has no turn
	quiet         // it has stopped moving
)

func (p *player) play(ctx context.Context) (*turnResult, error) {
	p.signals = make(chan os.Signal, 8)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(p.signals, s)
		}
	}
	defer signal.Stop(p.signals)
	began := time.Now()
	p.client = p.connect()
	defer func() { p.client.Close() }()
	if err := p.start(); err != nil {
		return nil, err
	}
	defer func() {
		p.group.resume() // what the command has started may outlive it
		p.group.release()
	}()
	for why := quiet; ; {
		var err error
		switch why {
		case quiet:
			p.end()
			why = p.compute()
		case moving:
			p.group.suspend()
			p.turn = p.client.Begin(turns.Burst{Kind: p.kind, Offset: -1, Bytes: p.left})
			why, err = p.await(ctx)
		case revoked:
			p.group.suspend()
			p.flush()
			p.turn.Leave(p.progress())
			why, err = p.await(ctx)
		case granted:
			p.group.resume()
			if why = p.hold(); why != revoked {
				p.flush()
				p.turn.Leave(p.progress())
			}
		case asleep:
			p.group.suspend()
			p.end()
			p.client.Close() // the controller hears of it before ckpt stands still
			p.sleep()
			p.client = p.connect()
			p.group.resume()
			why = quiet
		case over:
			p.end()
			p.result.ExitStatus = p.group.cmd.Status()
			p.result.Wall = time.Since(began).Seconds()
			return &p.result, nil
		}
		if err != nil {
			p.end()
			return &p.result, err
		}
	}
}

func (p *player) start() (err error) {
	cmd := exec.Command(p.command[0], p.command[1:]...)
	if f, ok := p.g.In.(*os.File); ok && !ui.IsTerminal(f) {
		cmd.Stdin = f
	}
	cmd.Stdout, cmd.Stderr = p.g.CommandOutput(), p.g.Err
	if p.group, err = newGroup(cmd, p.calls); err != nil {
		return fmt.Errorf("start %s: %w", p.command[0], err)
	}
	return nil
}

func (p *player) end() {
	if p.turn == nil {
		return
	}
	r := p.turn.End()
	p.turn = nil
	p.result.Waits += r.Times
	p.result.Waited += r.Waited.Seconds()
	p.result.Without = r.Passed
}

// compute lets the command run without a turn until it moves bytes.
func (p *player) compute() cause {
	tick := time.NewTimer(glance)
	defer tick.Stop()
	var moved int64
	for since := time.Now(); ; {
		select {
		case <-p.group.cmd.Over():
			p.progress()
			return over
		case <-tick.C:
			began := time.Now()
			if moved += p.progress(); moved >= little {
				return moving
			}
			if time.Since(since) >= time.Second {
				since, moved = time.Now(), 0
			}
			tick.Reset(max(glance, glances*time.Since(began)))
		case s := <-p.signals:
			if s == syscall.SIGTSTP {
				return asleep
			}
			p.group.signal(s)
		}
	}
}

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
	for {
		select {
		case err := <-entered:
			return granted, err
		case <-p.group.cmd.Over():
			leave()
			return over, nil
		case s := <-p.signals:
			if s == syscall.SIGTSTP {
				leave()
				return asleep, nil
			}
			p.group.signal(s)
		}
	}
}

// hold lets the command run while it has the turn.
func (p *player) hold() cause {
	wanted := p.turn.Revoked()
	tick := time.NewTicker(looking)
	defer tick.Stop()
	var moved int64
	for since := time.Now(); ; {
		select {
		case <-p.group.cmd.Over():
			return over
		case <-wanted:
			return revoked
		case <-tick.C:
			n := p.progress()
			p.turn.Progress(n)
			if moved += n; time.Since(since) < time.Second {
				continue
			}
			if moved < little && !p.group.blocked() {
				return quiet
			}
			since, moved = time.Now(), 0
		case s := <-p.signals:
			if s == syscall.SIGTSTP {
				return asleep
			}
			p.group.signal(s)
		}
	}
}

// progress is how much the command has moved since the last call.
func (p *player) progress() int64 {
	n := p.group.progress(p.calls)
	p.result.Moved += n
	if p.left >= 0 {
		p.left = max(0, p.left-n)
	}
	return n
}

// flush waits until what the command has written is on the storage.
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

// sleep stops ckpt, as ^Z does with other programs, until the user continues it. The command
// stands still already.
func (p *player) sleep() {
	// Go cannot give SIGTSTP back to the kernel.
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}
