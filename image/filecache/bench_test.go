package filecache

import (
	"fmt"
	"path/filepath"
	"testing"

	"ckpt/internal/vfs"
)

// BenchmarkFragment compares fragments in mapped files with those in files:
//
//	go test -run '^$' -bench Fragment ./image/filecache
//
// Set TMPDIR to the file system in question.
func BenchmarkFragment(b *testing.B) {
	const size = 16 << 20
	for _, mapped := range []bool{true, false} {
		for _, n := range []int{64, 512, 64 << 10} {
			open := func(b *testing.B) fragment {
				dir := b.TempDir()
				f := must(openFragment(Node{vfs.OS{}, dir}, dir, size, mapped, true))(b)
				b.Cleanup(func() { check(b, f.close()) })
				check(b, f.writeAt(make([]byte, size), 0))
				check(b, f.persist(0, size))
				b.SetBytes(int64(n))
				b.ResetTimer()
				return f
			}
			p := make([]byte, n)
			b.Run(fmt.Sprintf("mapped=%v/read=%d", mapped, n), func(b *testing.B) {
				f := open(b)
				for i := range b.N {
					check(b, f.readAt(p, int64(i*7919)%(size-int64(n))))
				}
			})
			b.Run(fmt.Sprintf("mapped=%v/write=%d", mapped, n), func(b *testing.B) {
				f := open(b)
				for i := range b.N {
					off := int64(i*7919) % (size - int64(n))
					check(b, f.writeAt(p, off))
					check(b, f.persist(off, int64(n)))
				}
			})
		}
	}
}

// BenchmarkWrite writes small blocks under each level, on real directories.
func BenchmarkWrite(b *testing.B) {
	for _, l := range []Levels{{Volatile: true}, {}, {Records: true}, {Replicas: 1}, {Replicas: 2}, {Records: true, Replicas: 1, Versions: true}} {
		b.Run(fmt.Sprintf("records=%v/replicas=%d/volatile=%v", l.Records, l.Replicas, l.Volatile), func(b *testing.B) {
			dir := b.TempDir()
			c := &Cache{Store: Store{FS: vfs.OS{}, Dir: filepath.Join(dir, "store")}}
			for i := range 4 {
				c.Nodes = append(c.Nodes, Node{vfs.OS{}, filepath.Join(dir, fmt.Sprint(i))})
			}
			const size = 16 << 20
			l.JournalBytes = 1 << 40
			f := must(c.Open(background, "x", Options{Flags: Create | DeleteOnClose, Size: size, Levels: l, Processes: []int{0}}))(b)
			p := make([]byte, 512)
			b.SetBytes(512)
			b.ResetTimer()
			for i := range b.N {
				must(f.Process(0).WriteAt(p, int64(i*7919)%(size-512)))(b)
			}
			b.StopTimer()
			check(b, f.Close(background))
		})
	}
}
