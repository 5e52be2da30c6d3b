package traces

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/internal/family"
	"ckpt/internal/lazy"
)

// catchSignals catches the signals that would end ckpt and leave its temporary files, but
// for those that it was started to ignore. Ignoring them instead would make the command
// ignore them too.
func catchSignals() (signals chan os.Signal, release func()) {
	signals = make(chan os.Signal, 8)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	closed := make(chan os.Signal, 1) // writing to a closed pipe is an error then
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(closed, syscall.SIGPIPE)
	}
	return signals, func() {
		signal.Stop(signals)
		signal.Stop(closed)
	}
}

// A witness is a process in the group of ckpt that ends by any signal. So it tells whether
// a signal went to the group, and with it to the command, as ^C does, or to ckpt alone.
type witness struct {
	stdin io.Closer
	pid   int
	over  chan struct{}
}

func (w *witness) start() {
	w.stdin, w.pid, w.over = nil, 0, make(chan struct{})
	cmd := exec.Command("sh", "-c", "ulimit -c 0; exec cat") // it ends with ckpt
	stdin, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	w.stdin, w.pid = stdin, cmd.Process.Pid
	go func(over chan struct{}) {
		defer close(over)
		_ = cmd.Wait()
	}(w.over)
}

func (w *witness) close() {
	if w.stdin != nil {
		w.stdin.Close()
		<-w.over
	}
}

// told reports whether the group got the signal that just came.
func (w *witness) told() bool {
	for range 20 {
		if w.hit() {
			<-w.over
			w.start()
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// hit reports whether it ends, though a busy machine has not let it end yet.
func (w *witness) hit() bool {
	select {
	case <-w.over:
		return true
	default:
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	return err == nil && pending().Match(status)
}

// pending is a line of proc(5) of a process that has got a signal.
var pending = lazy.Regexp(`(?m)^(SigPnd|ShdPnd):\t0*[1-9a-f]`)

// A relay hands signals to the recorded command.
type relay struct {
	recorder recorder
	run      *exec.Cmd
	group    witness
	late     <-chan time.Time
	told     []family.Process

	stopped syscall.Signal // 0 without a signal
	ended   bool           // after a limit, or because SIGTERM was not enough
}

// runInterruptible runs a command and survives signals for it. It ends the command after a
// limit above 0, and what is left of it some seconds after SIGTERM or SIGHUP.
func runInterruptible(r recorder, run *exec.Cmd, limit time.Duration, signals <-chan os.Signal) (stopped syscall.Signal, ended bool, err error) {
	x := relay{recorder: r, run: run}
	x.group.start()
	defer func() { x.group.close() }()
	if err := r.start(run); err != nil {
		return 0, false, err
	}
	if limit > 0 {
		x.late = time.After(limit)
	}
	over := make(chan struct{})
	var relaying sync.WaitGroup
	relaying.Go(func() {
		for {
			select {
			case <-x.late:
				x.end()
			case s := <-signals:
				x.pass(s.(syscall.Signal))
			case <-over:
				return
			}
		}
	})
	err = r.wait(run)
	close(over)
	relaying.Wait()
	return x.stopped, x.ended, err
}

// end ends the command with SIGTERM, and the next time for good.
func (x *relay) end() {
	how := syscall.SIGTERM
	if x.ended {
		how = syscall.SIGKILL
	}
	family.Signal(append(x.recorder.all(x.run), x.told...), how)
	x.ended, x.late = true, time.After(family.Grace)
}

// pass hands a signal on, unless the command got it as a member of the group: many programs
// end without a last word at the second one.
func (x *relay) pass(s syscall.Signal) {
	if x.stopped != syscall.SIGTERM {
		x.stopped = s
	}
	below := x.recorder.all(x.run)
	alone := !x.group.told()
	if s == syscall.SIGINT || s == syscall.SIGQUIT { // as a terminal does
		for _, p := range below {
			if group, err := syscall.Getpgid(p.PID); alone && err == nil && group == syscall.Getpgrp() {
				family.Signal([]family.Process{p}, s)
			}
		}
		return
	}
	x.told = append(x.told, below...) // they may lose their parent now
	if alone {
		for _, pid := range x.recorder.told(x.run) {
			_ = syscall.Kill(pid, s)
		}
	}
	x.late = time.After(family.Grace) // for what it has started
}

// A textPipe takes the text of strace to a writer. If strace wrote to a full disk itself, it
// would say so on the terminal of the command, once for each call.
type textPipe struct {
	name       string
	read, open int // the one for writing is open until strace has ended
	done       chan struct{}
	err        error // of the writer; valid after done
}

// pipeIn is the name of the pipe in a directory.
func pipeIn(dir string) string { return filepath.Join(dir, "pipe") }

func newTextPipe(name string, to io.Writer) (*textPipe, error) {
	if err := unix.Mkfifo(name, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: name, Err: err}
	}
	// The runtime of Go would be woken for each line, which doubles what strace takes.
	r, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	w, err := unix.Open(name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(r)
		return nil, err
	}
	const room = 1 << 20
	_, _ = unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, room) // a smaller one is slower
	p := &textPipe{name: name, read: r, open: w, done: make(chan struct{})}
	go p.copy(to, make([]byte, room))
	return p, nil
}

// copy looks at the pipe from time to time, until its last writer has closed it.
func (p *textPipe) copy(to io.Writer, b []byte) {
	defer close(p.done)
	defer unix.Close(p.read)
	for {
		n, err := unix.Read(p.read, b)
		switch {
		case n > 0 && p.err == nil: // else strace must find room
			_, p.err = to.Write(b[:n])
		case n == 0:
			return
		case n < 0 && err != unix.EAGAIN && err != unix.EINTR:
			p.err = cmp.Or(p.err, error(err))
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// finish copies what is left, and returns the error of the writer.
func (p *textPipe) finish() error {
	unix.Close(p.open)
	<-p.done
	os.Remove(p.name)
	return p.err
}
