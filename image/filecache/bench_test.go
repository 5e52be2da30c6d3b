package filecache

import (
	"fmt"
	"path/filepath"
	"testing"

	"ckpt/internal/vfs"
)

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
			f := must(c.Open(background, "x", Options{Create: true, Size: size, Levels: l, Processes: []int{0}}))(b)
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
