package exec

import "time"

// Op is what a writer does.
type Op string

// Operations. Some of them only fail, and some only take time.
const (
	Gather     Op = "gather"      // pull bytes of another rank, or read own ones
	Write      Op = "write"       // one call of WriteAt
	Open       Op = "open"        // only in an Error
	WaitTurn   Op = "wait-turn"   // only in an Error
	WaitGather Op = "wait-gather" // only in an Event: round k is written, round k+1 not yet gathered
	WaitWrite  Op = "wait-write"  // only in an Event: round k+1 is gathered, round k not yet written
)

// Event is an operation that a writer has completed.
type Event struct {
	Op    Op
	Rank  int // the writer
	Round int // from 0; of WaitGather and WaitWrite the one that is ready

	// Buffer is the collective buffer that is filled or written, 0 or 1, and
	// plan.InPlace for a write of own memory.
	Buffer int

	From, Key int   // of Gather: rank and piece, of several the first
	File      int   // of Write
	Offset    int64 // of Gather in the piece, of Write in the file
	Bytes     int64

	Start, End time.Time
}

// Stats is what a Run did.
type Stats struct {
	Rounds  int64 `json:"rounds"`  // gathered
	Pulls   int64 `json:"pulls"`   // messages to other ranks
	Writes  int64 `json:"writes"`  // calls of WriteAt
	Bytes   int64 `json:"bytes"`   // written
	Pulled  int64 `json:"pulled"`  // bytes of other ranks
	Aligned int64 `json:"aligned"` // own bytes copied for direct I/O

	// BufferBytes is the memory of the collective buffers.
	BufferBytes int64 `json:"buffer_bytes"`

	// GatherTime and WriteTime are spent in the two phases, in nanoseconds; with P3
	// at the same time. SwapTime is how long the faster one waited for the other.
	GatherTime time.Duration `json:"gather_ns"`
	WriteTime  time.Duration `json:"write_ns"`
	SwapTime   time.Duration `json:"swap_ns"`
}

// Add adds what another Run did, times too.
func (s *Stats) Add(o Stats) {
	s.Rounds += o.Rounds
	s.Pulls += o.Pulls
	s.Writes += o.Writes
	s.Bytes += o.Bytes
	s.Pulled += o.Pulled
	s.Aligned += o.Aligned
	s.BufferBytes += o.BufferBytes
	s.GatherTime += o.GatherTime
	s.WriteTime += o.WriteTime
	s.SwapTime += o.SwapTime
}
