package container

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// copied is a container of three extents, one of them zero, in memory.
func copied(t *testing.T) (*memfs.FS, Place, File) {
	t.Helper()
	m := memfs.New()
	if err := m.Mkdir("/0001"); err != nil {
		t.Fatal(err)
	}
	mem := vfs.Aligned(9 * zones.PageSize)
	for i := range mem[:5*zones.PageSize+100] {
		mem[i] = byte(i*7 + i>>8)
	}
	h := Header{Job: "j", Number: 1, Kind: KindRank}
	regions := []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: int64(len(mem)), Mem: mem}}
	info, err := Write(context.Background(), m, "/0001/a.img", h, regions, WriteOptions{ExtentBytes: 3 * zones.PageSize, Depth: 1, Codec: nil})
	if err != nil {
		t.Fatal(err)
	}
	return m, Place{FS: m, Dir: "/", Job: "j"}, File{Path: "0001/a.img", Kind: KindRank, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}
}

func contentsOf(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	b, err := durable.ReadFile(fsys, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCopy copies a container byte for byte, durably, at the pace that it is told.
func TestCopy(t *testing.T) {
	m, p, f := copied(t)
	to := memfs.New()
	var paced int64
	err := p.Copy(context.Background(), f, to, "/b.img", CopyOptions{Pace: func(_ context.Context, n int) error { paced += int64(n); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := to.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	after := to.CrashClone(memfs.Crash{Mode: memfs.Lost})
	if !bytes.Equal(contentsOf(t, after, "/b.img"), contentsOf(t, m, "/0001/a.img")) {
		t.Error("the copy differs")
	}
	var read int64
	if err := p.Same(context.Background(), f, func(n int64) { read += n }); err != nil || read != f.Bytes {
		t.Errorf("of the same file %d bytes were read, %v", read, err)
	}
	if paced != f.Bytes-BlockSize {
		t.Errorf("%d bytes were paced, of %d", paced, f.Bytes)
	}
}

// TestCopyFindsDamage flips each byte of a file that is copied: there is no copy, and the
// error is damage of the file.
func TestCopyFindsDamage(t *testing.T) {
	m, p, f := copied(t)
	good := contentsOf(t, m, "/0001/a.img")
	for at := 0; at < len(good); at += 97 {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		if err := durable.Replace(m, "/0001/a.img", bad); err != nil {
			t.Fatal(err)
		}
		to := memfs.New()
		err := p.Copy(context.Background(), f, to, "/b.img", CopyOptions{})
		if damage := (*durable.DamageError)(nil); !errors.As(err, &damage) || damage.File != "/0001/a.img" {
			t.Errorf("byte %d: %v", at, err)
		}
		if _, err := to.Stat("/b.img"); err == nil {
			t.Errorf("byte %d: there is a copy", at)
		}
		if err := p.Same(context.Background(), f, nil); err == nil {
			t.Errorf("byte %d: no damage was found", at)
		}
	}
}

// TestCopyFails fails each operation of the target: no file is left, or the same.
func TestCopyFails(t *testing.T) {
	m, p, f := copied(t)
	good := contentsOf(t, m, "/0001/a.img")
	count := memfs.WithFault(memfs.New(), memfs.Fault{})
	if err := p.Copy(context.Background(), f, count, "/b.img", CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= len(count.Ops()); at++ {
		to := memfs.New()
		err := p.Copy(context.Background(), f, memfs.WithFault(to, memfs.Fault{At: at, Err: syscall.ENOSPC, Short: true}), "/b.img", CopyOptions{})
		_, missing := to.Stat("/b.img")
		if err == nil && !bytes.Equal(contentsOf(t, to, "/b.img"), good) {
			t.Errorf("operation %d fails: another file", at)
		}
		if err != nil && missing == nil {
			t.Errorf("operation %d fails with %v: a file is left", at, err)
		}
		if err != nil && !errors.Is(err, durable.ErrStorageFull) {
			t.Errorf("operation %d: %v is not ErrStorageFull", at, err)
		}
	}
}

// TestCopySince copies what a base lacks: the copy refers to the base for the rest, and has the
// contents of the file. No copy is made of a damaged file, and a damaged base makes a whole one.
func TestCopySince(t *testing.T) {
	ctx := context.Background()
	m := memfs.New()
	for _, dir := range []string{"/0001", "/0002", "/to", "/to/0001", "/to/0002"} {
		if err := m.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	mem := vfs.Aligned(9 * zones.PageSize)
	rand.New(rand.NewPCG(1, 0)).Shuffle(len(mem), func(i, _ int) { mem[i] = byte(i*7 + i>>8) })
	write := func(number int) File {
		path := filepath.Join("/", FormatNumber(number), "a.img")
		info, err := Write(ctx, m, path, Header{Job: "j", Number: number, Kind: KindRank},
			[]zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: int64(len(mem)), Mem: mem}},
			WriteOptions{ExtentBytes: 3 * zones.PageSize, Depth: 1, History: NewHistory()})
		if err != nil {
			t.Fatal(err)
		}
		return File{Path: path[1:], Kind: KindRank, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}
	}
	near, store := Place{FS: m, Dir: "/", Job: "j"}, Place{FS: m, Dir: "/to", Job: "j"}
	first := write(1)
	if err := near.Copy(ctx, first, m, "/to/0001/a.img", CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	mem[4*zones.PageSize]++
	second := write(2)
	base := &Base{Place: store, File: first, Number: 1}
	got, err := near.CopySince(ctx, second, m, "/to/0002/a.img", base, CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if refs, err := store.References(got, true); err != nil || len(refs) != 1 || got.Bytes > second.Bytes-6*zones.PageSize {
		t.Errorf("the copy has %d of %d bytes, and refers to %q (%v)", got.Bytes, second.Bytes, refs, err)
	}
	in := []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: int64(len(mem)), Mem: vfs.Aligned(len(mem))}}
	if err := store.Load(ctx, got, 0, in, LoadOptions{}); err != nil || !bytes.Equal(in[0].Mem, mem) {
		t.Errorf("the copy loads other bytes (%v)", err)
	}
	good, had := contentsOf(t, m, "/0002/a.img"), contentsOf(t, m, "/to/0001/a.img")
	again := func(path string, b []byte) (File, error) {
		if err := errors.Join(m.Remove("/to/0002/a.img"), durable.Replace(m, path, b)); err != nil {
			t.Fatal(err)
		}
		return near.CopySince(ctx, second, m, "/to/0002/a.img", base, CopyOptions{})
	}
	if whole, err := again("/to/0001/a.img", had[:len(had)-1]); err != nil || whole.Bytes != second.Bytes {
		t.Errorf("after a damaged base the copy has %d bytes, want %d (%v)", whole.Bytes, second.Bytes, err)
	}
	if err := durable.Replace(m, "/to/0001/a.img", had); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[BlockSize+10] ^= 1 // of the extent that changed, or of one that the base has
	bad[BlockSize+4*zones.PageSize] ^= 1
	_, err = again("/0002/a.img", bad)
	if damage := (*durable.DamageError)(nil); !errors.As(err, &damage) || damage.File != "/0002/a.img" {
		t.Errorf("of a damaged file: %v", err)
	}
	if _, err := m.Stat("/to/0002/a.img"); err == nil {
		t.Error("there is a copy of a damaged file")
	}
}
