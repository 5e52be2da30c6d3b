package filecache

// A Layout divides a file among nodes: each has one contiguous fragment, and the
// owner of a byte follows from its offset alone, so that nobody keeps a directory.
type Layout struct {
	Size  int64 // bytes of the file
	Nodes int
	// Unit is what fragments are a multiple of, so that no record of that many bytes
	// lies on two nodes; 0 or 1 for none.
	Unit int64
}

// A Part is the part of a request that one node serves.
type Part struct {
	Node int
	Off  int64 // in the file
	N    int64
}

// Fragment returns the bytes of a fragment: ceil(Size/Nodes), rounded up to Unit. The
// last ones may be shorter, or empty.
func (l Layout) Fragment() int64 {
	n := int64(l.Nodes)
	chunk := max((l.Size+n-1)/n, 1)
	if l.Unit > 1 {
		chunk = (chunk + l.Unit - 1) / l.Unit * l.Unit
	}
	return chunk
}

// Owner returns the node that has the byte at off.
func (l Layout) Owner(off int64) int { return int(off / l.Fragment()) }

// Of returns the fragment of a node.
func (l Layout) Of(node int) Part {
	chunk := l.Fragment()
	from := min(int64(node)*chunk, l.Size)
	return Part{node, from, min(from+chunk, l.Size) - from}
}

// Split returns the parts of the n bytes at off, in their order.
func (l Layout) Split(off, n int64) []Part {
	var parts []Part
	chunk := l.Fragment()
	for end := off + n; off < end; {
		node := off / chunk
		upTo := min((node+1)*chunk, end)
		parts = append(parts, Part{int(node), off, upTo - off})
		off = upTo
	}
	return parts
}
