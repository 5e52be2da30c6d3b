package sealedfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

const root = "/s3:/bucket"

func plain(path string) bool { return path == "lock" }

// over returns a sealed file system that does nothing by itself.
func over(under vfs.FS, key *Key) *FS {
	f := New(under, root, key, plain)
	f.each = nil
	return f
}

// eachUnder runs a test over a directory and an object storage.
func eachUnder(t *testing.T, test func(t *testing.T, under vfs.FS)) {
	t.Run("memory", func(t *testing.T) { test(t, inMemory(t)) })
	t.Run("objects", func(t *testing.T) { test(t, inObjects()) })
}

func inMemory(t testing.TB) *memfs.FS {
	m := memfs.New()
	if err := durable.MkdirAll(m, root); err != nil {
		t.Fatal(err)
	}
	return m
}

func inObjects() *objectfs.FS {
	o := objectfs.New(objecttest.NewMemory(time.Now), root)
	o.Alone(128 << 10)
	return o
}

func TestConform(t *testing.T) {
	eachUnder(t, func(t *testing.T, under vfs.FS) { testkit.Conform(t, over(under, NewKey()), root) })
}

// TestSizes: the length of a sealed file tells the length of its plain text, and is refused if no
// sealed file has it.
func TestSizes(t *testing.T) {
	for _, size := range []int64{0, 1, BlockSize - 1, BlockSize, BlockSize + 1, 7 * BlockSize, 1<<40 + 3} {
		if got, ok := plainSize(sealedSize(size)); got != size || !ok {
			t.Errorf("%d: %d, %v", size, got, ok)
		}
	}
	for _, sealed := range []int64{0, headerSize, sealedSize(0) - 1, sealedSize(0) + 1, sealedSize(BlockSize) + added} {
		if got, ok := plainSize(sealed); ok {
			t.Errorf("a file of %d sealed bytes has %d", sealed, got)
		}
	}
}

// content returns bytes that no two blocks share.
func content(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7>>3 ^ i>>16*31)
	}
	return b
}

func write(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	if err == nil {
		err = durable.WriteAt(f, name, b, 0)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(fsys vfs.FS, name string) ([]byte, error) { return durable.ReadFile(fsys, name, 1<<30) }

// TestOutOfOrder writes a file out of order by several goroutines, with a hole, and reads pieces.
func TestOutOfOrder(t *testing.T) {
	eachUnder(t, func(t *testing.T, under vfs.FS) {
		f := over(under, NewKey())
		const size, piece = 9*BlockSize + 12345, 70_001
		const hole, holeEnd = 2*BlockSize + 100, 5 * BlockSize
		want := content(size)
		clear(want[hole:holeEnd])
		w, err := f.Create(root + "/a.img")
		if err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		for _, n := range rand.Perm(size/piece + 1) {
			at := n * piece
			g.Go(func() error {
				end := min(at+piece, size)
				for _, s := range [][2]int{{at, min(end, max(at, hole))}, {min(end, max(at, holeEnd)), end}} {
					if s[0] < s[1] {
						if _, err := w.WriteAt(want[s[0]:s[1]], int64(s[0])); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		if err := errors.Join(g.Wait(), w.Sync(), w.Close()); err != nil {
			t.Fatal(err)
		}
		fi, err := f.Stat(root + "/a.img")
		if err != nil || fi.Size() != size {
			t.Fatalf("%v, %v", fi, err)
		}
		r, err := f.Open(root + "/a.img")
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			at := rand.IntN(size)
			b := make([]byte, rand.IntN(3*BlockSize))
			n, err := r.ReadAt(b, int64(at))
			if !bytes.Equal(b[:n], want[at:min(size, at+len(b))]) || (err == io.EOF) != (at+len(b) > size) || err != nil && err != io.EOF {
				t.Fatalf("%d bytes at %d: %d bytes, %v", len(b), at, n, err)
			}
		}
		r.Close()
		if bytes.Contains(raw(t, under, root+"/a.img"), want[:32]) {
			t.Error("the plain text is in the sealed file")
		}
	})
}

func raw(t testing.TB, under vfs.FS, name string) []byte {
	t.Helper()
	b, err := read(under, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put replaces the bytes of a sealed file, as somebody without the key could.
func put(t testing.TB, under vfs.FS, name string, b []byte) {
	t.Helper()
	if err := durable.Remove(under, name); err != nil {
		t.Fatal(err)
	}
	write(t, under, name, b)
}

// noticed checks that reading a file fails as damaged, and names it. Where a
// checksum tells, it is found without the key, too.
func noticed(t *testing.T, f *FS, name, what string, withoutKey bool) {
	t.Helper()
	_, err := read(f, name)
	var d *durable.DamageError
	if !errors.As(err, &d) || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: %v, want damage of %s", what, err, name)
	}
	b := raw(t, f.Under(), name)
	damage, err := Check(bytes.NewReader(b), name, int64(len(b)))
	if err != nil || withoutKey != (len(damage) > 0) {
		t.Errorf("%s: without the key %v, %v", what, damage, err)
	}
}

// TestChanged: whatever is changed in a sealed file is noticed.
func TestChanged(t *testing.T) {
	under, key := inMemory(t), NewKey()
	f := over(under, key)
	a, b := root+"/a", root+"/b"
	write(t, f, a, content(2*BlockSize+100))
	write(t, f, b, bytes.Repeat([]byte("other"), BlockSize/2))
	was, other := raw(t, under, a), raw(t, under, b)
	if damage, err := Check(bytes.NewReader(was), a, int64(len(was))); err != nil || len(damage) > 0 {
		t.Fatal(damage, err)
	}

	// Each bit of header and end, and some of the blocks.
	flips := 8 * (headerSize + endSize + 40)
	if testkit.Nightly() {
		flips = 20_000
	}
	for i := range flips {
		at := rand.IntN(len(was))
		switch {
		case i < 8*headerSize:
			at = i / 8
		case i < 8*(headerSize+endSize):
			at = len(was) - 1 - (i/8 - headerSize)
		}
		now := bytes.Clone(was)
		now[at] ^= 1 << (i % 8)
		put(t, under, a, now)
		noticed(t, f, a, fmt.Sprintf("bit %d of byte %d", i%8, at), true)
	}

	block := func(n int64) []byte { return was[offsetOf(n):min(offsetOf(n+1), int64(len(was)-endSize))] }
	head, tail := was[:headerSize], was[len(was)-endSize:]
	for what, now := range map[string][]byte{
		"blocks swapped":       slicesOf(head, block(1), block(0), block(2), tail),
		"block repeated":       slicesOf(head, block(0), block(0), block(2), tail),
		"block left out":       slicesOf(head, block(0), block(2), tail),
		"end left out":         was[:len(was)-endSize],
		"cut within a block":   was[:offsetOf(1)+1000],
		"cut between blocks":   was[:offsetOf(1)],
		"cut, with the end":    slicesOf(head, block(0), tail),
		"bytes behind":         slicesOf(was, []byte{0}),
		"empty":                nil,
		"block of another":     slicesOf(head, other[offsetOf(0):offsetOf(1)], block(1), block(2), tail),
		"header of another":    slicesOf(other[:headerSize], was[headerSize:]),
		"plain text":           content(len(was)),
		"end of another":       slicesOf(was[:len(was)-endSize], other[len(other)-endSize:]),
		"only header and end":  slicesOf(head, tail),
		"the other, of a name": other,
	} {
		put(t, under, a, now)
		// A block with its checksum and its number is sound without the key.
		foreign := what == "block of another" || what == "end of another" || what == "header of another" || what == "the other, of a name"
		noticed(t, f, a, what, !foreign)
	}

	// Another store's file of the same name.
	put(t, under, a, nil)
	if err := under.Remove(a); err != nil {
		t.Fatal(err)
	}
	write(t, over(under, NewKey()), a, []byte("forged"))
	noticed(t, f, a, "sealed by another key", false)
}

func slicesOf(list ...[]byte) []byte { return bytes.Join(list, nil) }

// TestChange changes a file again and again: each time it has another id, and no block of before.
func TestChange(t *testing.T) {
	eachUnder(t, func(t *testing.T, under vfs.FS) {
		f := over(under, NewKey())
		name := root + "/history.jsonl"
		j, err := durable.OpenJournal(f, name)
		if err != nil {
			t.Fatal(err)
		}
		want, ids := "", map[string]bool{}
		for i := range 5 {
			line := strings.Repeat(fmt.Sprint("line ", i), 9000)
			want += line + "\n"
			if err := j.Add([]byte(line)); err != nil {
				t.Fatal(err)
			}
			if i == 2 { // it goes on in another process
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				if j, err = durable.OpenJournal(f, name); err != nil {
					t.Fatal(err)
				}
				ids[string(raw(t, under, name)[:headerSize])] = true
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := read(f, name); err != nil || string(b) != want {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		ids[string(raw(t, under, name)[:headerSize])] = true
		if len(ids) != 2 {
			t.Error("the id has stayed")
		}
		list, err := f.ReadDir(root)
		if err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// TestLines: the lines of a journal are written without a sync or a close.
func TestLines(t *testing.T) {
	f := over(inMemory(t), NewKey())
	var tick func()
	f.each = func(_ time.Duration, do func()) func() { tick = do; return func() {} }
	name := root + "/history.jsonl"
	j, err := durable.OpenJournal(f, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"one", "two"} {
		if err := j.Add([]byte(line)); err != nil {
			t.Fatal(err)
		}
		tick()
		if b, err := read(f, name); err != nil || !strings.HasSuffix(string(b), line+"\n") {
			t.Errorf("%q, %v", b, err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCrash replaces and changes a file, with a sync and without one, and loses power after each
// operation: the file has the contents that are durable, or later ones.
func TestCrash(t *testing.T) {
	m := inMemory(t)
	key := NewKey()
	name := root + "/job"
	write(t, over(m, key), name, []byte("version 0"))
	if err := m.SyncDir(root); err != nil {
		t.Fatal(err)
	}
	may := []string{"version 0"}
	states := 0
	m.AfterOp = func(op, _ string) {
		for seed := range uint64(4) {
			states++
			after := m.CrashClone(memfs.Crash{Seed: seed})
			b, err := read(over(after, key), name)
			if err != nil || !slices.Contains(may, string(b)) {
				t.Errorf("after %s: %q, %v", op, b, err)
			}
		}
	}
	f := over(m, key)
	for i := range 6 {
		now := fmt.Sprint("version ", i+1)
		may = append(may, now)
		if i%3 == 0 {
			if err := durable.Replace(f, name, []byte(now)); err != nil {
				t.Fatal(err)
			}
		} else {
			w, err := f.OpenWrite(name)
			if err == nil {
				err = durable.WriteAt(w, name, []byte(now), 0)
			}
			if err == nil {
				if i%3 == 1 {
					err = w.Sync()
				}
				err = errors.Join(err, w.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if i%3 < 2 {
			may = []string{now}
		}
	}
	if states < 50 {
		t.Errorf("only %d states", states)
	}
}

// TestFaults fails each operation beneath: an error comes up, and the file keeps its contents or
// has the new ones.
func TestFaults(t *testing.T) {
	work := func(f *FS) error {
		w, err := f.OpenWrite(root + "/job")
		if err != nil {
			return err
		}
		err = durable.WriteAt(w, "job", content(3*BlockSize), 0)
		if err == nil {
			err = w.Sync()
		}
		return errors.Join(err, w.Close())
	}
	for at := 1; ; at++ {
		m, key := inMemory(t), NewKey()
		write(t, over(m, key), root+"/job", []byte("old"))
		faulty := memfs.WithFault(m, memfs.Fault{At: at, Err: syscall.EIO})
		err := work(over(faulty, key))
		if len(faulty.Ops()) < at {
			if at < 8 {
				t.Errorf("only %d operations", at)
			}
			return
		}
		b, rerr := read(over(m, key), root+"/job")
		isNew := bytes.Equal(b, content(3*BlockSize))
		if rerr != nil || !isNew && (string(b) != "old" || err == nil) {
			t.Errorf("operation %d failed: %v; then %d bytes, %v", at, err, len(b), rerr)
		}
	}
}

// TestTwice: bytes that were sealed are not written again before the file is complete.
func TestTwice(t *testing.T) {
	f := over(inMemory(t), NewKey())
	w, err := f.Create(root + "/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(content(2*BlockSize), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte("x"), 5); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
	if err := w.Close(); err == nil {
		t.Error("a file that lacks bytes was completed")
	}
	if _, err := read(f, root+"/a"); err == nil {
		t.Error("it is read")
	}
}

// TestOutside: what is not below the root, and what is plain, is as it is beneath.
func TestOutside(t *testing.T) {
	m := inMemory(t)
	f := over(m, NewKey())
	for _, name := range []string{"/a", root + "/lock", path.Dir(root) + "/bucket2"} {
		write(t, f, name, []byte("plain"))
		if string(raw(t, m, name)) != "plain" {
			t.Errorf("%s is sealed", name)
		}
	}
	if err := f.Rename("/a", root+"/a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("renamed into the store: %v", err)
	}
}

// FuzzOpen reads and checks any bytes as a sealed file: it ends, without more memory than they have.
func FuzzOpen(f *testing.F) {
	key := NewKey()
	m := inMemory(f)
	for _, size := range []int{0, 100, BlockSize + 5} {
		write(f, over(m, key), root+"/a", content(size))
		f.Add(raw(f, m, root+"/a"))
		if err := m.Remove(root + "/a"); err != nil {
			f.Fatal(err)
		}
	}
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := inMemory(t)
		write(t, m, root+"/a", b)
		if got, err := read(over(m, key), root+"/a"); err == nil {
			if want := content(len(got)); !bytes.Equal(got, want) {
				t.Errorf("a forged file was read: %d bytes", len(got))
			}
		} else if !errors.As(err, new(*durable.DamageError)) && !errors.Is(err, durable.ErrNewerVersion) {
			t.Error(err)
		}
		if _, err := Check(bytes.NewReader(b), "a", int64(len(b))); err != nil {
			t.Error(err)
		}
	})
}
