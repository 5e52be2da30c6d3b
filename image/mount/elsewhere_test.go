package mount

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// handleOf is a file that a mount has open, without the kernel.
func handleOf(t *testing.T, path string, o StorageOptions) *handle {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	disk := fs.NewLoopbackFile(fd).(*fs.LoopbackFile)
	t.Cleanup(func() { disk.Release(context.Background()) })
	return &handle{LoopbackFile: disk, loop: &loop{o: o}, fd: fd}
}

// TestAppend: a program appends at the end of the file, wherever others have moved that since the
// kernel saw it.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, o := range []StorageOptions{{}, {Watch: watched{}}} {
		os.Remove(path)
		h := handleOf(t, path, o)
		h.appends = true
		for _, text := range []string{"ours 1\n", "ours 2\n"} {
			if n, errno := h.Write(t.Context(), []byte(text), 0); errno != 0 || int(n) != len(text) {
				t.Fatal(n, errno)
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("of others\n")
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "ours 1\nof others\nours 2\nof others\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestLockIsGivenUp: a program that waits for a lock can be interrupted.
func TestLockIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	holder, waiter := handleOf(t, path, StorageOptions{}), handleOf(t, path, StorageOptions{})
	for _, flags := range []uint32{0, fuse.FUSE_LK_FLOCK} {
		lock := &fuse.FileLock{Start: 0, End: 1<<63 - 1, Typ: syscall.F_WRLCK}
		if errno := holder.Setlkw(t.Context(), 1, lock, flags); errno != 0 {
			t.Fatal(errno)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if errno := waiter.Setlkw(ctx, 2, lock, flags); errno != syscall.EINTR {
			t.Errorf("flags %d: %v, want %v", flags, errno, syscall.EINTR)
		}
		free := *lock
		free.Typ = syscall.F_UNLCK
		if errno := holder.Setlk(t.Context(), 1, &free, flags); errno != 0 {
			t.Fatal(errno)
		}
		if errno := waiter.Setlkw(t.Context(), 2, lock, flags); errno != 0 {
			t.Errorf("flags %d: %v once the lock is free", flags, errno)
		}
		waiter.Setlk(t.Context(), 2, &free, flags)
	}
}
