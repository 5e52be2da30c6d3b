package mount

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// StorageOptions are the settings of Storage.
type StorageOptions struct {
	ReadOnly bool
	// AllUsers lets other users than the one who mounts in; the kernel checks their rights.
	AllUsers bool
	// Gate, unless nil, decides when bytes move.
	Gate Gate
	// Watch, unless nil, learns of each request.
	Watch Watch
	// Files, unless nil, hold the bytes of open files instead of the directory.
	Files Files
	// Shared has every read of an open file come here, and locks go to the directory: others than
	// the programs of this mount change Files, names and sizes.
	Shared bool
}

// A Gate decides when bytes move. Move calls part for the bytes of a request from front to back,
// in one part or several, and returns its first error. behind is how many bytes of the file other
// requests read next, from the end of the part on.
type Gate interface {
	Move(r *Request, part func(offset, bytes, behind int64) error) error
}

// A Watch learns of each request when it is done. Its methods may be called by several goroutines.
type Watch interface {
	Done(r *Request, began, ended time.Time)
}

// Files hold the bytes of files: the directory then has names, rights and times only. Names are
// relative to the directory. Methods may be called by several goroutines.
type Files interface {
	// Open opens the bytes of a file, each time that a program opens it or makes it. flags are
	// those of open(2), and disk is the open file in the directory; File need not close it. A nil
	// File says that this file's bytes are in disk.
	Open(name string, flags int, disk *os.File) (File, error)
	// Size returns the size of a file, if it is not the one in the directory.
	Size(name string) (bytes int64, ok bool)
	// Truncate changes the size of a file by its name; ok is false if disk is to be truncated.
	Truncate(name string, size int64) (ok bool, err error)
	// Renaming and Removing say that a name of the directory is about to change or to go, which
	// their errors prevent.
	Renaming(from, to string) error
	// Linking says that a file is about to get another name.
	Linking(name string) error
	Removing(name string) error
}

// A File is an open file of Files. An error is told to the program as its syscall.Errno, or EIO.
type File interface {
	// ReadAt returns fewer bytes than it was asked for at the end of the file only.
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	Truncate(size int64) error
	Size() (int64, error)
	// Flush is called for each close(2) of a program, Close after the last one.
	Flush() error
	// Sync is fsync(2).
	Sync() error
	Close() error
}

// Storage mounts a directory for reading and writing: a loopback whose requests are seen.
func Storage(dir, at string, o StorageOptions) (*Mount, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, &os.PathError{Op: "mount", Path: dir, Err: syscall.ENOTDIR}
	}
	if err := apart(dir, at); err != nil {
		return nil, err
	}
	dev := uint64(st.Sys().(*syscall.Stat_t).Dev)
	l := &loop{dir: dir, o: o, readAhead: readAhead(dev)}
	data := &fs.LoopbackRoot{Path: dir, Dev: dev}
	root := &node{LoopbackNode: fs.LoopbackNode{RootData: data}, loop: l}
	data.RootNode = root
	lasts := time.Second
	if o.Shared {
		lasts = 0 // any other time is at least a tick of the kernel
	}
	options := &fs.Options{EntryTimeout: &lasts, AttrTimeout: &lasts, NullPermissions: true}
	options.MaxBackground = mostBackground
	options.Options = []string{"default_permissions"}
	if o.ReadOnly {
		options.Options = append(options.Options, "ro")
	}
	if o.AllUsers {
		options.Options = append(options.Options, "allow_other")
	} else {
		// Else the kernel asks before each write for the privileges of the file, which a write takes
		// away. Here the directory does that: programs have the user of the daemon.
		options.ExtraCapabilities = fuse.CAP_HANDLE_KILLPRIV_V2
	}
	options.EnableLocks = o.Shared
	if l.seen() || o.Gate != nil {
		options.ExtraCapabilities |= fuse.CAP_DIRECT_IO_ALLOW_MMAP
	}
	m, err := mount(root, at, dir, options)
	if err != nil {
		return nil, err
	}
	l.maps.Store(m.server.KernelSettings().Flags64()&fuse.CAP_DIRECT_IO_ALLOW_MMAP != 0)
	return m, nil
}

// mostBackground is how many read-aheads may wait for the gate: those of one program must not keep
// others out.
const mostBackground = 1 << 12

// apart refuses a mount on the directory itself or around it: the daemon would wait for itself.
func apart(dir, at string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return err
	}
	at, err = filepath.Abs(at)
	if err != nil {
		return err
	}
	if to, err := filepath.EvalSymlinks(at); err == nil {
		at = to
	}
	if inside, err := filepath.Rel(at, real); err == nil && filepath.IsLocal(inside) {
		return fmt.Errorf("%s would hide %s, which it shows: %w", at, dir, ErrHides)
	}
	return nil
}

// A loop is a mount of a directory.
type loop struct {
	dir       string
	o         StorageOptions
	maps      atomic.Bool // files may be mapped though each call comes here
	readAhead int64       // bytes that the kernel reads ahead in the directory by itself
}

// readAhead returns how many bytes the kernel reads ahead on a file system, or 0 if it does not say.
func readAhead(dev uint64) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// seen reports whether each call of a program must come here. For a gate it need not, but a request
// as long as the call costs fewer copies and waits than pages that the kernel keeps. Linux before 6.6
// shares no memory that maps a file then, which programs of a gate go on needing.
func (l *loop) seen() bool {
	return l.o.Watch != nil || l.o.Shared || l.o.Gate != nil && l.maps.Load()
}

// usual is how many bytes programs are told to read at one time: their libraries ask for 4 KiB
// otherwise, and each call comes here.
const usual = 128 << 10

// advise says how many bytes to read at one time, unless a trace is to show what programs do.
func (l *loop) advise(a *fuse.Attr) {
	if l.o.Gate != nil && l.o.Watch == nil {
		a.Blksize = max(a.Blksize, usual)
	}
}

// plain reports whether bytes may pass by.
func (l *loop) plain() bool { return l.o.Gate == nil && l.o.Watch == nil && l.o.Files == nil }

// A node is a name in the directory.
type node struct {
	fs.LoopbackNode
	loop *loop
}

var _ fs.NodeWrapChilder = (*node)(nil)

func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	if of, ok := ops.(*fs.LoopbackNode); ok {
		return &node{LoopbackNode: fs.LoopbackNode{RootData: of.RootData}, loop: n.loop}
	}
	return ops
}

func (n *node) name() string { return n.Path(n.Root()) }

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	r := n.loop.request(ctx, Open, n.name())
	h, reply, errno := n.open(ctx, r, flags)
	n.loop.tell(r, errno)
	return h, reply, errno
}

func (n *node) open(ctx context.Context, r *Request, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	made, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	return n.loop.handle(r, made.(*fs.LoopbackFile), flags)
}

func (n *node) Getattr(ctx context.Context, h fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if errno := n.LoopbackNode.Getattr(ctx, h, out); errno != 0 {
		return errno
	}
	n.loop.advise(&out.Attr)
	return n.resize(h, &out.Attr)
}

// resize says the size that Files know.
func (n *node) resize(h fs.FileHandle, a *fuse.Attr) syscall.Errno {
	if n.loop.o.Files == nil || a.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return 0
	}
	if o, ok := h.(*handle); ok && o.file != nil {
		size, err := o.file.Size()
		if err != nil {
			return errnoOf(err)
		}
		a.Size = uint64(size)
	} else if size, ok := n.loop.o.Files.Size(n.name()); ok {
		a.Size = uint64(size)
	}
	return 0
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Lookup(ctx, name, out)
	if errno == syscall.ENOENT {
		return n.lookupView(ctx, name, out)
	}
	n.loop.advise(&out.Attr)
	if files := n.loop.o.Files; errno == 0 && files != nil && out.Attr.Mode&syscall.S_IFMT == syscall.S_IFREG {
		if size, ok := files.Size(filepath.Join(n.name(), name)); ok {
			out.Attr.Size = uint64(size)
		}
	}
	return child, errno
}

func (n *node) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resizes := in.GetSize()
	r := n.loop.request(ctx, Truncate, n.name())
	r.Bytes = int64(size)
	if files := n.loop.o.Files; resizes && files != nil {
		ok, err := n.truncate(h, int64(size))
		if err != nil {
			return errnoOf(err)
		}
		if ok {
			in.Valid &^= fuse.FATTR_SIZE
		}
	}
	errno := n.LoopbackNode.Setattr(ctx, h, in, out)
	n.loop.advise(&out.Attr)
	if errno == 0 {
		errno = n.resize(h, &out.Attr)
	}
	if resizes {
		n.loop.tell(r, errno)
	}
	return errno
}

func (n *node) truncate(h fs.FileHandle, size int64) (ok bool, err error) {
	if o, is := h.(*handle); is && o.file != nil {
		return true, o.file.Truncate(size)
	}
	return n.loop.o.Files.Truncate(n.name(), size)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	r := n.loop.request(ctx, Unlink, filepath.Join(n.name(), name))
	var errno syscall.Errno
	if files := n.loop.o.Files; files != nil {
		errno = errnoOf(files.Removing(r.Name))
	}
	if errno == 0 {
		errno = n.LoopbackNode.Unlink(ctx, name)
	}
	n.loop.tell(r, errno)
	return errno
}

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if of, ok := target.(*node); ok && n.loop.o.Files != nil {
		if err := n.loop.o.Files.Linking(of.name()); err != nil {
			return nil, errnoOf(err)
		}
	}
	return n.LoopbackNode.Link(ctx, target, name, out)
}

func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	r := n.loop.request(ctx, Rename, filepath.Join(n.name(), name))
	if d, ok := to.(*node); ok {
		r.To = filepath.Join(d.name(), newName)
	}
	var errno syscall.Errno
	if files := n.loop.o.Files; files != nil {
		errno = errnoOf(files.Renaming(r.Name, r.To))
	}
	if errno == 0 {
		errno = n.LoopbackNode.Rename(ctx, name, to, newName, flags)
	}
	n.loop.tell(r, errno)
	return errno
}

// CopyFileRange copies inside the directory, or as a read and a write of a program where bytes must
// be seen or are elsewhere: the kernel would copy pages that it has kept from before.
func (n *node) CopyFileRange(ctx context.Context, in fs.FileHandle, offIn uint64, out *fs.Inode, to fs.FileHandle, offOut, bytes, flags uint64) (uint32, syscall.Errno) {
	a, ok := in.(*handle)
	b, ok2 := to.(*handle)
	if !ok || !ok2 {
		return 0, syscall.EOPNOTSUPP
	}
	if n.loop.plain() {
		return n.LoopbackNode.CopyFileRange(ctx, a.LoopbackFile, offIn, out, b.LoopbackFile, offOut, bytes, flags)
	}
	buf := make([]byte, min(bytes, maxRequest))
	read, errno := a.read(ctx, buf, int64(offIn))
	if errno != 0 || read == 0 {
		return 0, errno
	}
	return b.Write(ctx, buf[:read], int64(offOut))
}
