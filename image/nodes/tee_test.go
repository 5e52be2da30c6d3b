package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

func random(seed uint64, n int) []byte {
	b := vfs.Aligned(n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

// writeContainer writes a container file with regions of random bytes and of zeros.
func writeContainer(fsys vfs.FS, path string, seed uint64, bytes int) error {
	size := zones.PageRound(int64(bytes))
	mem := random(seed, int(size))
	clear(mem[len(mem)/3 : len(mem)/2])
	_, err := container.Write(context.Background(), fsys, path, container.Header{Job: "j", Number: 1, Kind: container.KindRank},
		[]zones.Region{{Name: "a", Zone: zones.Data, Elem: zones.Bytes, Size: size, Mem: mem}}, container.WriteOptions{ExtentBytes: 64 << 10})
	return err
}

func contents(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// noDirect is a file system whose direct files cannot be written, as on some network
// file systems.
type noDirect struct{ vfs.FS }

func (n noDirect) CreateDirect(name string) (vfs.File, error) {
	f, err := n.Create(name)
	return brokenDirect{vfs.Only(f)}, err
}

type brokenDirect struct{ vfs.Plain }

func (brokenDirect) WriteAt([]byte, int64) (int, error) { return 0, syscall.EINVAL }

// TestCopy makes copies that are equal to the file and durable, while it is written.
func TestCopy(t *testing.T) {
	for name, fsys := range map[string]func() vfs.FS{
		"cached": func() vfs.FS { return memfs.New() },
		"direct": func() vfs.FS { return noDirect{memfs.New()} },
	} {
		local, one := fsys(), fsys()
		two := memfs.New()
		tee := Tee(local, "a", Copy(one, "b"), Copy(two, "c"))
		if err := writeContainer(tee, "a", 1, 5<<20); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := tee.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := contents(t, local, "a")
		if !bytes.Equal(contents(t, one, "b"), want) || !bytes.Equal(contents(t, two.CrashClone(memfs.Crash{Seed: 1}), "c"), want) {
			t.Errorf("%s: a copy differs", name)
		}
	}
}

// TestCopyFaults fails each operation of the file's own file system and of the
// partner's: there is an error, or the copy is equal; after an error nothing is left.
func TestCopyFaults(t *testing.T) {
	count := func(fault [2]memfs.Fault) (ops [2]int, err error) {
		at := [2]*memfs.FS{memfs.New(), memfs.New()}
		faulty := [2]*memfs.FaultFS{memfs.WithFault(at[0], fault[0]), memfs.WithFault(at[1], fault[1])}
		tee := Tee(faulty[0], "a", Copy(faulty[1], "b"))
		if err = writeContainer(tee, "a", 1, 1<<20); err == nil {
			err = tee.Wait(t.Context())
		} else {
			tee.Abort()
			if tee.Wait(t.Context()) == nil {
				t.Errorf("%+v: the file failed with %v, the copy did not", fault, err)
			}
		}
		if err == nil && !bytes.Equal(contents(t, at[0], "a"), contents(t, at[1], "b")) {
			t.Errorf("%+v: the copy differs", fault)
		}
		if _, serr := at[1].Stat("b"); err != nil && !errors.Is(serr, fs.ErrNotExist) {
			t.Errorf("%+v: after %v, a copy is left", fault, err)
		}
		return [2]int{len(faulty[0].Ops()), len(faulty[1].Ops())}, err
	}
	all, err := count([2]memfs.Fault{})
	if err != nil {
		t.Fatal(err)
	}
	for side, n := range all {
		for at := 1; at <= n; at++ {
			for _, f := range []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Short: true}, {Err: syscall.EINVAL}} {
				f.At = at
				var fault [2]memfs.Fault
				fault[side] = f
				if _, err := count(fault); err == nil && f.Err != nil && f.Err != syscall.EINVAL {
					t.Errorf("side %d, %+v: no error", side, f)
				}
			}
		}
	}
}

// TestTeeRepeats accepts a write that is repeated after an error once the sinks have
// its bytes, but no other bytes there.
func TestTeeRepeats(t *testing.T) {
	local := memfs.WithFault(memfs.New(), memfs.Fault{At: 3, Err: syscall.EINVAL})
	var sink counter
	tee := Tee(local, "a", &sink)
	f, err := tee.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("0123"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("4567"), 4); err == nil {
		t.Fatal("the write did not fail")
	}
	if _, err := f.WriteAt([]byte("4xx7"), 4); err == nil {
		t.Fatal("other bytes were accepted")
	}
	if _, err := f.WriteAt([]byte("4567"), 4); err != nil || sink.bytes != 8 {
		t.Fatalf("the sink took %d bytes, want 8; %v", sink.bytes, err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := tee.Wait(t.Context()); err != nil || sink.size != 8 {
		t.Errorf("the sink finished with %d bytes: %v", sink.size, err)
	}
}

type counter struct {
	bytes   int
	size    int64
	aborted bool
}

func (c *counter) WriteAt(p []byte, _ int64) (int, error) { c.bytes += len(p); return len(p), nil }
func (c *counter) Finish(size int64) error                { c.size = size; return nil }
func (c *counter) Abort()                                 { c.aborted = true }

// TestTeeAborts aborts the sinks when the file will not become complete.
func TestTeeAborts(t *testing.T) {
	for i, end := range []func(*Teed, vfs.File){
		func(_ *Teed, f vfs.File) { f.Close() },
		func(t *Teed, f vfs.File) { _ = t.Remove("a") },
		func(t *Teed, f vfs.File) { t.Abort() },
		func(t *Teed, f vfs.File) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = t.Wait(ctx)
		},
	} {
		var sink counter
		tee := Tee(memfs.New(), "a", &sink)
		f, err := tee.Create("a")
		if err != nil {
			t.Fatal(err)
		}
		end(tee, f)
		if err := tee.Wait(t.Context()); err == nil || !sink.aborted {
			t.Error(fmt.Sprint(i), "was not aborted:", err)
		}
	}
}
