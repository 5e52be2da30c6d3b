package turns

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"ckpt/coordinator/wire"
	"ckpt/image/iosched"
	"ckpt/image/iosched/live"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"

	"golang.org/x/sys/unix"
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
	if list := k.wants.leave(); len(list) > 0 {
		c.o.Unit.Drop(list)
	}
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
		return p, fmt.Errorf("user %s: %w", UserName(cred.Uid), errStranger)
	}
	return peer{UserName(cred.Uid), int(cred.Pid)}, nil
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

// UserName is by what name a controller knows a user.
func UserName(uid uint32) string {
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

// ErrServed says that another process is the controller of the directory.
var ErrServed = errors.New("another process gives out the storage turns there")

// ServeOptions say how a controller works. Zero values are defaults.
type ServeOptions struct {
	Arbiter iosched.TurnOptions
	// Unit decides for the requests of mounts; nil: one with the policy of Arbiter, or mlf if that
	// orders turns only.
	Unit *live.Unit
	// Listen is HOST or HOST:PORT for clients on other hosts; "" for this host only.
	Listen string
	// Group is the group of users that may connect besides the owner; 0: the directory's.
	Group uint32
	// IdleExit ends the controller after so long without a connection; 0: never.
	IdleExit time.Duration
	// Beat is how often clients with bursts hear that the controller lives; 1 s.
	Beat time.Duration
	// MaxConns limits the connections, 16,384, and MaxUserConns the connections of one user, 8,192.
	MaxConns, MaxUserConns int
	// Observer gets events; may be nil.
	Observer Observer
	// FS holds the files of the controller, on this machine; vfs.OS if nil.
	FS vfs.FS
}

func (o ServeOptions) withDefaults() ServeOptions {
	if o.Beat <= 0 {
		o.Beat = time.Second
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 16384
	}
	if o.MaxUserConns <= 0 {
		o.MaxUserConns = max(1, o.MaxConns/2)
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	return o
}

// Serve gives out the turns of a storage unit until ctx is done, or it is idle for long enough.
// The error is ErrServed if another process does so.
func Serve(ctx context.Context, dir string, o ServeOptions) (err error) {
	o = o.withDefaults()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if o.Unit == nil {
		if o.Unit, err = unitOf(dir, o.Arbiter.Policy); err != nil {
			return err
		}
		defer o.Unit.Close()
	}
	c, err := newController(dir, o)
	if err != nil {
		return err
	}
	p, err := claim(o.FS, dir, o.Group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	info := Info{Dir: dir, Version: version, PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Millisecond), Policy: o.Arbiter.Policy, Requests: o.Unit.Policy()}
	info.Host, _ = os.Hostname()
	if info.Policy == "" {
		info.Policy = iosched.DefaultPolicy
	}
	listeners, err := p.listen(&info, o.Listen)
	defer closeAll(listeners)
	if err != nil {
		return err
	}
	if err := p.announce(info); err != nil {
		return err
	}
	info.Token = "" // the file has it
	c.info, c.access = info, p.access
	return c.serve(ctx, listeners)
}

func closeAll(list []net.Listener) {
	for _, l := range list {
		l.Close()
	}
}

// listen opens the socket in the directory, and with an address a port for other hosts. On a file
// system without sockets, it opens a port of the loopback interface.
func (p *place) listen(i *Info, address string) (list []net.Listener, err error) {
	l, err := p.socket()
	switch {
	case err == nil:
		list, i.Socket = append(list, l), socketName
	case address == "":
		address = "127.0.0.1:0"
	}
	if address == "" {
		return list, nil
	}
	if address, err = listenAddress(address); err != nil {
		return list, err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return list, err
	}
	i.Token = hex.EncodeToString(secret)
	key, err := wire.NewKey(i.Token)
	if err != nil {
		return list, err
	}
	l, err = key.Listen(address)
	if err != nil {
		return list, fmt.Errorf("listen on %s for clients on other hosts: %w", address, err)
	}
	i.Address = l.Addr().String()
	return append(list, l), nil
}

// ErrManyAddresses refuses an address of all interfaces to listen on.
var ErrManyAddresses = errors.New("other hosts can be told only one address")

// listenAddress reads HOST or HOST:PORT, of one interface: other hosts connect to it.
func listenAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "0"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("%s: %w; give one of this host, like 10.0.0.1 or 10.0.0.1:7000", wording.Sprintf("{listen} %s", address), ErrManyAddresses)
	}
	return net.JoinHostPort(host, port), nil
}
