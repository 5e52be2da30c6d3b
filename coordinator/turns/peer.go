package turns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A peer is the process at the other end of a connection, as far as it is known.
type peer struct {
	// user is "" if the process has proved only that it knows the token: then it says
	// its name itself.
	user string
	pid  int
}

// errStranger is the refusal of a user who is neither the owner nor of the group.
var errStranger = errors.New("only the owner and the group of the directory may connect")

// identify finds out which user is at the other end, and refuses those without access.
func (a access) identify(conn net.Conn) (p peer, err error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return p, nil
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	var groups []uint32
	cerr := raw.Control(func(fd uintptr) {
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			groups = peerGroups(int(fd))
		}
	})
	if err = errors.Join(err, cerr); err != nil {
		return p, err
	}
	if !a.admits(cred.Uid, append(groups, cred.Gid)) {
		return p, fmt.Errorf("user %s: %w", userName(cred.Uid), errStranger)
	}
	return peer{userName(cred.Uid), int(cred.Pid)}, nil
}

// admits reports whether a user with these groups may connect.
func (a access) admits(uid uint32, groups []uint32) bool {
	return uid == 0 || uid == uint32(os.Getuid()) || uid == a.owner || a.open && slices.Contains(groups, a.group)
}

// peerGroups returns the supplementary groups of the process at the other end; none if
// the kernel does not say.
func peerGroups(fd int) []uint32 {
	list := make([]uint32, 1024)
	for range 2 {
		size := uint32(4 * len(list))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(list))), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return list[:size/4]
		case errno != unix.ERANGE || size > 1<<20:
			return nil
		}
		list = make([]uint32, size/4)
	}
	return nil
}

var userNames sync.Map // of uint32 to string

// userName returns the name of a user, or the number if it has none.
func userName(uid uint32) string {
	if name, ok := userNames.Load(uid); ok {
		return name.(string)
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	userNames.Store(uid, name)
	return name
}
