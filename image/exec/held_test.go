package exec

// Held returns how many buffers there are, and their size.
func (b *Buffers) Held() (n int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, mem := range b.free {
		bytes += int64(cap(mem))
	}
	return len(b.free), bytes
}
