package mount

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	r := n.loop.request(ctx, Open, filepath.Join(n.name(), name))
	r.Create = true
	child, h, reply, errno := n.create(ctx, r, name, flags, mode, out)
	n.loop.tell(r, errno)
	return child, h, reply, errno
}

func (n *node) create(ctx context.Context, r *Request, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child, made, _, errno := n.LoopbackNode.Create(ctx, name, flags&^syscall.O_DIRECT, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	if errno := n.adopt(name, mode, &out.Attr); errno != 0 {
		_ = made.(*fs.LoopbackFile).Release(ctx)
		return nil, nil, 0, errno
	}
	n.loop.advise(&out.Attr)
	h, reply, errno := n.loop.handle(r, made.(*fs.LoopbackFile), flags)
	return child, h, reply, errno
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if errno == 0 {
		errno = n.adopt(name, mode, &out.Attr)
	}
	return child, errno
}

func (n *node) Mknod(ctx context.Context, name string, mode, device uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Mknod(ctx, name, mode, device, out)
	if errno == 0 {
		errno = n.adopt(name, mode, &out.Attr)
	}
	return child, errno
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Symlink(ctx, target, name, out)
	if errno == 0 {
		errno = n.adopt(name, out.Mode, &out.Attr)
	}
	return child, errno
}

// adopt gives what a program has made here the group and the rights that it would have in the
// directory: the daemon has another umask, of which the kernel has applied the program's already,
// and a directory with the set-group-ID bit passes its group on.
func (n *node) adopt(name string, mode uint32, a *fuse.Attr) syscall.Errno {
	path, above := filepath.Join(n.loop.dir, n.name()), unix.Stat_t{}
	if err := unix.Stat(path, &above); err != nil {
		return errnoOf(err)
	}
	made := filepath.Join(path, name)
	if above.Mode&unix.S_ISGID != 0 && a.Gid != above.Gid && os.Geteuid() == 0 {
		if err := unix.Lchown(made, -1, int(above.Gid)); err != nil {
			return errnoOf(err)
		}
		a.Gid = above.Gid
	}
	const rights = 0o7777
	mode = mode & rights
	if a.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= a.Mode & unix.S_ISGID
	}
	if a.Mode&unix.S_IFMT == unix.S_IFLNK || a.Mode&rights == mode || hasRule(path) {
		return 0
	}
	if err := unix.Fchmodat(unix.AT_FDCWD, made, mode, 0); err != nil {
		return errnoOf(err)
	}
	a.Mode = a.Mode&^rights | mode
	return 0
}

// hasRule reports whether a directory has an access control list for what is made in it: no umask
// counts then.
func hasRule(dir string) bool {
	_, err := unix.Getxattr(dir, "system.posix_acl_default", nil)
	return err == nil || errors.Is(err, unix.ERANGE)
}
