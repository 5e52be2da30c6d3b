package filecache

import (
	"context"
	"sync"
	"time"
)

// Kind is a kind of request to a manager.
type Kind uint8

// The kinds of requests.
const (
	Read Kind = iota
	Write
	WriteIf
	Load   // the fragment from a file of the store
	Put    // the fragment into a file of the store
	Rotate // the journal: begin an empty one
)

var kindNames = [...]string{"read", "write", "write-if", "load", "store", "rotate"}

func (k Kind) String() string { return kindNames[k] }

// A Request is what a manager is asked to do. Requests of all processes to a manager
// are served one by one, as they arrive.
type Request struct {
	Kind    Kind
	Process int    // that asks; -1 for the file as a whole
	Source  int    // its node
	Seq     uint64 // counts the requests of a process that write, from 1
	Part    int    // of those that the request was split into
	Parts   int
	Off     int64  // in the file, of Data
	Data    []byte // to write, or to fill
	Mask    int    // of WriteIf

	Path   string // of Load and Put
	Length int64  // of the file, for Load and Put
	Epoch  uint64 // of Rotate
	Base   uint64 // of Rotate: what the store has

	arrived time.Time
}

// A Reply is a manager's answer.
type Reply struct {
	Written bool   // WriteIf: the cell was free
	Full    bool   // Write: the journal asks for a Sync
	Sum     uint32 // Load, Put: CRC-32C of the fragment
	End     int64  // Load: where the last byte of the fragment ends in the file
}

// A Transport carries requests to the managers of a file.
type Transport interface {
	// Call returns when the manager has answered. A process has one call to a manager
	// under way at a time.
	Call(ctx context.Context, node int, r Request) (Reply, error)
	// Close ends the transport. No call is under way.
	Close() error
}

// channels is the transport within a process: a channel for each manager.
type channels struct {
	queues []chan call
	served sync.WaitGroup
}

type call struct {
	request Request
	answer  chan<- answer
}

type answer struct {
	reply Reply
	err   error
}

// inProcess starts a goroutine for each manager.
func inProcess(nodes int, manager func(node int) func(Request) (Reply, error)) Transport {
	t := &channels{queues: make([]chan call, nodes)}
	for i := range t.queues {
		t.queues[i] = make(chan call, 16)
		t.served.Go(func() {
			serve := manager(i)
			for c := range t.queues[i] {
				reply, err := serve(c.request)
				c.answer <- answer{reply, err}
			}
		})
	}
	return t
}

func (t *channels) Call(_ context.Context, node int, r Request) (Reply, error) {
	done := make(chan answer, 1)
	t.queues[node] <- call{r, done}
	a := <-done
	return a.reply, a.err
}

func (t *channels) Close() error {
	for _, q := range t.queues {
		close(q)
	}
	t.served.Wait()
	return nil
}
