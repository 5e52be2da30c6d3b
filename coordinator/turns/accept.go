package turns

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/image/iosched"
)

const (
	helloTime = 10 * time.Second
	maxRank   = math.MaxInt32
)

// take serves a connection, if its process may connect and the limits allow it.
func (c *controller) take(conn net.Conn) {
	p, err := c.access.identify(conn)
	if err != nil {
		c.watcher.tell(Event{What: Refused, Text: err.Error()})
		conn.Close()
		return
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		conn.Close()
		return
	}
	l, err := newLink(conn)
	if err != nil { // it has ended already
		c.mu.Unlock()
		return
	}
	c.last++
	k := &client{id: c.last, conn: conn, link: l, peer: p}
	c.conns[k.id] = k
	if len(c.conns) > c.o.MaxConns {
		err = fmt.Errorf("there are %d connections already, the limit", c.o.MaxConns)
	} else if p.user != "" {
		err = c.count(k, p.user)
	}
	c.mu.Unlock()
	c.workers.Go(func() {
		defer c.drop(k)
		if err == nil {
			err = c.talk(k)
		}
		if err != nil {
			c.tell(k, Event{What: Refused, Text: err.Error()})
			k.link.send(&refused{version, err.Error()})
			k.link.Close()
		}
	})
}

// talk reads what a client says until the connection ends. An error is the client's.
func (c *controller) talk(k *client) error {
	if err := k.conn.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return nil
	}
	m, err := readFrame(k.link.r, maxRequest)
	if err != nil {
		return malformed(err)
	}
	h, ok := m.(*hello)
	switch {
	case !ok:
		return errors.New("the first message is no greeting")
	case h.Version != version:
		return fmt.Errorf("client speaks version %d of storage turns, this controller version %d; use the same ckpt", h.Version, version)
	case h.Rank > maxRank:
		return fmt.Errorf("rank %d is out of range", h.Rank)
	}
	if err := c.register(k, *h); err != nil {
		return err
	}
	if err := k.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil
	}
	for {
		m, err := readFrame(k.link.r, maxRequest)
		if err != nil {
			return malformed(err)
		}
		if err := c.handle(k, m); err != nil {
			return err
		}
	}
}

// malformed returns the error of a frame, and drops that of a connection which has ended.
func malformed(err error) error {
	if errors.Is(err, errFrame) {
		return err
	}
	return nil
}

func (c *controller) register(k *client, h hello) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.hello = h
	if k.user == "" {
		if err := c.count(k, h.User); err != nil {
			return err
		}
	}
	lease := c.o.Arbiter.Lease
	if lease <= 0 {
		lease = defaultLease
	}
	k.link.send(&welcome{version, uint64(lease)})
	return nil
}

// count counts a connection of a user, up to a limit. The caller holds mu.
func (c *controller) count(k *client, user string) error {
	if c.users[user] >= c.o.MaxUserConns {
		return fmt.Errorf("user %s has %d connections already, the limit", user, c.o.MaxUserConns)
	}
	c.users[user]++
	k.user, k.counted = user, true
	return nil
}

const defaultLease = 5 * time.Second

func (c *controller) drop(k *client) {
	k.link.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, k.id)
	if k.counted {
		if c.users[k.user]--; c.users[k.user] == 0 {
			delete(c.users, k.user)
		}
	}
	if len(c.conns) == 0 {
		c.idle = c.clock.now()
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	if k.joined {
		_ = c.step(iosched.Leave{Conn: k.id})
		c.tell(k, Event{What: Left})
	}
}

// A peer is the process at the other end of a connection, as far as it is known.
type peer struct {
	// user is "" if the process has proved only that it knows the token: then it names itself.
	user string
	pid  int
}

// errStranger refuses a user who is neither the owner nor in the group.
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

func (a access) admits(uid uint32, groups []uint32) bool {
	return uid == 0 || uid == uint32(os.Getuid()) || uid == a.owner || a.open && slices.Contains(groups, a.group)
}

// peerGroups returns the supplementary groups of the process at the other end, as far as the
// kernel says.
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
