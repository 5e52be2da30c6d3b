package protocol

import "fmt"

// A Kind says what a message means.
type Kind uint8

// The messages from a rank to the coordinator. The values are part of the wire
// format.
const (
	Hello        Kind = 1 + iota // Text: address for messages between nodes; Iter: process id
	Ready                        // memory is allocated and filled, channels are open
	SetupFailed                  // Text: why; Body: details for the caller
	Holding                      // Number; Iter: iteration in progress
	Stopped                      // Number; Iter: boundary; Counts: messages sent to each peer
	Drained                      // Number
	Written                      // Number; Body: what was written
	WriteFailed                  // Number; Text: why; Body: details for the caller
	Aborted                      // Number: nothing of this rank is being written any more
	Beat                         // a sign of life; Iter: iteration in progress; Progress: Iter plus other work done
	InjectDue                    // Iter: reached an iteration at which a failure is to be injected
	Done                         // Body: the rank's result
	Unrestorable                 // like SetupFailed, and the checkpoint is to blame
	Captured                     // Number: this rank has a copy of its memory and need not wait for its image
	Share                        // Number; Iter: round; Body: told to all ranks that write with this one
	Fenced                       // Number: round; Body: the rank's channel.Vector, in JSON
	Output                       // Progress: index, from 1; Text: what is put out to the world
	LogState                     // Text: why the message log has failed; empty: it is in order again; Body: details
)

// The messages from the coordinator to a rank.
const (
	Welcome   Kind = 32 + iota // Body: the rank's configuration
	Start                      // Iter: next boundary to stop at, 0 none; Number: checkpoint taken there
	Propose                    // Number
	StopAt                     // Number; Iter: boundary
	Drain                      // Number; Counts: messages to expect from each peer
	Write                      // Number; Iter: boundary
	Abort                      // Number
	Resume                     // like Start
	Quit                       // leave
	Shares                     // Number; Iter: round; Body: what all have told
	Fence                      // Number: round; exchange nothing with other groups any more
	Unfence                    // Number: round; Counts: ranks that went back and their new incarnations
	Moved                      // Counts: a rank of another group and its incarnation; Text: its address
	Collected                  // Counts: ranks, and up to which number messages to them can be forgotten
	Truncate                   // Progress: number of the first frame of the message log that is still needed
)

var kindNames = map[Kind]string{
	Hello: "hello", Ready: "ready", SetupFailed: "setup-failed", Holding: "holding",
	Stopped: "stopped", Drained: "drained", Written: "written", WriteFailed: "write-failed",
	Aborted: "aborted", Beat: "beat", Unrestorable: "unrestorable", Captured: "captured", InjectDue: "tripped",
	Done:  "done",
	Share: "share", Shares: "shares", Fenced: "fenced", Output: "output", LogState: "log-state",
	Fence: "fence", Unfence: "unfence", Moved: "moved", Collected: "collected", Truncate: "truncate",
	Welcome: "welcome", Start: "start", Propose: "propose", StopAt: "stop-at", Drain: "drain",
	Write: "write", Abort: "abort", Resume: "resume", Quit: "quit",
}

// Valid reports whether k is a known kind.
func (k Kind) Valid() bool { _, ok := kindNames[k]; return ok }

func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Count is a number of messages exchanged with one peer.
type Count struct {
	Peer int
	N    uint64
}

// A Message travels between the coordinator and one rank. Which fields count
// depends on the kind; the others are zero.
type Message struct {
	Kind     Kind
	Rank     int // sender or receiver
	Number   int // of the checkpoint
	Iter     int
	Progress uint64
	Counts   []Count
	Text     string
	Body     []byte // opaque to the protocol
}
