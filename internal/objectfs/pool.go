package objectfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// openParts is how many parts a process has beside those that are under way, as long as writers
// can wait for one of these: a writer that fills a part, and one that has gone on to the next.
const openParts = 2

// pool is the memory of the parts of a file system. It lies beside the heap: there the collector
// would let as much garbage grow as there are parts.
type pool struct {
	size int64
	most int // buffers in use, as long as some are under way

	mu    sync.Mutex
	turn  *sync.Cond // fewer are in use, or none is under way
	free  [][]byte
	used  int
	going int // of those in use, how many are on their way to the storage
}

func newPool(size int64, connections int) *pool {
	p := &pool{size: size, most: connections + openParts}
	p.turn = sync.NewCond(&p.mu)
	return p
}

// take returns a buffer with any bytes. It waits while there are many and one will be free soon.
// Otherwise it does not wait: the others may belong to parts that their writers fill later.
func (p *pool) take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.used >= p.most && p.going > 0 {
		p.turn.Wait()
	}
	p.used++
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	b, err := unix.Mmap(-1, 0, int(p.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return make([]byte, p.size)
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // saves time, where the kernel has them
	return b
}

// send notes that a buffer in use is on its way.
func (p *pool) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.going++
}

// sent is put for a buffer that was on its way.
func (p *pool) sent(b []byte) {
	p.mu.Lock()
	p.going--
	p.mu.Unlock()
	p.put(b)
}

// put takes a buffer back. A request that has failed may still read it: its checksum has the storage
// refuse other bytes. The last one has all memory go back to the system, until the next checkpoint.
func (p *pool) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.free = append(p.free, b[:p.size])
	if p.used == 0 {
		for _, b := range p.free {
			_ = unix.Madvise(b, unix.MADV_DONTNEED)
		}
	}
	p.turn.Broadcast()
}
