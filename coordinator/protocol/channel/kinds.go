package channel

import "fmt"

// Kind is how messages between groups are logged; see the package comment.
type Kind uint8

// The kinds of logging.
const (
	None       Kind = iota // nothing is logged
	Receiver               // pessimistic, payload logged by the receiver
	Sender                 // pessimistic, payload kept by the sender
	Optimistic             // payload logged by the receiver, behind
)

var kindNames = [...]string{"none", "pessimistic-receiver", "pessimistic-sender", "optimistic"}

// String returns the name that users know the kind by.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

func ParseKind(name string) (Kind, error) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("unknown log %q (want none, pessimistic-receiver, pessimistic-sender, optimistic)", name)
}

func (k Kind) Valid() bool { return int(k) < len(kindNames) }

// Logs reports whether a rank with this kind needs a log.
func (k Kind) Logs() bool { return k != None }

// A Count is a number of messages exchanged with a peer.
type Count struct {
	Peer int
	N    uint64
}

// A Message is one message of a channel.
type Message struct {
	Context uint8 // of the communicator, see package mpi
	Tag     int32
	// Seq is its number in its channel, from 1, over all contexts. Send sets it.
	Seq uint64
	// Depends says on how many matches of each rank the message depends, by rank, or is nil. Send
	// sets it, with Optimistic.
	Depends []uint64
	// Data must not change after Send or Arrive.
	Data []byte
}

// A Frame is an entry of a rank's log.
type Frame struct {
	Kind FrameKind
	// Peer is the source of the message or of the match, -1 for a cut.
	Peer int
	// Number is the match's, 0 for other frames.
	Number uint64
	// Message is the message received. A match has only Seq, 0 for a message of the own group; a
	// cut only Data, the line, 8 bytes for each rank.
	Message Message
}

// FrameKind is a kind of Frame.
type FrameKind uint8

// The kinds of frames.
const (
	Received   FrameKind = 1 // a message with its payload
	Determined FrameKind = 2 // the determinant of a receive from any source
	Cut        FrameKind = 3 // some of the frames before it do not count any more, see Restore
)

// An Action is what the caller has to carry out: Transmit, Append, Deliver or Ack. The actions of
// a call are carried out in their order, and those of one call before those of the next.
type Action interface{ action() }

// Transmit writes a message to the connection to a peer, behind what was transmitted before. If
// the connection is lost meanwhile it may be dropped.
type Transmit struct {
	To      int
	Message Message
}

// Append puts a frame at the end of the log. When it is durable, and all before it, Logged(Index)
// follows. Indices grow by one from 1 in each incarnation.
type Append struct {
	Index uint64
	Frame Frame
}

// Deliver puts a message into the inbox of the rank.
type Deliver struct {
	From    int
	Message Message
}

// Ack tells a peer, on the connection that it sends to us on, that all of its messages up to Seq
// are received for good: its Acked(this rank, Seq). It is cumulative: only the last one counts,
// and without a connection it may be dropped.
type Ack struct {
	To  int
	Seq uint64
}

func (Transmit) action() {}
func (Append) action()   {}
func (Deliver) action()  {}
func (Ack) action()      {}
