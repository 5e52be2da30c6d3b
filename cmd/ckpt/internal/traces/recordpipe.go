package traces

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

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
