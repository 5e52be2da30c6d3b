package msglog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testID = ID{Job: "bt.S.4", Rank: 2}

const testDir = "/log"

// frameOf is a frame that follows from a number: all kinds, payloads of all
// lengths from none to more than a page.
func frameOf(n int) Frame {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	f := Frame{Peer: int32(n % 5), Tag: int32(n * 3), Seq: uint64(n), Order: uint64(n * 2)}
	size := 0
	switch n % 7 {
	case 0:
		f.Kind, f.AnySource = Order, true
	case 1:
		f.Kind, f.Peer, size = Mark, -1, 3
	case 2:
		f.Kind, f.Peer, size = Output, -1, 20
	case 3:
		f.Kind, f.Context, size = Message, 1, 600
	default:
		f.Kind, size = Message, rng.IntN(80)
	}
	if n%29 == 4 {
		size = 5000
	}
	for range size {
		f.Payload = append(f.Payload, byte(rng.Uint32()))
	}
	return f
}

func sameFrame(a, b Frame) bool {
	pa, pb := a.Payload, b.Payload
	a.Payload, b.Payload = nil, nil
	return fmt.Sprint(a) == fmt.Sprint(b) && bytes.Equal(pa, pb)
}

// first is the number of the oldest frame that is still there.
func first(l *Log) LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segs[0].first
}

// numbered is a frame and its number.
type numbered struct {
	lsn LSN
	Frame
}

// readAll reads a log to its end.
func readAll(r *Reader, err error) ([]numbered, error) {
	if err != nil {
		return nil, err
	}
	var list []numbered
	for {
		lsn, f, err := r.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		f.Payload = slices.Clone(f.Payload)
		list = append(list, numbered{lsn, f})
	}
}

func readDir(fsys vfs.FS, dir string, from LSN) ([]numbered, Recovery, error) {
	r, rec, err := OpenReader(fsys, dir, testID, from)
	list, err := readAll(r, err)
	return list, rec, err
}

// kept is the disk as it is, with nobody holding locks on it.
func kept(m *memfs.FS) *memfs.FS { return m.CrashClone(memfs.Crash{Mode: memfs.Kept}) }

// read and replace a whole file.
func fileBytes(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return b
}

func putFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	_ = fsys.Remove(name)
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
