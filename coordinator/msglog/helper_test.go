package msglog

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

func TestMain(m *testing.M) {
	testkit.Sample(30)
	goleak.VerifyTestMain(m)
}

var testID = ID{Job: "bt.S.4", Rank: 2, Digest: strings.Repeat("0123456789abcdef", 4)}

const testDir = "/log"

// frameOf is a frame that follows from a number: all kinds, payloads of all
// lengths from none to more than a page.
func frameOf(n int) channel.Frame {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	f := channel.Frame{Kind: channel.Received, Peer: n % 5}
	m := &f.Message
	m.Tag, m.Seq = int32(n*3), uint64(n)
	size := 0
	switch n % 7 {
	case 0:
		f.Kind, f.Number = channel.Determined, uint64(n*2)
	case 1:
		f.Kind, f.Peer, size, f.Message = channel.Cut, -1, 3, channel.Message{}
	case 2:
		size, m.Depends = 20, []uint64{uint64(n), 0, 1}
	case 3:
		m.Context, size = 1, 600
	default:
		size = rng.IntN(80)
	}
	if n%29 == 4 && f.Kind != channel.Determined {
		size = 5000
	}
	for range size {
		m.Data = append(m.Data, byte(rng.Uint32()))
	}
	return f
}

func sameFrame(a, b channel.Frame) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// first is the number of the oldest frame that is still there.
func first(l *Log) LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segs[0].first
}

// numbered is a frame and its number.
type numbered struct {
	lsn  LSN
	size int64
	channel.Frame
}

// readAll reads a log to its end.
func readAll(r *Reader, err error) ([]numbered, error) {
	if err != nil {
		return nil, err
	}
	var list []numbered
	for {
		h, err := r.next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, numbered{h.lsn, h.size(), h.Frame})
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
