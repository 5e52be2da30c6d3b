package coordinator

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
)

// A shortListener has no descriptors for its first connections.
type shortListener struct {
	net.Listener
	errs []error
	done atomic.Bool
}

func (l *shortListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 || l.done.Load() {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
}

// TestCannotAccept has accepting fail for good. A job whose ranks wait to be let in ends
// with the reason; one whose ranks are all there goes on.
func TestCannotAccept(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
		if err != nil {
			t.Fatal(err)
		}
		d := &driver{setting: &setting{}, loop: loop{done: make(chan struct{}), mailbox: newMailbox()},
			socket: &launch.Socket{Listener: &shortListener{Listener: l, errs: slices.Repeat([]error{syscall.EMFILE}, 1e6)}}}
		d.members = []*member{{link: new(wire.Link)}, {}}
		if all {
			d.members[1].link = new(wire.Link)
		}
		d.Go(d.accept)
		for range 3 {
			<-d.ready
			d.take()()
		}
		close(d.done)
		l.Close()
		d.socket.Listener.(*shortListener).done.Store(true)
		d.helpers.Wait()
		if errors.Is(d.broken, syscall.EMFILE) == all {
			t.Errorf("all ranks there %v, ended by %v", all, d.broken)
		}
	}
}

// TestAcceptAgain makes accepting fail a few times. Connections are accepted when there
// is a descriptor.
func TestAcceptAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{setting: &setting{limits: protocol.DefaultLimits}, loop: loop{done: make(chan struct{}), mailbox: newMailbox()},
		socket: &launch.Socket{Listener: &shortListener{Listener: l, errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}}, Token: "token"}}
	d.Go(d.accept)
	defer func() {
		close(d.done)
		d.socket.Listener.Close()
		d.socket.Conns.End()
		d.helpers.Wait()
	}()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := wire.Greet(conn, wire.Greeting{Token: "token", Role: wire.RoleRank}); err != nil {
		t.Fatal(err)
	}
	<-d.ready // it is to be admitted
}
