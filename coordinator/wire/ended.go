package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ended reports whether the other end of a connection is closed. It takes nothing of what
// the other end has sent.
func Ended(conn net.Conn) bool {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true // closed by us
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		ended = err == nil && n > 0 && p[0].Revents != 0
	})
	return ended || err != nil
}
