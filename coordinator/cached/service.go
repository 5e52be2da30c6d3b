package cached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/wire"
	"ckpt/image/filecache"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Options are the settings of Start.
type Options struct {
	Dir    string // that is cached
	Dirs   string // of the nodes; {node} stands for the number
	Nodes  int
	Node   int // this one
	Levels filecache.Levels
	Stripe int64
	// Listen is HOST or HOST:PORT for daemons on other hosts, over TLS; "" is for this host alone.
	Listen  string
	Monitor *filecache.Monitor
	// Link, if not nil, has the name of a file be its newest version.
	Link func(version, name string) error
}

// A Service is a node of the cache that is served.
type Service struct {
	*filecache.Daemon
	options Options
	setting Setting
	place   place
	lock    io.Closer
	server  *wire.DirServer
	peers   *peers
	cancel  context.CancelFunc
}

// Start begins to serve a node.
func Start(o Options) (s *Service, err error) {
	fsys := vfs.OS{}
	s = &Service{options: o, place: placeIn(fsys, o.Dir)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	if o.Stripe == 0 {
		o.Stripe = filecache.DefaultStripe
	}
	want := Setting{Nodes: o.Nodes, Dirs: o.Dirs, Levels: o.Levels, Stripe: o.Stripe}
	if s.setting, err = s.place.agree(want); err != nil {
		return s, fmt.Errorf("cache %s: %w", o.Dir, err)
	}
	dir := s.setting.NodeDir(o.Node)
	if err = durable.MkdirAll(fsys, s.setting.filesDir(o.Node)); err != nil {
		return s, err
	}
	if s.lock, err = fsys.Lock(s.setting.lockPath(o.Node)); err != nil {
		return s, fmt.Errorf("node %d of the cache, directory %s: %w", o.Node, dir, err)
	}
	if err = s.place.clear(o.Node, s.setting.filesDir(o.Node)); err != nil {
		return s, err
	}
	return s, s.serve(fsys)
}

func (s *Service) serve(fsys vfs.FS) error {
	o := s.options
	network, err := networkOf(o.Listen, s.setting.Token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	self := wire.Self{Rank: o.Node, Token: s.setting.Token, Network: network}
	s.peers = newPeers(ctx, s.place, s.setting, o.Node, self)
	c := filecache.Cache{Store: filecache.Store{FS: fsys, Dir: o.Dir, Link: o.Link}, Monitor: o.Monitor}
	for i := range o.Nodes {
		n := filecache.Node{FS: s.peers.fs(i), Dir: s.setting.filesDir(i)}
		if i == o.Node {
			n.FS = fsys
		}
		c.Nodes = append(c.Nodes, n)
	}
	s.Daemon, err = filecache.NewDaemon(c, o.Node, s.peers, filecache.DaemonOptions{Levels: o.Levels, Stripe: s.setting.Stripe})
	if err != nil {
		return err
	}
	s.server, err = wire.ServeDirs(self, wire.ServedDirs{FS: vfs.NewBeneath(s.setting.filesDir(o.Node)), Dir: s.setting.filesDir(o.Node), Job: job, Whole: true,
		Answer: func(ctx context.Context, head, data, into []byte) ([]byte, error) {
			return answer(ctx, s.Daemon, head, data, into)
		}})
	if err != nil {
		return fmt.Errorf("node %d of the cache: %w", o.Node, err)
	}
	_, host := wire.ThisHost()
	return durable.ReplaceSealed(fsys, s.place.nodePath(o.Node), seat{Address: s.server.Address(), Host: host})
}

// networkOf is the network of daemons: plain on one host.
func networkOf(listen, token string) (wire.Network, error) {
	if listen == "" {
		return wire.Loopback, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = listen, ""
	}
	n, err := wire.EncryptedPeers(host, token)
	return n.At(port), err
}

// Unfinished returns the files that an earlier use has left in the directory of this node.
func (s *Service) Unfinished() ([]string, error) {
	return filecache.Names(filecache.Node{FS: vfs.OS{}, Dir: s.setting.filesDir(s.options.Node)})
}

// Idle reports whether no program has a file, or one below a directory, open. It waits a second
// for that: the kernel may read ahead for a program that has closed the file.
func (s *Service) Idle(ctx context.Context, name string) (bool, error) {
	for range 100 {
		_, open, err := s.Look(ctx, name)
		if err == nil && !open {
			open, err = s.LookBelow(ctx, name)
		}
		if err != nil || !open {
			return err == nil, err
		}
		pause()
	}
	return false, nil
}

// NodeDir returns the directory of the node.
func (s *Service) NodeDir() string { return s.setting.NodeDir(s.options.Node) }

// Close ends the service. Files that programs have open stay in the directories of the nodes, for
// Recover.
func (s *Service) Close() error {
	var errs []error
	if s.Daemon != nil {
		errs = append(errs, s.Daemon.Close())
	}
	if s.server != nil {
		s.server.Close()
		errs = append(errs, durable.Remove(vfs.OS{}, s.place.nodePath(s.options.Node)))
	}
	if s.cancel != nil {
		s.cancel()
		s.peers.close()
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Hidden reports whether a name below the cached directory is the cache's own.
func Hidden(name string) bool {
	return name == DirName || strings.HasPrefix(name, DirName+"/")
}

// LinkVersion makes the name of a file one of its newest version.
func LinkVersion(version, name string) error {
	temp := name + ".link~"
	fsys := vfs.OS{}
	if err := durable.Remove(fsys, temp); err != nil {
		return err
	}
	if err := dress(version, name); err != nil {
		return err
	}
	if err := os.Link(version, temp); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// dress gives a new version the owner, the rights and the attributes of the file in whose place it
// comes, if there is one.
func dress(version, name string) error {
	var st unix.Stat_t
	switch err := unix.Lstat(name, &st); {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return &os.PathError{Op: "stat", Path: name, Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil
	}
	var own unix.Stat_t
	err := unix.Lstat(version, &own)
	if err == nil && (own.Uid != st.Uid || own.Gid != st.Gid) {
		err = unix.Lchown(version, int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = unix.Chmod(version, st.Mode&0o7777)
	}
	if err != nil {
		return &os.PathError{Op: "give the owner and the rights of " + name + " to", Path: version, Err: err}
	}
	list := make([]byte, 1<<16) // what Linux lists at most
	n, err := unix.Llistxattr(name, list)
	if err != nil {
		return nil // the file system has none
	}
	value := make([]byte, 1<<16)
	for attr := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if attr == "" {
			continue
		}
		n, err := unix.Lgetxattr(name, attr, value)
		if err == nil {
			err = unix.Lsetxattr(version, attr, value[:n], 0)
		}
		if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EPERM) {
			return &os.PathError{Op: "set " + attr + " of", Path: version, Err: err}
		}
	}
	return nil
}
