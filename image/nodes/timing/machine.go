package timing

import "ckpt/image/pfs"

// Machine describes a cluster whose nodes have persistent memory. Times are in seconds,
// rates in bytes per second.
type Machine struct {
	Name   string
	Title  string
	Source string
	Nodes  int
	Cores  int // of a node; one of them has the operating system
	Memory Memory
	// Network carries the messages between nodes. The storage has a network of its own.
	Network Network
	Manager Manager
	Coding  Coding
	Storage *pfs.System
	Step    float64 // of a computation, as one step of a Collatz sequence
	Pixel   float64 // of a filter that looks at the eight pixels around each
}

// Memory is the persistent memory of a node.
type Memory struct {
	Access      float64 // until a line of it comes
	Persist     float64 // until what is written is durable
	Bandwidth   float64 // of the memory that is slowed down
	Divisor     float64 // by which it is
	Line        int64   // bytes that come together
	Outstanding int     // lines that one core waits for at the same time
}

// latency is how long one core waits for some bytes in a row.
func (m *Memory) latency(bytes int64) float64 {
	lines := (bytes + m.Line - 1) / m.Line
	return m.Access * max(1, float64(lines)/float64(m.Outstanding))
}

// Network is what a node sends and receives through.
type Network struct {
	Rate    float64 // each way
	Latency float64 // of a message
	Local   float64 // of a message within a node
	Copy    float64 // rate of a message within a node
}

// Manager is the thread of a node that has a part of a file. Its times are those of a
// core, without moving the bytes.
type Manager struct {
	Local  float64 // of a request of its own node
	Remote float64 // of one of another node
}

// Coding is how fast a core makes parity.
type Coding struct {
	Xor float64 // bytes added into one parity
	RS  float64 // bytes multiplied and added into one parity
}
