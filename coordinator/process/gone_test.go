package process

import (
	"context"
	"testing"
)

// TestReturnedPages hands whole page tables of memory back to the kernel, which leaves no
// entry that says so.
func TestReturnedPages(t *testing.T) {
	for _, huge := range []int{0, 1} {
		pr := startProgram(t, plainProgram(t))
		p := pr.connect()
		pr.do("map u %d %d", 8<<20, huge)
		pr.do("fill u 3")
		take := func() Capture {
			t.Helper()
			pr.tell("boundary x 1")
			pr.call(p, Boundary)
			c, err := p.Capture(context.Background())
			pr.must(err)
			pr.must(p.Answer(Answer{}))
			pr.expect("0")
			p.Committed(1)
			return c
		}
		take()
		pr.do("write u 0 1 9")
		if c := take(); !c.Clean("u", 4<<20, 1<<20) && !p.memory.tracks.refused {
			t.Error("pages that nobody wrote are not clean")
		}
		pr.do("dontneed u %d %d", 2<<20, 4<<20)
		c := take()
		for _, b := range c.Regions[0].Mem[2<<20 : 6<<20] {
			if b != 0 {
				t.Fatalf("huge %d: memory that was handed back is captured as it was", huge)
			}
		}
		if c.Clean("u", 4<<20, 4096) {
			t.Errorf("huge %d: memory that was handed back is clean", huge)
		}
	}
}
