package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/family"
)

// A peer is the user at the other end of a Unix socket, as the kernel says.
type peer struct {
	uid  uint32
	gids []uint32

	mu   sync.Mutex
	seen map[string]sight // by directory
}

// A sight is whether a peer saw a store or a job a moment ago: a stream asks for each event.
type sight struct {
	until time.Time
	sees  bool
}

const sightFor = time.Second

// peerKey is where the context of a connection has its peer.
type peerKey struct{}

// withPeer notes the peer of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	p := &peer{uid: ^uint32(0), seen: map[string]sight{}} // nobody
	if cred, err := family.Peer(u); err == nil {
		p.uid, p.gids = cred.Uid, []uint32{cred.Gid}
	}
	if who, err := user.LookupId(strconv.FormatUint(uint64(p.uid), 10)); err == nil {
		ids, _ := who.GroupIds()
		for _, id := range ids {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil {
				p.gids = append(p.gids, uint32(n))
			}
		}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// owns reports whether the peer is the user who runs the service, or root.
func (p *peer) owns() bool { return p.uid == 0 || int(p.uid) == os.Geteuid() }

// may reports whether the mode of a file lets the peer do what bits of rwx say. It looks at no access
// control list: a file with one is for its owner only.
func (p *peer) may(path string, bits uint32) bool {
	fi, err := os.Stat(path)
	if err != nil {
		return false
	}
	st := fi.Sys().(*syscall.Stat_t)
	mode := st.Mode & 7
	switch {
	case st.Uid == p.uid:
		mode = st.Mode >> 6 & 7
	case hasList(path):
		return false
	case slices.Contains(p.gids, st.Gid):
		mode = st.Mode >> 3 & 7
	}
	return mode&bits == bits
}

func hasList(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// reads reports whether the peer can read a file or directory, and reach it.
func (p *peer) reads(path string) bool {
	bits := uint32(4)
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		bits = 5
	}
	if !p.may(path, bits) {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if !p.may(dir, 1) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// sees reports whether the sender of a request may see a store: with a token or a cookie, as the
// user of the service, or as one who can read the store and the state of each job in it.
func (s *server) sees(ctx context.Context, dir string) bool {
	return looked(ctx, dir, (*peer).readsStore)
}

// looked asks a peer, and remembers the answer so long that looks take a hundredth of the time. A
// sender without a peer sees all.
func looked(ctx context.Context, path string, reads func(*peer, string) bool) bool {
	p, ok := ctx.Value(peerKey{}).(*peer)
	if !ok || p.owns() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if was, ok := p.seen[path]; !ok || now.After(was.until) {
		sees := reads(p, path)
		p.seen[path] = sight{now.Add(max(sightFor, 100*time.Since(now))), sees}
	}
	return p.seen[path].sees
}

// readsStore reports whether the peer can read a store and the state of each job in it. A link
// among the jobs is for the user of the service only: it may lead to files of another user.
func (p *peer) readsStore(dir string) bool {
	jobs := jobsOf(dir)
	if !p.reads(dir) || !p.reads(jobs) || !p.readsFiles(dir, false) {
		return false
	}
	entries, err := os.ReadDir(jobs)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Type() == fs.ModeSymlink || e.IsDir() && !p.readsFiles(filepath.Join(jobs, e.Name()), false)
	})
}

// readsAll is readsFiles with the directories below.
func (p *peer) readsAll(dir string) bool { return p.readsFiles(dir, true) }

// readsFiles reports whether the peer can read the files in a directory, and with below those in
// the directories below it.
func (p *peer) readsFiles(dir string, below bool) bool {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		bits := uint32(4)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it went
		case err != nil:
			return err
		case d.IsDir() && path != dir && !below:
			return fs.SkipDir
		case d.IsDir():
			bits = 5
		case d.Type() == fs.ModeSymlink:
			return fs.ErrPermission
		case !d.Type().IsRegular():
			return nil
		}
		if _, gone := os.Lstat(path); gone == nil && !p.may(path, bits) {
			return fs.ErrPermission
		}
		return nil
	}) == nil
}

// seesName is sees for a store by its name; "" is none.
func (s *server) seesName(ctx context.Context, name string) bool {
	i := slices.IndexFunc(s.stores, func(st storeRef) bool { return st.Name == name })
	return name == "" || i >= 0 && s.sees(ctx, s.stores[i].Dir)
}

// rightOfPeer is what the peer of a Unix socket may do, 0 for what a cookie or token says: what
// changes jobs is done as the user of the service, so it is for that user.
func (g *guard) rightOfPeer(r *http.Request) right {
	p, ok := r.Context().Value(peerKey{}).(*peer)
	switch {
	case !ok || p.uid == ^uint32(0):
		return 0
	case p.owns():
		return g.most
	}
	return reading
}

// listenUnix listens on a Unix socket, which every user may connect to: the peer decides. A socket
// without a service behind it is replaced.
func listenUnix(path string) (net.Listener, error) {
	if path == "" || path[0] == '@' { // which the kernel takes for names without a file
		return nil, ui.BadUsage(fmt.Sprintf("--listen unix:%s: want the path of a socket", path), "like --listen unix:/run/ckpt.sock")
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if fi, err := os.Lstat(path); err == nil && fi.Mode().Type() != fs.ModeSocket {
			return nil, ui.BadUsage(fmt.Sprintf("--listen unix:%s: the file there is no socket", path), "choose another path")
		}
		c, derr := net.Dial("unix", path)
		if derr == nil {
			c.Close()
			return nil, ui.WithHint(fmt.Errorf("--listen unix:%s: a service listens there", path), "choose another path")
		}
		if errors.Is(derr, syscall.ECONNREFUSED) && os.Remove(path) == nil {
			l, err = net.Listen("unix", path)
		}
	}
	if err != nil {
		return nil, ui.BadUsage("--listen: "+err.Error(), "name a path in a directory that you may write to")
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
