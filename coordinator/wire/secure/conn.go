package secure

import (
	"crypto/tls"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// A Conn is a connection whose other end has proved that it knows the token.
type Conn struct{ *tls.Conn }

// Close ends the connection at once. It says no farewell, for which it would have to wait
// while the other end does not read. Every message has its length, so that a cut one is
// noticed.
func (c *Conn) Close() error { return c.NetConn().Close() }

// HangUp tells the other end that nothing more comes, also while a message waits for it to
// read. Its messages can still be received.
func (c *Conn) HangUp() {
	if tcp, ok := c.NetConn().(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // an error means that the connection has ended
	}
}

// SetPatience ends the connection when the other host has acknowledged nothing for so long
// that was sent to it.
func (c *Conn) SetPatience(d time.Duration) error {
	tcp, ok := c.NetConn().(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
