package family

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Peer returns the process at the other end of a Unix socket, by the kernel's word, and its user
// and group. Its number is 0 if this process cannot see it: it is in another PID namespace.
func Peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return nil, e
	}
	return cred, os.NewSyscallError("getsockopt", err)
}
