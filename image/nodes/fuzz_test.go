package nodes

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// FuzzParity opens arbitrary bytes as a parity file, with checksums made right, so that
// the fields behind them are reached. Whatever is accepted has one encoding.
func FuzzParity(f *testing.F) {
	for _, g := range []*group{newGroup(3, 1, page, []int{5 * page, 4*page + 1, -1}), newGroup(5, 2, page, []int{1, 0, 3, 70_000, 12})} {
		if err := g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 3000, true), 1<<20); err != nil {
			f.Fatal(err)
		}
		for i := range g.nodes {
			f.Add(contents(f, g.nodes[i], "p"), true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, right bool) {
		if right && len(b) >= page {
			if n := int(binary.LittleEndian.Uint32(b[12:])); n >= page && n <= len(b) {
				binary.LittleEndian.PutUint32(b[n-4:], durable.Sum(b[:n-4]))
			}
		}
		fsys := memfs.New()
		file, err := fsys.Create("p")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		p, err := OpenParity(fsys, "p")
		if err != nil {
			return
		}
		defer p.Close()
		if !bytes.Equal(p.header.encode(), b[:headerLen(p.header.layout.n)]) {
			t.Error("the header has another encoding")
		}
		_ = p.Check(t.Context()) // it may be damaged, but does not panic
	})
}
