package mount

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A ledger is a gate that notes what waits for a turn, and holds it up until open is closed.
type ledger struct {
	open chan struct{}
	fail error // of storing

	mu   sync.Mutex
	list []Request
}

func (l *ledger) Move(r *Request, part func(off, bytes, behind int64) error) error {
	<-l.open
	l.mu.Lock()
	l.list = append(l.list, *r)
	l.mu.Unlock()
	if r.Op == Sync && l.fail != nil {
		return l.fail
	}
	return part(r.Offset, r.Bytes, 0)
}

func (l *ledger) entries() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// bytes are those that had a turn.
func (l *ledger) bytes() (sum int64) {
	for _, r := range l.entries() {
		sum += r.Bytes
	}
	return sum
}

// TestStoringBehind has a program write on while no request has a turn: bytes that only go into
// memory need none, and are stored behind its back.
func TestStoringBehind(t *testing.T) {
	l := &ledger{open: make(chan struct{})}
	dir, at := storage(t, StorageOptions{Gate: l})
	want := make([]byte, 3*firstPiece)
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(want)
	f, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for off := 0; off < len(want); off += firstPiece / 4 {
		if _, err := f.Write(want[off : off+firstPiece/4]); err != nil {
			t.Fatal(err)
		}
	}
	close(l.open)
	for deadline := time.Now().Add(time.Minute); l.bytes() < 2*firstPiece; { // fsync may find a part of the last piece
		if time.Now().After(deadline) {
			t.Fatal("nothing is stored")
		}
		time.Sleep(time.Millisecond)
	}
	if fi, err := f.Stat(); err != nil || fi.Sys().(*syscall.Stat_t).Blksize != usual {
		t.Errorf("programs are told to move %d bytes at one time, %v", fi.Sys().(*syscall.Stat_t).Blksize, err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	// A part of a page may have to be read first.
	if _, err := f.WriteAt(want[:10], 100); err != nil {
		t.Fatal(err)
	}
	copy(want[100:], want[:10])
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	list, next := l.entries(), int64(0)
	for _, r := range list[:len(list)-2] {
		if r.Op != Sync || r.Offset != next {
			t.Errorf("operation %d at %d, want bytes that follow %d stored", r.Op, r.Offset, next)
		}
		next = r.End()
	}
	if next != int64(len(want)) {
		t.Errorf("stored up to %d of %d", next, len(want))
	}
	if last := list[len(list)-2:]; last[0].Op != Write || last[1].Op != Sync || last[1].Offset != 100 || last[1].Bytes != 10 {
		t.Errorf("a part of a page: %+v", last)
	}
	got, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d bytes of %d are right, %v", len(got), len(want), err)
	}
}

// TestErrorBehind has bytes not stored behind a program's back: the next fsync says so, once.
func TestErrorBehind(t *testing.T) {
	l := &ledger{open: make(chan struct{}), fail: syscall.ENOSPC}
	close(l.open)
	_, at := storage(t, StorageOptions{Gate: l})
	f, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, firstPiece)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("fsync: %v, want ENOSPC", err)
	}
	if err := f.Sync(); err != nil {
		t.Errorf("second fsync: %v", err)
	}
}

// A fetching gate says that much is read next.
type fetching struct{}

func (fetching) Move(r *Request, part func(off, bytes, behind int64) error) error {
	return part(r.Offset, r.Bytes, 1<<30)
}

// TestFetched has the kernel get more of a file than there is: each read has the bytes of the file.
func TestFetched(t *testing.T) {
	dir, at := storage(t, StorageOptions{Gate: fetching{}})
	want := make([]byte, 1<<20+17)
	_, _ = rand.NewChaCha8([32]byte{}).Read(want)
	if err := os.WriteFile(filepath.Join(dir, "file"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(at, "file"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, or others: %v", len(got), len(want), err)
	}
}
