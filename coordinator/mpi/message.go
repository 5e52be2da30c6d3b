package mpi

import (
	"math/bits"
	"sync"
	"unsafe"
)

// A context keeps the messages of users and of collective operations apart.
type msgContext uint8

const (
	userContext msgContext = iota
	collectiveContext
	numContexts
)

// An envelope is what a message is matched by.
type envelope struct {
	ctx msgContext
	tag int32 // user: the user's; collective: the operation
}

func (e envelope) valid() bool { return e.ctx < numContexts && e.tag >= 0 }

// A message has arrived, or is arriving, in the inbox.
type message struct {
	envelope
	src int
	// number is that of its channel, if it came from another group and has not
	// been in a checkpoint since; 0 otherwise.
	number uint64
	lent   bool   // its memory is somebody else's too
	seq    int64  // order of arrival, over all sources
	data   []byte // its memory goes back to the pool with the message
	next   *message
}

// A messagePool recycles messages by the power of two of their capacity, from
// 64 bytes to 64 MiB. Larger ones are left to the collector.
type messagePool struct {
	classes [maxClass - minClass + 1]sync.Pool
}

const minClass, maxClass = 6, 26

func classOf(n int) int { return max(bits.Len(uint(max(n, 1)-1)), minClass) }

// get returns a message with room for n bytes, of undefined content.
func (p *messagePool) get(n int) *message {
	class := classOf(n)
	if class > maxClass {
		return &message{data: alignedBytes(n, n)}
	}
	if m, ok := p.classes[class-minClass].Get().(*message); ok {
		m.data, m.number = m.data[:n], 0
		return m
	}
	return &message{data: alignedBytes(n, 1<<class)}
}

// put takes back a message that nobody looks at any more.
func (p *messagePool) put(m *message) {
	class := classOf(cap(m.data))
	if class > maxClass || cap(m.data) != 1<<class || m.lent {
		return
	}
	m.next = nil
	p.classes[class-minClass].Put(m)
}

// alignedBytes returns memory that can be looked at as float64s too.
func alignedBytes(n, capacity int) []byte {
	return bytesOf(make([]float64, (capacity+7)/8))[:n:capacity]
}

// bytesOf and floatsOf look at the same memory as the other type: the ranks of
// a job run on machines of one byte order, as MPI without XDR does.
func bytesOf(f []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*8)
}

func floatsOf(b []byte) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}
