package darshan

import (
	"io"
	"math"

	"ckpt/iotrace"
)

const componentBytes = 72

// A component is a part of a file's layout.
type component struct{ size, count, start, end int64 }

// readLustre reads how files are striped. Ranks that use the same file have a record
// each; one is enough.
func (l *reading) readLustre(g *region, version uint32) error {
	seen := make(map[int32]bool)
	for {
		var head [8 * 7]byte
		fixed := head[:]
		if version > 1 {
			fixed = head[:8*4]
		}
		if err := g.fill(fixed); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		var n [7]int64
		for i := range len(fixed) / 8 {
			n[i] = int64(l.head.order.Uint64(fixed[8*i:]))
		}
		parts := []component{{n[5], n[6], 0, iotrace.None}}
		targets := n[6]
		if version > 1 {
			var err error
			if parts, err = l.components(g, n[2]); err != nil {
				return err
			}
			if targets = n[3]; n[2] < 1 { // Darshan writes none then
				targets = 0
			}
		}
		osts, err := l.targets(g, targets)
		if err != nil {
			return err
		}
		if file := l.file(uint64(n[0])); !seen[file] {
			seen[file] = true
			l.stripes(file, parts, osts)
		}
	}
}

// components reads so many components.
func (l *reading) components(g *region, n int64) (parts []component, err error) {
	if n < 0 {
		return nil, damaged(g.at(), "a record of LUSTRE has %d components", n)
	}
	var b [componentBytes]byte
	for ; n > 0; n-- {
		if err := g.rest(b[:]); err != nil {
			return nil, err
		}
		get := func(i int) int64 { return int64(l.head.order.Uint64(b[8*i:])) }
		parts = append(parts, component{get(0), get(1), get(4), get(5)})
	}
	return parts, nil
}

// targets reads so many targets.
func (l *reading) targets(g *region, n int64) (osts []int64, err error) {
	if n < 0 {
		return nil, damaged(g.at(), "a record of LUSTRE has %d stripes", n)
	}
	var b [8]byte
	for ; n > 0; n-- {
		if err := g.rest(b[:]); err != nil {
			return nil, err
		}
		osts = append(osts, int64(l.head.order.Uint64(b[:])))
	}
	return osts, nil
}

// stripes keeps the layout of a file. A component whose size is not positive, or that
// has no stripe, is not in use.
func (l *reading) stripes(file int32, parts []component, osts []int64) {
	for _, p := range parts {
		if p.size == -1 { // nor are those behind it
			return
		}
		n := min(max(p.count, 0), int64(len(osts)), math.MaxInt32)
		s := iotrace.Striping{File: file, Size: p.size, Count: int32(n), OSTs: osts[:n:n], Start: p.start, End: p.end}
		osts = osts[n:]
		if p.size > 0 && n > 0 && p.start >= 0 && (p.end == iotrace.None || p.end > p.start) {
			l.t.Striping = append(l.t.Striping, s)
		}
	}
}
