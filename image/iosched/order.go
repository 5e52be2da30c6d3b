package iosched

import "cmp"

// tree keeps items in the order of their keys, and finds those whose ranges overlap
// another. Its nodes are part of the items, so it allocates nothing. It is a treap:
// a binary tree that random numbers keep from degenerating.
type tree[T any] struct {
	root *node[T]
	seed uint64
}

type node[T any] struct {
	left, right *node[T]
	key         key
	end, reach  int64 // where this range ends, and the furthest end below
	rank        uint64
	item        T
}

// key is a place: a file, an offset, and for equal places the number of the request.
type key struct {
	file   int
	offset int64
	seq    uint64
}

func (k key) compare(o key) int {
	if c := cmp.Compare(k.file, o.file); c != 0 {
		return c
	}
	if c := cmp.Compare(k.offset, o.offset); c != 0 {
		return c
	}
	return cmp.Compare(k.seq, o.seq)
}

func (n *node[T]) measure() {
	n.reach = n.end
	if n.left != nil {
		n.reach = max(n.reach, n.left.reach)
	}
	if n.right != nil {
		n.reach = max(n.reach, n.right.reach)
	}
}

// insert puts item at a key that no other item has.
func (t *tree[T]) insert(n *node[T], k key, end int64, item T) {
	t.seed += 0x9e3779b97f4a7c15
	x := (t.seed ^ t.seed>>30) * 0xbf58476d1ce4e5b9
	*n = node[T]{key: k, end: end, reach: end, rank: x ^ x>>31, item: item}
	at := &t.root
	for *at != nil && (*at).rank >= n.rank {
		(*at).reach = max((*at).reach, end)
		if k.compare((*at).key) < 0 {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	n.left, n.right = split(*at, k)
	n.measure()
	*at = n
}

// split parts a tree into the items before k and the others.
func split[T any](n *node[T], k key) (before, after *node[T]) {
	if n == nil {
		return nil, nil
	}
	if n.key.compare(k) < 0 {
		before, after = split(n.right, k)
		n.right = before
		n.measure()
		return n, after
	}
	before, after = split(n.left, k)
	n.left = after
	n.measure()
	return before, n
}

func join[T any](a, b *node[T]) *node[T] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.rank >= b.rank:
		a.right = join(a.right, b)
		a.measure()
		return a
	}
	b.left = join(a, b.left)
	b.measure()
	return b
}

// remove takes out the item at a key. It is in the tree.
func (t *tree[T]) remove(k key) { t.root = without(t.root, k) }

func without[T any](n *node[T], k key) *node[T] {
	switch c := k.compare(n.key); {
	case c < 0:
		n.left = without(n.left, k)
	case c > 0:
		n.right = without(n.right, k)
	default:
		return join(n.left, n.right)
	}
	n.measure()
	return n
}

// from returns the first item at k or behind it, or nil.
func (t *tree[T]) from(k key) (found *node[T]) {
	for n := t.root; n != nil; {
		if n.key.compare(k) >= 0 {
			found, n = n, n.left
		} else {
			n = n.right
		}
	}
	return found
}

// before returns the last item before k, or nil.
func (t *tree[T]) before(k key) (found *node[T]) {
	for n := t.root; n != nil; {
		if n.key.compare(k) < 0 {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// overlapping adds to found the items below n with a byte from begin to end.
func overlapping[T any](n *node[T], begin, end int64, found []T) []T {
	if n == nil || n.reach <= begin {
		return found
	}
	found = overlapping(n.left, begin, end, found)
	if n.key.offset < end {
		if n.end > begin {
			found = append(found, n.item)
		}
		found = overlapping(n.right, begin, end, found)
	}
	return found
}

// heap has the least element first. It tells each element where it is, so that one
// in the middle can be removed or moved.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(x T, i int) // may be nil
}

func (h *heap[T]) len() int { return len(h.items) }
func (h *heap[T]) first() T { return h.items[0] }

func (h *heap[T]) set(i int, x T) {
	h.items[i] = x
	if h.moved != nil {
		h.moved(x, i)
	}
}

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	h.up(len(h.items)-1, x)
}

func (h *heap[T]) pop() T {
	x := h.items[0]
	h.remove(0)
	return x
}

// remove takes out the element at i and says that it is at -1.
func (h *heap[T]) remove(i int) {
	var none T
	n := len(h.items) - 1
	gone, last := h.items[i], h.items[n]
	h.items[n] = none
	h.items = h.items[:n]
	if i < n {
		h.items[i] = last
		h.fix(i)
	}
	if h.moved != nil {
		h.moved(gone, -1)
	}
}

// fix moves the element at i to its place after its key has changed.
func (h *heap[T]) fix(i int) {
	x := h.items[i]
	if i > 0 && h.less(x, h.items[(i-1)/4]) {
		h.up(i, x)
		return
	}
	h.down(i, x)
}

func (h *heap[T]) up(i int, x T) {
	for i > 0 {
		parent := (i - 1) / 4
		if !h.less(x, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, x)
}

func (h *heap[T]) down(i int, x T) {
	n := len(h.items)
	for {
		least := 4*i + 1
		if least >= n {
			break
		}
		for c := least + 1; c < min(4*i+5, n); c++ {
			if h.less(h.items[c], h.items[least]) {
				least = c
			}
		}
		if !h.less(h.items[least], x) {
			break
		}
		h.set(i, h.items[least])
		i = least
	}
	h.set(i, x)
}
