package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// ErrNoFUSE says that this machine cannot mount file systems in user space.
var ErrNoFUSE = errors.New("no file systems in user space (FUSE) here")

// ErrTaken says that something is mounted on a directory already.
var ErrTaken = errors.New("is a mount already")

// ErrHides says that a mount would hide the directory that it shows.
var ErrHides = errors.New("mount elsewhere")

// maxRequest is the largest read or write of the kernel.
const maxRequest = 1 << 20

// helpers unmount for users who are not root, the newer one first.
var helpers = []string{"fusermount3", "fusermount"}

// Available reports why nothing can be mounted here: nil if something can.
func Available() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoFUSE, err)
	}
	f.Close()
	if os.Geteuid() != 0 && helper() == "" {
		return fmt.Errorf("%w: there is no %s", ErrNoFUSE, helpers[0])
	}
	return nil
}

func helper() string {
	for _, name := range helpers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// A Mount is a file system that is served.
type Mount struct {
	dir    string
	server *fuse.Server
}

// mount serves a tree on a directory.
func mount(root fs.InodeEmbedder, dir, name string, o *fs.Options) (*Mount, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := vacate(dir); err != nil {
		return nil, err
	}
	o.FsName, o.Name = name, "ckpt"
	o.MaxWrite, o.MaxReadAhead = maxRequest, maxRequest
	o.DisableSplice = true // a request of that size with its header is larger than a pipe
	o.DirectMount = os.Geteuid() == 0
	o.UID, o.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	server, err := fuse.NewServer(fs.NewNodeFS(root, o), dir, &o.MountOptions)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	// It is mounted and the kernel was greeted. fs.Mount would now open a file in its own mount,
	// and a daemon that is killed while it waits for itself never ends.
	go server.Serve()
	return &Mount{dir, server}, nil
}

// vacate checks that a directory is free, and takes away what a daemon that was killed has left.
func vacate(dir string) error {
	var here, above unix.Stat_t
	var fs unix.Statfs_t // the kernel knows it from nowhere but the daemon
	if err := unix.Statfs(dir, &fs); errors.Is(err, syscall.ENOTCONN) {
		if err := detach(dir); err != nil {
			return fmt.Errorf("unmount %s, whose daemon has ended: %w", dir, err)
		}
	}
	if err := unix.Stat(dir, &here); err != nil {
		return &os.PathError{Op: "mount on", Path: dir, Err: err}
	}
	if here.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &os.PathError{Op: "mount on", Path: dir, Err: syscall.ENOTDIR}
	}
	if err := unix.Stat(filepath.Dir(dir), &above); err == nil && here.Dev != above.Dev && isOurs(dir) {
		return fmt.Errorf("%s %w", dir, ErrTaken)
	}
	return nil
}

// isOurs reports whether a file system of this package is mounted on a directory.
func isOurs(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	table, err2 := os.ReadFile("/proc/self/mounts")
	if err != nil || err2 != nil {
		return false
	}
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(real)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == escaped && f[2] == "fuse.ckpt" {
			return true
		}
	}
	return false
}

// detach takes a mount out of the tree. Files that are open in it live on while its daemon does.
func detach(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if err == nil || helper() == "" {
		return err
	}
	out, err := exec.Command(helper(), "-uz", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Dir returns the directory.
func (m *Mount) Dir() string { return m.dir }

// Wait returns when the file system is unmounted and no program has anything open in it.
func (m *Mount) Wait() { m.server.Wait() }

// Unmount ends the file system. Where programs have files open, these stay readable until Wait
// returns or the process ends, and busy is true.
func (m *Mount) Unmount() (busy bool, err error) {
	if err := m.server.Unmount(); err == nil {
		return false, nil
	}
	return true, detach(m.dir)
}

// escape makes a name of a file of the name of an array.
func escape(name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F", "\x00", "%00").Replace(name)
}

// entry is a name in a directory.
func entry(name string, mode uint32) fuse.DirEntry { return fuse.DirEntry{Name: name, Mode: mode} }

// stream lists entries, sorted by name.
func stream(list []fuse.DirEntry) fs.DirStream {
	slices.SortFunc(list, func(a, b fuse.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	return fs.NewListDirStream(list)
}
