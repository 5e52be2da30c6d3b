package wire

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// A scarceListener has no descriptors for its first connections.
type scarceListener struct {
	net.Listener
	errs []error
}

func (l *scarceListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
}

// TestPortAcceptsAgain makes accepting fail a few times. Connections are accepted
// when there is a descriptor.
func TestPortAcceptsAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self := Self{Rank: 0, Token: "token", Network: Loopback}
	p := self.listen(&scarceListener{l, []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}}, func(net.Conn, int) {})
	defer p.Close()
	conn, err := Self{Rank: 1, Token: "token", Network: Loopback}.Dial(t.Context(), 0, p.Address())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
