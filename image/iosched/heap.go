package iosched

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
