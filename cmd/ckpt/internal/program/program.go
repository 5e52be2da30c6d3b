// Package program runs a command of the user beside a measurement, and ends it.
//
//	p, err := program.Start([]string{"mpiexec", "-n", "4", "./heat"}, os.Stderr)
//	… look at p.PID() and its descendants …
//	err = p.End()
//
// # Promises
//
//   - End ends the command and its descendants, and no other process: a process that
//     has taken the number of one that ended is not touched.
//   - The command gets SIGTERM if ckpt dies.
package program

import (
	"io"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"ckpt/internal/family"
)

// Grace is how long a command may take to end after SIGTERM, before SIGKILL.
const Grace = 5 * time.Second

// A Program is a command that runs.
type Program struct {
	cmd  *exec.Cmd
	out  gate
	over chan struct{} // closed when it has ended
	err  error         // then how
}

// A gate lets output through until it is shut: nobody wants to read that a command was
// ended.
type gate struct {
	to   io.Writer
	shut atomic.Bool
}

func (g *gate) Write(b []byte) (int, error) {
	if g.to == nil || g.shut.Load() {
		return len(b), nil
	}
	return g.to.Write(b)
}

// Start starts a command. All that it prints until End goes to out, if not nil.
func Start(command []string, out io.Writer) (*Program, error) {
	p := &Program{cmd: exec.Command(command[0], command[1:]...), over: make(chan struct{})}
	p.out.to = out
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second // a descendant may keep the output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that has started the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.over)
		}
	}()
	return p, <-started
}

// PID returns the process id of the command.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Over is closed when the command has ended by itself or was ended.
func (p *Program) Over() <-chan struct{} { return p.over }

// Err returns how the command ended, nil for status 0. Wait for Over first.
func (p *Program) Err() error { return p.err }

// End ends the command and all that it has started: by SIGTERM, and after a while by
// SIGKILL.
func (p *Program) End() {
	p.out.shut.Store(true)
	below := family.Descendants(p.PID())
	family.Signal(below, syscall.SIGTERM)
	select {
	case <-p.over:
	case <-time.After(Grace):
	}
	family.Signal(below, syscall.SIGKILL)
	<-p.over
	family.Await(below, Grace) // a killed process leaves soon
}
