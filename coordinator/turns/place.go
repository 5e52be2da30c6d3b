package turns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A place is a controller's directory in its storage unit. Its lock says that the controller
// lives.
type place struct {
	fs     vfs.FS
	path   string
	access access
	lock   io.Closer
}

// An access says who may connect: the owner of the storage unit, and its group if that may read
// the directory.
type access struct {
	owner, group uint32
	open         bool // to the group
	writes       bool // the group may write in the directory
	named        bool // the group was named, and may be another than the directory's
}

func accessOf(dir string) (a access, err error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return a, err
	}
	if !fi.IsDir() {
		return a, fmt.Errorf("%s is no directory; give the directory whose I/O is to take turns", dir)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return a, fmt.Errorf("%s: its owner is not known", dir)
	}
	return access{owner: st.Uid, group: st.Gid, open: fi.Mode().Perm()&0o050 == 0o050, writes: fi.Mode().Perm()&0o020 != 0}, nil
}

func claim(fsys vfs.FS, dir string, group uint32) (*place, error) {
	a, err := accessOf(dir)
	if err != nil {
		return nil, err
	}
	if group != 0 {
		if os.Geteuid() != 0 && !isMember(group) {
			return nil, fmt.Errorf("group %d: %w: this user is no member of it", group, ErrGroup)
		}
		a.group, a.open, a.named = group, true, true
	}
	p := &place{fs: fsys, path: filepath.Join(dir, dirName), access: a}
	for range 10 {
		if err = p.enter(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		// The controller before this one has just removed the directory.
	}
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", dir, ErrServed)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *place) enter(dir string) error {
	err := p.fs.Mkdir(p.path)
	switch {
	case err == nil:
		mode := fs.FileMode(0o750)
		if p.access.writes {
			mode = 0o770 // another member of the group may serve next
		}
		if p.access.named {
			mode = 0o750 | fs.ModeSetgid // the sign for clients
		}
		p.hand(p.path, mode)
	case !errors.Is(err, fs.ErrExist):
		return err
	default:
		fi, err := os.Lstat(p.path)
		if err != nil {
			return err
		}
		unit, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return fmt.Errorf("%s is no directory; remove it", p.path)
		}
		if err := trusted(filepath.Join(p.path, infoName), unit, fi); err != nil {
			return err
		}
	}
	name := filepath.Join(p.path, lockName)
	if fi, err := os.Lstat(name); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is no file; remove it", name) // the owner of the directory may have put a link there
	}
	if p.lock, err = p.fs.Lock(name); err != nil {
		return err
	}
	p.hand(name, 0o660)
	return nil
}

// hand gives a file to the owner and group of the storage unit, as far as this process may.
func (p *place) hand(path string, mode fs.FileMode) {
	if fi, err := os.Lstat(path); err != nil || fi.Mode()&fs.ModeSymlink != 0 {
		return // chmod would follow it
	}
	owner := -1
	if os.Getuid() == 0 {
		owner = int(p.access.owner)
	}
	if !p.access.open || os.Lchown(path, owner, int(p.access.group)) != nil {
		mode &^= 0o070
		if owner >= 0 {
			_ = os.Lchown(path, owner, -1)
		}
	}
	_ = os.Chmod(path, mode)
}

// ofOurs reports whether a controller was started for a group of this process, by a setgid
// directory.
func ofOurs(dir fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	if !ok || !dir.IsDir() || dir.Mode()&fs.ModeSetgid == 0 || dir.Mode()&0o022 != 0 {
		return false
	}
	return isMember(st.Gid)
}

var ErrGroup = errors.New("it cannot be served")

func isMember(gid uint32) bool {
	groups, err := os.Getgroups()
	return int(gid) == os.Getegid() || err == nil && slices.Contains(groups, int(gid))
}

func (p *place) socket() (net.Listener, error) {
	path := filepath.Join(p.path, socketName)
	if err := durable.Remove(p.fs, path); err != nil {
		return nil, err
	}
	var l *net.UnixListener
	err := short(path, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it may be bound under the name of a descriptor
	p.hand(path, 0o660)
	return l, nil
}

// announce tells clients where the controller is, until the machine crashes.
func (p *place) announce(i Info) error {
	b, err := i.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(p.path, infoName)
	if err := durable.ReplaceUnsynced(p.fs, path, b); err != nil {
		return durable.Op("write", path, -1, err)
	}
	p.hand(path, 0o640)
	return nil
}

func (p *place) withdraw() error { return durable.Remove(p.fs, filepath.Join(p.path, infoName)) }

// leave removes what the controller has made, and the directory if nothing else is in it.
func (p *place) leave() error {
	err := errors.Join(p.withdraw(), durable.Remove(p.fs, filepath.Join(p.path, socketName)),
		durable.Remove(p.fs, filepath.Join(p.path, lockName)))
	_ = p.fs.Remove(p.path)
	return errors.Join(err, p.lock.Close())
}

const (
	// dirName is a controller's directory in its storage unit.
	dirName    = ".ckpt-turns"
	infoName   = "controller.json"
	lockName   = "lock"
	socketName = "socket"
	maxInfo    = 64 << 10
)

var ErrNone = errors.New("no controller of storage turns")

// Info says where a controller is. It may have died since.
type Info struct {
	// Dir is the storage unit: the directory that the controller serves.
	Dir     string    `json:"-"`
	Version int       `json:"version"`
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Policy  string    `json:"policy"` // of turns
	// Requests is the policy of the requests of mounts.
	Requests string `json:"request_policy,omitempty"`
	// Socket is the name of the Unix socket beside the file, "" without one.
	Socket string `json:"socket,omitempty"`
	// Address is HOST:PORT for TLS, which the token opens; "" without it.
	Address string `json:"address,omitempty"`
	Token   string `json:"token,omitempty"`
}

type sealedInfo struct {
	Info
	Sum uint32 `json:"crc32c"`
}

func (i Info) encode() ([]byte, error) {
	body, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(sealedInfo{i, durable.Sum(body)})
	return append(b, '\n'), err
}

func decodeInfo(path string, b []byte) (*Info, error) {
	var s sealedInfo
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, &durable.DamageError{File: path, Reason: "it is not what ckpt writes there"}
	}
	if s.Version > version {
		return nil, fmt.Errorf("%s: version %d: %w", path, s.Version, durable.ErrNewerVersion)
	}
	body, err := json.Marshal(s.Info)
	if err != nil || durable.Sum(body) != s.Sum {
		return nil, &durable.DamageError{File: path, Reason: "its checksum is not that of its content"}
	}
	if s.Socket != "" && (s.Socket != filepath.Base(s.Socket) || !filepath.IsLocal(s.Socket)) {
		return nil, &durable.DamageError{File: path, Reason: fmt.Sprintf("socket %q is not a name beside it", s.Socket)}
	}
	return &s.Info, nil
}

// Find looks for the controller of a directory: in it, and in its parents on the same file
// system. A directory that is not there yet counts as its parent.
func Find(fsys vfs.FS, dir string) (*Info, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	dir = resolve(dir)
	var device any
	for {
		if fi, err := fsys.Stat(dir); err == nil {
			if d := deviceOf(fi); device == nil {
				device = d
			} else if d != device {
				return nil, ErrNone
			}
			if i, err := findIn(fsys, dir, fi); err == nil || !errors.Is(err, fs.ErrNotExist) {
				return i, err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, ErrNone
		}
		dir = parent
	}
}

// resolve follows the links in the name of a directory, as far as it exists: the real parents
// lead to its controller.
func resolve(dir string) string {
	for at, rest := dir, ""; ; {
		if to, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(to, rest)
		}
		parent := filepath.Dir(at)
		if parent == at {
			return dir
		}
		at, rest = parent, filepath.Join(filepath.Base(at), rest)
	}
}

// deviceOf identifies the file system of a file, where the system says so.
func deviceOf(fi fs.FileInfo) any {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Dev
	}
	return "all of one"
}

// findIn reads the file of the controller in a directory itself.
func findIn(fsys vfs.FS, dir string, unit fs.FileInfo) (*Info, error) {
	path := filepath.Join(dir, dirName, infoName)
	fi, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w for this user: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	// In a stranger's directory, the file may be a link to somebody else's, and the socket beside
	// it the stranger's.
	place, err := fsys.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if !ofOurs(place) {
		if err := errors.Join(trusted(path, unit, fi), trusted(path, unit, place)); err != nil {
			return nil, err
		}
	}
	b, err := durable.ReadFile(fsys, path, maxInfo)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w for this user: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	i, err := decodeInfo(path, b)
	if err == nil {
		i.Dir = dir
	}
	return i, err
}

// trusted refuses the file of a stranger, who could put it into a directory that is open to all:
// a false controller could make jobs wait.
func trusted(path string, unit, file fs.FileInfo) error {
	dir, ok := unit.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	of, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	group := dir.Mode&0o022 == 0o020 && of.Gid == dir.Gid // its members may write there, and no others
	if of.Uid == dir.Uid || of.Uid == 0 || of.Uid == uint32(syscall.Getuid()) || group {
		return nil
	}
	return fmt.Errorf("%w to trust: %s belongs to user %d, and %s to user %d; its owner can start one there",
		ErrNone, path, of.Uid, filepath.Dir(filepath.Dir(path)), dir.Uid)
}
