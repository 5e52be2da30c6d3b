package mount

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"ckpt/image/container"
	"ckpt/image/plan/fileview"
)

// viewMark separates the name of a file from a view, as fileview.Parse reads it.
const viewMark = "?view="

// lookupView finds FILE?view=VIEW, which no directory lists: the bytes of a file that a view selects,
// as a file. Other names with such a mark are ordinary ones.
func (n *node) lookupView(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	base, text, ok := strings.Cut(name, viewMark)
	if !ok {
		return nil, syscall.ENOENT
	}
	v, err := fileview.Parse(text)
	if err != nil {
		return nil, syscall.ENOENT
	}
	w := &viewNode{of: n, base: base, view: v}
	if errno := w.attr(&out.Attr); errno != 0 {
		return nil, errno
	}
	if known := n.GetChild(name); known != nil {
		return known, 0
	}
	return n.NewInode(ctx, w, fs.StableAttr{Mode: syscall.S_IFREG}), 0
}

// A viewNode is a file as seen through a view. It follows the name of the file.
type viewNode struct {
	fs.Inode
	of   *node // directory
	base string
	view *fileview.View
}

var (
	_ fs.NodeGetattrer = (*viewNode)(nil)
	_ fs.NodeSetattrer = (*viewNode)(nil)
	_ fs.NodeOpener    = (*viewNode)(nil)
)

func (w *viewNode) name() string { return filepath.Join(w.of.name(), w.base) }
func (w *viewNode) path() string { return filepath.Join(w.of.loop.dir, w.name()) }

func (w *viewNode) attr(a *fuse.Attr) syscall.Errno {
	var st syscall.Stat_t
	// The kernel has checked no directory behind a link, and the daemon may have other rights.
	if err := syscall.Lstat(w.path(), &st); err != nil {
		return errnoOf(err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return syscall.ENOENT
	}
	a.FromStat(&st)
	a.Ino, a.Nlink, a.Blocks = 0, 1, 0
	if files := w.of.loop.o.Files; files != nil {
		if size, ok := files.Size(w.name()); ok {
			a.Size = uint64(size)
		}
	}
	a.Size = uint64(w.view.Within(int64(a.Size)))
	w.of.loop.advise(a)
	return 0
}

func (w *viewNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return w.attr(&out.Attr)
}

// Setattr changes nothing: the file has its own rights and times, and a view cannot be cut. Times
// are accepted, since programs that copy set them.
func (w *viewNode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if in.Valid&(fuse.FATTR_SIZE|fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
		return syscall.EPERM
	}
	return w.attr(&out.Attr)
}

func (w *viewNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	l := w.of.loop
	r := l.request(ctx, Open, w.name())
	h, reply, errno := w.open(r, flags)
	l.tell(r, errno)
	return h, reply, errno
}

func (w *viewNode) open(r *Request, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_TRUNC != 0 {
		return nil, 0, syscall.EPERM
	}
	flags &^= syscall.O_APPEND | syscall.O_CREAT | syscall.O_EXCL | syscall.O_DIRECT
	fd, err := syscall.Open(w.path(), int(flags)|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, errnoOf(err)
	}
	made, reply, errno := w.of.loop.handle(r, fs.NewLoopbackFile(fd).(*fs.LoopbackFile), flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &viewHandle{made.(*handle), w}, reply, 0
}

// A viewHandle reads and writes the open file through the view.
type viewHandle struct {
	file *handle
	node *viewNode
}

var (
	_ fs.FileReader   = (*viewHandle)(nil)
	_ fs.FileWriter   = (*viewHandle)(nil)
	_ fs.FileFsyncer  = (*viewHandle)(nil)
	_ fs.FileFlusher  = (*viewHandle)(nil)
	_ fs.FileReleaser = (*viewHandle)(nil)
)

// through makes the view of a request. A write makes a call for each block: one that reads a hole and
// writes it back would undo what a program that knows no lock of it writes there meanwhile.
func (h *viewHandle) through(ctx context.Context, rule fileview.Method) (*fileview.File, error) {
	return fileview.NewFile(viewed{h.file, ctx}, h.node.view, fileview.Options{Rule: rule, Buffer: maxRequest, Device: container.UsualDevice})
}

func (h *viewHandle) Read(ctx context.Context, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	f, err := h.through(ctx, fileview.Adaptive)
	if err != nil {
		return nil, errnoOf(err)
	}
	n, err := f.ReadAt(b, off)
	if err != nil && err != io.EOF && (n == 0 || !h.file.direct) {
		return nil, errnoOf(err)
	}
	return fuse.ReadResultData(b[:n]), 0
}

func (h *viewHandle) Write(ctx context.Context, b []byte, off int64) (uint32, syscall.Errno) {
	if off+int64(len(b)) > h.node.view.Size() {
		return 0, syscall.EFBIG
	}
	f, err := h.through(ctx, fileview.Naive)
	if err != nil {
		return 0, errnoOf(err)
	}
	n, err := f.WriteAt(b, off)
	if n == 0 && err != nil {
		return 0, errnoOf(err)
	}
	if child := h.node.of.GetChild(h.node.base); child != nil {
		_ = child.NotifyContent(0, 0) // pages of the file that the kernel keeps; it need not have any
	}
	return uint32(n), 0
}

func (h *viewHandle) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	return h.file.Fsync(ctx, flags)
}
func (h *viewHandle) Flush(ctx context.Context) syscall.Errno   { return h.file.Flush(ctx) }
func (h *viewHandle) Release(ctx context.Context) syscall.Errno { return h.file.Release(ctx) }

// viewed is an open file as a view calls it: each call is a request.
type viewed struct {
	file *handle
	ctx  context.Context
}

func (f viewed) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		read, errno := f.file.read(f.ctx, b[n:], off+int64(n))
		if errno != 0 {
			return n, errno
		}
		if read == 0 {
			return n, io.EOF
		}
		n += read
	}
	return n, nil
}

func (f viewed) WriteAt(b []byte, off int64) (int, error) {
	n, errno := f.file.Write(f.ctx, b, off)
	if errno != 0 {
		return int(n), errno
	}
	return int(n), nil
}
