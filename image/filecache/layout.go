package filecache

import "iter"

// A Layout divides a file among nodes. The owner of a byte follows from its offset alone:
// there is no directory of blocks.
type Layout struct {
	Size  int64 // bytes of the file, or the most that it may get
	Nodes int
	// Unit is what fragments are a multiple of, so that no record of that many bytes
	// lies on two nodes; 0 or 1: any place will do.
	Unit int64
	// Stripe deals the file out to the nodes, so many bytes at a time; 0 gives each
	// node one contiguous fragment.
	Stripe int64
}

// A Part is the part of a request that one node serves, or the bytes of a fragment.
type Part struct {
	Node int
	Off  int64 // in the file
	N    int64
}

// Fragment returns how many bytes lie together on a node: a stripe, or ceil(Size/Nodes)
// rounded up to Unit. The last ones may be shorter, or empty.
func (l Layout) Fragment() int64 {
	if l.Stripe > 0 {
		return l.Stripe
	}
	n := int64(l.Nodes)
	chunk := max((l.Size+n-1)/n, 1)
	if l.Unit > 1 {
		chunk = (chunk + l.Unit - 1) / l.Unit * l.Unit
	}
	return chunk
}

// Owner returns the node that has the byte at off.
func (l Layout) Owner(off int64) int { return int(off / l.Fragment() % int64(l.Nodes)) }

// Of returns where the fragment of a node begins in the file, and its bytes.
func (l Layout) Of(node int) Part {
	return Part{node, min(int64(node)*l.Fragment(), l.Size), l.bytes(node, l.Size)}
}

// bytes returns how many of the first length bytes of the file a node has.
func (l Layout) bytes(node int, length int64) int64 {
	chunk := l.Fragment()
	row := chunk * int64(l.Nodes)
	return length/row*chunk + min(max(length%row-int64(node)*chunk, 0), chunk)
}

// local returns where in the fragment of its owner the byte at off is.
func (l Layout) local(off int64) int64 {
	chunk := l.Fragment()
	return off/chunk/int64(l.Nodes)*chunk + off%chunk
}

// end returns where the file ends if the fragment of a node has n bytes and no other one has more.
func (l Layout) end(node int, n int64) int64 {
	if n == 0 {
		return 0
	}
	chunk, last := l.Fragment(), n-1
	return (last/chunk*int64(l.Nodes)+int64(node))*chunk + last%chunk + 1
}

// parts returns what a node has of the first length bytes of the file, in their order.
func (l Layout) parts(node int, length int64) iter.Seq[Part] {
	chunk := l.Fragment()
	return func(yield func(Part) bool) {
		for off := int64(node) * chunk; off < length; off += chunk * int64(l.Nodes) {
			if !yield(Part{node, off, min(chunk, length-off)}) {
				return
			}
		}
	}
}

// Split returns the parts of the n bytes at off, in their order.
func (l Layout) Split(off, n int64) []Part {
	var parts []Part
	chunk := l.Fragment()
	for end := off + n; off < end; {
		upTo := min((off/chunk+1)*chunk, end)
		parts = append(parts, Part{l.Owner(off), off, upTo - off})
		off = upTo
	}
	return parts
}
