package container

import (
	"context"
	"path/filepath"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// BenchmarkCopy copies a container of 64 MiB, and reads it only.
func BenchmarkCopy(b *testing.B) {
	dir := b.TempDir()
	fsys := vfs.OS{}
	if err := fsys.Mkdir(filepath.Join(dir, "0001")); err != nil {
		b.Fatal(err)
	}
	mem := vfs.Aligned(64 << 20)
	for i := range mem {
		mem[i] = byte(i * i >> 7)
	}
	path := filepath.Join(dir, "0001", "a.img")
	regions := []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: int64(len(mem)), Mem: mem}}
	info, err := Write(context.Background(), fsys, path, Header{Job: "j", Number: 1, Kind: KindRank}, regions, WriteOptions{})
	if err != nil {
		b.Fatal(err)
	}
	p := Place{FS: fsys, Dir: dir, Job: "j"}
	f := File{Path: "0001/a.img", Kind: KindRank, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(f.Bytes)
		for b.Loop() {
			to := filepath.Join(dir, "b.img")
			if err := p.Copy(context.Background(), f, fsys, to, CopyOptions{}); err != nil {
				b.Fatal(err)
			}
			if err := durable.Remove(fsys, to); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.SetBytes(f.Bytes)
		for b.Loop() {
			to := filepath.Join(dir, "c.img")
			if _, err := Write(context.Background(), fsys, to, Header{Job: "j", Number: 1, Kind: KindRank}, regions, WriteOptions{}); err != nil {
				b.Fatal(err)
			}
			if err := durable.Remove(fsys, to); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("same", func(b *testing.B) {
		b.SetBytes(f.Bytes)
		for b.Loop() {
			if err := p.Same(context.Background(), f, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
