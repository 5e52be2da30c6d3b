package channel

import (
	"errors"
	"fmt"
)

// ErrGap is a message with one missing before it. Nothing is delivered; the
// connection it came on has to be made again, which has the sender begin at the
// first one that is missing.
var ErrGap = errors.New("a message is missing before this one")

// ErrCorrupt marks bytes of a state, or frames of a log, that no rank of this
// version writes.
var ErrCorrupt = errors.New("corrupt")

// A StaleError is an incarnation of a peer that has been replaced.
type StaleError struct {
	Peer       int
	Got, Known uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("incarnation %d of rank %d is stale: it is in incarnation %d", e.Got, e.Peer, e.Known)
}

// A LostError says that a peer needs messages that are kept no more. It went
// back behind what it has acknowledged or what a checkpoint of it covered.
type LostError struct {
	Peer        int
	Have, First uint64 // the peer has messages up to Have, we from First on
}

func (e *LostError) Error() string {
	return fmt.Sprintf("rank %d has %d messages of this channel and %d is the first that is kept: those between are lost", e.Peer, e.Have, e.First)
}

// A ReplayError is an execution that did not follow its log: the program is not
// deterministic, or was changed.
type ReplayError struct {
	Number              uint64 // of the match
	Source, WantSource  int
	Message, WantNumber uint64
}

func (e *ReplayError) Error() string {
	return fmt.Sprintf("receive %d from any source got message %d of rank %d; in the log it is message %d of rank %d",
		e.Number, e.Message, e.Source, e.WantNumber, e.WantSource)
}
