package turns

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"ckpt/coordinator/wire"
	"ckpt/image/iosched"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// ErrServed says that another process is the controller of the directory.
var ErrServed = errors.New("another process gives out the storage turns there")

// ServeOptions say how a controller works. Zero values are defaults.
type ServeOptions struct {
	Arbiter iosched.TurnOptions
	// Listen is HOST or HOST:PORT for clients on other hosts; "" for this host only.
	Listen string
	// Group is the group of users that may connect besides the owner; 0: the directory's.
	Group uint32
	// IdleExit ends the controller after so long without a connection; 0: never.
	IdleExit time.Duration
	// Beat is how often clients with bursts hear that the controller lives; 1 s.
	Beat time.Duration
	// MaxConns limits the connections, 16,384, and MaxUserConns those of one user, half of that.
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
	c, err := newController(dir, o)
	if err != nil {
		return err
	}
	p, err := claim(o.FS, dir, o.Group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	info := Info{Dir: dir, Version: version, PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Millisecond), Policy: o.Arbiter.Policy}
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
