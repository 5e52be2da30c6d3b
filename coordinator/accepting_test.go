package coordinator

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/internal/durable"
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
	for _, all := range []bool{false, true} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
		if err != nil {
			t.Fatal(err)
		}
		d := &driver{listener: &shortListener{Listener: l, errs: slices.Repeat([]error{syscall.EMFILE}, 1e6)}, done: make(chan struct{}), mail: newMailbox()}
		d.members = []*member{{link: new(link)}, {}}
		if all {
			d.members[1].link = new(link)
		}
		d.helpers.Go(d.accept)
		for range 3 {
			<-d.mail.ready
			d.mail.take()()
		}
		close(d.done)
		l.Close()
		d.listener.(*shortListener).done.Store(true)
		d.helpers.Wait()
		if errors.Is(d.broken, syscall.EMFILE) == all {
			t.Errorf("all ranks there %v, ended by %v", all, d.broken)
		}
	}
}

// TestLostPeer loses connections of a rank: it ends for the one within its group.
func TestLostPeer(t *testing.T) {
	r := &rank{failed: make(chan error, 1), cfg: welcome{Group: []int{0, 1}, Silence: time.Millisecond}}
	lost := r.lostPeer(t.Context())
	lost(2, syscall.ECONNREFUSED)
	lost(1, syscall.ENOMEM)
	lost(1, syscall.ENOMEM)
	if err := <-r.failed; !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("it ends with %v", err)
	}
}

// TestAcceptAgain has accepting fail a few times, of the coordinator and of a rank
// that others pull from. Connections are accepted when there is a descriptor.
func TestAcceptAgain(t *testing.T) {
	short := func(l net.Listener) net.Listener {
		return &shortListener{Listener: l, errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}}
	}
	t.Run("coordinator", func(t *testing.T) {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
		if err != nil {
			t.Fatal(err)
		}
		d := &driver{listener: short(l), limits: protocol.DefaultLimits, token: "token", done: make(chan struct{}), mail: newMailbox()}
		d.helpers.Go(d.accept)
		defer func() {
			close(d.done)
			d.listener.Close()
			d.conns.end()
			d.helpers.Wait()
		}()
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := greet(conn, greeting{Token: "token", Role: roleRank}); err != nil {
			t.Fatal(err)
		}
		<-d.mail.ready // it is to be admitted
	})
	t.Run("gatherer", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		g := gatherFrom(short(l), 0, "token")
		defer g.close()
		conn, err := net.Dial("tcp", g.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := mpi.DialHandshake(conn, []byte("token"), 1, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBrokenLog has the message log of a rank fail: the rank ends, unless it only waits for
// free space or the log is in order again.
func TestBrokenLog(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	full := &durable.OpError{Op: "write", Path: "log", Offset: -1, Err: syscall.ENOSPC}
	broken := &durable.OpError{Op: "write", Path: "log", Offset: -1, Err: syscall.EIO}
	r := &rank{failed: make(chan error, 1), cfg: welcome{Silence: time.Hour}, link: &link{conn: near, err: net.ErrClosed}}
	r.tellLog(full)
	if r.logTimer != nil {
		t.Error("it does not wait for free space")
	}
	r.tellLog(broken)
	if r.tellLog(nil); r.logTimer.Stop() {
		t.Error("it ends although the log is in order again")
	}
	r.cfg.Silence = time.Millisecond
	r.tellLog(broken)
	if err := <-r.failed; !errors.Is(err, syscall.EIO) {
		t.Errorf("it ends with %v", err)
	}
}
