package turns

import (
	"fmt"
	"testing"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// BenchmarkAwait is what each part of a burst costs while the turn is granted.
func BenchmarkAwait(b *testing.B) {
	dir := b.TempDir()
	serve(b, dir, ServeOptions{})
	c := NewClient(dir, Who{App: "a"}, ClientOptions{})
	defer c.Close()
	turn := c.Begin(Burst{Bytes: -1})
	b.Run("await", func(b *testing.B) {
		for b.Loop() {
			_ = turn.Await(b.Context(), part)
		}
		turn.Rest()
	})
	b.Run("enter+leave", func(b *testing.B) {
		for b.Loop() {
			_ = turn.Enter(b.Context())
			turn.Leave(part)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = turn.Enter(b.Context())
				turn.Leave(part)
			}
		})
	})
	for name, fsys := range map[string]vfs.FS{"plain": memfs.New(), "turn": turn.FS(memfs.New())} {
		b.Run("write 64 KiB/"+name, func(b *testing.B) {
			f, err := fsys.Create("/f")
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, Threshold)
			b.SetBytes(Threshold)
			for b.Loop() {
				if _, err := f.WriteAt(buf, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	if r := turn.End(); r.Passed != "" {
		b.Error(r.Passed)
	}
}

// BenchmarkBurst is a whole burst of one job that is alone: from Begin through the first
// byte to End.
func BenchmarkBurst(b *testing.B) {
	for _, served := range []bool{true, false} {
		b.Run(fmt.Sprintf("served=%v", served), func(b *testing.B) {
			dir := b.TempDir()
			if served {
				serve(b, dir, ServeOptions{})
			}
			c := NewClient(dir, Who{App: "a"}, ClientOptions{})
			defer c.Close()
			for b.Loop() {
				turn := c.Begin(Burst{Bytes: part})
				_ = turn.Await(b.Context(), part)
				if r := turn.End(); (r.Passed == "") != served {
					b.Error(r.Passed)
				}
			}
		})
	}
}
