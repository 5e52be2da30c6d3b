package mount

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"ckpt/image/plan/fileview"
	"ckpt/internal/testkit"
)

// TestUnreadable: a program that reads meets the error of a file, and never takes it for the end. The
// file is this process's memory, of which a page is missing.
func TestUnreadable(t *testing.T) {
	page := int64(os.Getpagesize())
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(3*page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.MunmapPtr(at, uintptr(page))
	hole := unsafe.Add(at, page)
	if err := unix.MunmapPtr(hole, uintptr(2*page)); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open("/proc/self/mem", syscall.O_RDONLY, 0)
	if err != nil {
		testkit.Skip(t, "/proc/self/mem")
	}
	disk := fs.NewLoopbackFile(fd).(*fs.LoopbackFile)
	defer disk.Release(t.Context())
	begin, b := int64(uintptr(at)), make([]byte, 2*page)
	view, err := fileview.Parse(fmt.Sprintf("%d:%dx2", begin, page))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]StorageOptions{"plain": {}, "watched": {Watch: watched{}}} {
		for _, direct := range []bool{false, true} {
			h := &handle{LoopbackFile: disk, loop: &loop{o: o}, fd: fd, direct: direct}
			v := &viewHandle{h, &viewNode{view: view}}
			for kind, read := range map[string]func(int64) (int64, syscall.Errno){
				"file": func(off int64) (int64, syscall.Errno) { return length(h.Read(t.Context(), b, begin+off)) },
				"view": func(off int64) (int64, syscall.Errno) { return length(v.Read(t.Context(), b[:2*page-off], off)) },
			} {
				n, errno := read(0)
				if direct && (n != page || errno != 0) || !direct && (n != 0 || errno != syscall.EIO) {
					t.Errorf("%s, %s, direct %v: %d bytes, %v", name, kind, direct, n, errno)
				}
				if n, errno := read(page); n != 0 || errno != syscall.EIO {
					t.Errorf("%s, %s, direct %v, behind the last byte: %d bytes, %v", name, kind, direct, n, errno)
				}
			}
		}
	}
}

func length(r fuse.ReadResult, errno syscall.Errno) (int64, syscall.Errno) {
	switch {
	case r == nil:
		return 0, errno
	case errno != 0: // go-fuse takes the result for a success
		return -1, errno
	}
	return int64(r.Size()), errno
}
