package channel

import (
	"cmp"
	"fmt"
	"slices"
)

// A Vector is what the state of a rank depends on, and what depends on it: the rank's place in
// the history from which the recovery line is computed. Slices are indexed by rank; entries of
// the own group are 0.
type Vector struct {
	// Sent and Received count the messages of each channel, Received without those that have
	// arrived and are not delivered.
	Sent     []uint64 `json:"sent"`
	Received []uint64 `json:"received"`
	// Matches counts the receives from any source. Depends says, with Optimistic, on how many
	// matches of each rank the state depends, directly or through others.
	Matches uint64   `json:"matches"`
	Depends []uint64 `json:"depends"`
	// Outputs counts what was put out to the world.
	Outputs uint64 `json:"outputs"`
}

func (v *Vector) Equal(o *Vector) bool {
	return slices.Equal(v.Sent, o.Sent) && slices.Equal(v.Received, o.Received) && slices.Equal(v.Depends, o.Depends) &&
		v.Matches == o.Matches && v.Outputs == o.Outputs
}

func (e *Endpoint) Vector() Vector {
	n := e.cfg.Size
	v := Vector{Sent: make([]uint64, n), Received: make([]uint64, n), Depends: make([]uint64, n), Matches: e.matches, Outputs: e.outputs}
	for r := range e.peers {
		v.Sent[r], v.Received[r] = e.peers[r].sent, e.peers[r].received
	}
	copy(v.Depends, e.depends)
	return v
}

// Present returns the vector of the present state for a recovery line in which the rank may keep
// it. A rank that is replaying is going to make the matches that its log holds; they count as
// made.
func (e *Endpoint) Present() Vector {
	v := e.Vector()
	if n := len(e.replay); n > 0 {
		v.Matches = e.replay[n-1].Number
		v.Depends[e.cfg.Rank] = v.Matches
	}
	return v
}

// join returns the larger of each pair of numbers, in a vector of its own.
func join(a, b []uint64) []uint64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	var c []uint64
	for r, n := range b {
		if n > a[r] {
			if c == nil {
				c = slices.Clone(a)
			}
			c[r] = n
		}
	}
	if c == nil {
		return a
	}
	return c
}

// dependOnMatch has what is sent from now on depend on the last match.
func (e *Endpoint) dependOnMatch() {
	d := make([]uint64, e.cfg.Size)
	copy(d, e.depends)
	d[e.cfg.Rank] = e.matches
	e.depends = d
}

// Logged returns the states that a rank can be put into from its checkpoint with state st by
// replaying a log: one for each determinant in it, oldest first, with its Matches and Depends.
// (The log does not say what it has Sent and Received by then; the line does not need that, see
// the package comment.) Frames come from next, as in Restore. It is of use with Optimistic; with
// the pessimistic kinds replay always leads to the end.
func (st *State) Logged(next func() (Frame, error)) ([]Vector, error) {
	frames, err := st.relevant(next)
	if err != nil {
		return nil, err
	}
	matches, depends := st.Vector.Matches, st.Vector.Depends
	var states []Vector
	for _, f := range frames {
		switch f.Kind {
		case Received:
			depends = join(depends, f.Message.Depends)
		case Determined:
			if f.Number > matches {
				matches = f.Number
				v := Vector{Matches: matches, Depends: slices.Clone(depends)}
				v.Depends[st.Rank] = matches
				states = append(states, v)
			}
		}
	}
	return states, nil
}

func (p *peer) forgotten(k Kind) uint64 {
	if k == Sender {
		return p.collected
	}
	return p.acked
}

// Overhead is about what a message takes to keep beside its data.
const Overhead = 128

func (m *Message) cost() int64 {
	return int64(len(m.Data)) + 8*int64(len(m.Depends)) + Overhead
}

func (p *peer) keep(m Message) {
	p.kept = append(p.kept, m)
	p.keptBytes += int64(len(m.Data))
	if m.Seq > p.acked {
		p.unacked += m.cost()
	}
}

// forget drops what is kept up to a number.
func (p *peer) forget(seq uint64) {
	n := 0
	for n < len(p.kept) && p.kept[n].Seq <= seq {
		p.keptBytes -= int64(len(p.kept[n].Data))
		if p.kept[n].Seq > p.acked {
			p.unacked -= p.kept[n].cost()
		}
		p.kept[n].Data = nil // the array may live on
		n++
	}
	p.kept = p.kept[n:]
	if len(p.kept) == 0 {
		p.kept = nil
	}
}

// after returns the messages kept that are behind a number.
func (p *peer) after(seq uint64) []Message {
	i, _ := slices.BinarySearchFunc(p.kept, seq+1, func(m Message, s uint64) int { return cmp.Compare(m.Seq, s) })
	return p.kept[i:]
}

// setAcked moves the mark of what is acknowledged, in either direction.
func (p *peer) setAcked(seq uint64) {
	for _, m := range p.after(min(seq, p.acked)) {
		switch {
		case m.Seq > max(seq, p.acked):
			p.acked = seq
			return
		case seq > p.acked:
			p.unacked -= m.cost()
		default:
			p.unacked += m.cost()
		}
	}
	p.acked = seq
}

// Acked takes an acknowledgement: the peer has all messages up to a number for good, or, with
// Sender, as long as it lives.
func (e *Endpoint) Acked(peer int, seq uint64) {
	p := &e.peers[peer]
	if seq <= p.acked {
		return
	}
	if e.cfg.Kind != Sender {
		p.forget(seq)
	}
	p.setAcked(seq)
}

// Collected says that a committed checkpoint of a peer covers all messages up to a number: with
// Sender they are forgotten. It is the Received of that checkpoint's Vector.
func (e *Endpoint) Collected(peer int, seq uint64) {
	p := &e.peers[peer]
	if e.cfg.Kind != Sender || seq <= p.collected {
		return
	}
	p.collected = seq
	p.forget(seq)
	p.setAcked(max(seq, p.acked)) // the acknowledgement may have been lost
}

// Kept returns how many messages to a peer are kept, their bytes, and what the unacknowledged
// ones take in memory, Overhead included: what a sender looks at that does not want to run ahead
// for ever.
func (e *Endpoint) Kept(peer int) (messages int, bytes, unacked int64) {
	p := &e.peers[peer]
	return len(p.kept), p.keptBytes, p.unacked
}

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
// a call are carried out in their order, before the actions of the next call.
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
