package channel

import "fmt"

// Config says whose endpoint it is.
type Config struct {
	Kind       Kind
	Rank, Size int
	// Group are the ranks that fail and restart together with this one. It may leave out the rank
	// itself.
	Group []int
}

// An Endpoint is one rank's side of all of its channels. It is for one goroutine at a time.
type Endpoint struct {
	cfg    Config
	inside []bool // by rank: it is in our group
	peers  []peer

	entries  []entry // appended and not durable
	appended uint64  // index of the last frame appended
	durable  uint64  // of the last one known to be durable

	depends []uint64 // on matches of each rank, see Vector; replaced, never written to; may be nil
	matches uint64
	replay  []Determinant // to follow, by number
	outputs uint64
}

// A peer is what an endpoint knows of the two channels to and from a rank.
type peer struct {
	incarnation uint64

	// To it.
	up        bool // a connection to it is there
	sent      uint64
	have      uint64 // up to which it has ours, as it said when the connection was made
	acked     uint64
	collected uint64
	kept      []Message // by Seq without gaps
	keptBytes int64
	unacked   int64 // cost of those kept that are behind acked

	// From it: accepted ≥ received, received ≥ settled.
	accepted uint64 // arrived in order
	received uint64 // delivered
	settled  uint64 // as far as an Ack may say
}

// An entry is a frame on its way to the disk.
type entry struct {
	index uint64
	frame Frame
}

// New returns the endpoint of a rank at the beginning of its job.
func New(cfg Config) (*Endpoint, error) {
	switch {
	case !cfg.Kind.Valid():
		return nil, fmt.Errorf("%v is unknown", cfg.Kind)
	case cfg.Size < 1 || cfg.Rank < 0 || cfg.Rank >= cfg.Size:
		return nil, fmt.Errorf("there is no rank %d of %d", cfg.Rank, cfg.Size)
	}
	e := &Endpoint{cfg: cfg, inside: make([]bool, cfg.Size), peers: make([]peer, cfg.Size)}
	for _, r := range cfg.Group {
		if r < 0 || r >= cfg.Size {
			return nil, fmt.Errorf("there is no rank %d of %d to be in the group", r, cfg.Size)
		}
		if cfg.Kind == Optimistic && r != cfg.Rank {
			return nil, fmt.Errorf("an optimistic log needs groups of one rank, and %d is with %d", cfg.Rank, r)
		}
		e.inside[r] = true
	}
	e.inside[cfg.Rank] = true
	return e, nil
}

// Inside reports whether a rank is in the own group, without a channel to it.
func (e *Endpoint) Inside(rank int) bool { return e.inside[rank] }

// Send numbers a message to a rank outside, keeps it and has it transmitted if there is a
// connection and the peer does not have it already. m.Data belongs to the endpoint from now on.
func (e *Endpoint) Send(dst int, m Message) (seq uint64, acts []Action) {
	p := &e.peers[dst]
	p.sent++
	m.Seq, m.Depends = p.sent, e.depends
	// A rank that executes again what it has executed before sends what the peer may have for
	// good.
	if m.Seq > p.forgotten(e.cfg.Kind) {
		p.keep(m)
	}
	if p.up && m.Seq > p.have {
		acts = append(acts, Transmit{dst, m})
	}
	return m.Seq, acts
}

// Arrive takes a message from a connection. One that was accepted before is dropped and
// acknowledged again; ErrGap is one with another missing before it, after which the connection
// has to be made again.
func (e *Endpoint) Arrive(src int, m Message) ([]Action, error) {
	p := &e.peers[src]
	switch {
	case m.Seq <= p.accepted:
		return []Action{Ack{src, p.settled}}, nil
	case m.Seq != p.accepted+1:
		return nil, ErrGap
	}
	p.accepted = m.Seq
	if e.cfg.Kind == Receiver {
		return []Action{e.append(Frame{Kind: Received, Peer: src, Message: m})}, nil
	}
	acts := []Action{e.deliver(src, m)}
	if e.cfg.Kind == Optimistic {
		return append(acts, e.append(Frame{Kind: Received, Peer: src, Message: m})), nil
	}
	p.settled = m.Seq
	return append(acts, Ack{src, m.Seq}), nil
}

func (e *Endpoint) deliver(src int, m Message) Action {
	e.peers[src].received = m.Seq
	e.depends = join(e.depends, m.Depends)
	return Deliver{src, m}
}

func (e *Endpoint) append(f Frame) Action {
	e.appended++
	e.entries = append(e.entries, entry{e.appended, f})
	return Append{e.appended, f}
}

// Logged says that all frames up to an index are durable: what waits for that is delivered
// (Receiver) and acknowledged.
func (e *Endpoint) Logged(index uint64) []Action {
	var acts []Action
	var acked []bool // by rank
	n := 0
	for ; n < len(e.entries) && e.entries[n].index <= index; n++ {
		f := &e.entries[n].frame
		e.durable = e.entries[n].index
		switch f.Kind {
		case Received:
			if e.cfg.Kind == Receiver {
				acts = append(acts, e.deliver(f.Peer, f.Message))
			}
			e.peers[f.Peer].settled = f.Message.Seq
			if acked == nil {
				acked = make([]bool, e.cfg.Size)
			}
			acked[f.Peer] = true
		}
		f.Message.Data = nil // the array may live on
	}
	e.entries = e.entries[n:]
	if len(e.entries) == 0 {
		e.entries = nil
	}
	for r, yes := range acked {
		if yes {
			acts = append(acts, Ack{r, e.peers[r].settled})
		}
	}
	return acts
}

// Relog gives all frames again that are not durable, with their indices, for a log that has lost
// them in a commit that failed and is in order again.
func (e *Endpoint) Relog() []Action {
	var acts []Action
	for _, en := range e.entries {
		acts = append(acts, Append{en.index, en.frame})
	}
	return acts
}

// Durable returns the index up to which frames are durable; Appended the index of the last one.
func (e *Endpoint) Durable() uint64  { return e.durable }
func (e *Endpoint) Appended() uint64 { return e.appended }

// Output counts what the rank puts out to the world and returns its number, from
// 1. An output of a number that was put out before, by an earlier incarnation,
// is not put out again.
func (e *Endpoint) Output() uint64 {
	e.outputs++
	return e.outputs
}

// Admit is told the incarnation of the peer at the other end of a new connection, in either
// direction, before anything else. It refuses a replaced incarnation with a *StaleError. After a
// newer one, connections of the older one must be dropped and nothing from them be given to
// Arrive or Acked.
func (e *Endpoint) Admit(peer int, incarnation uint64) error {
	p := &e.peers[peer]
	if incarnation < p.incarnation {
		return &StaleError{Peer: peer, Got: incarnation, Known: p.incarnation}
	}
	if incarnation > p.incarnation {
		p.incarnation = incarnation
		e.PeerDown(peer)
	}
	return nil
}

// Incarnation returns the newest incarnation of a peer that is known.
func (e *Endpoint) Incarnation(peer int) uint64 { return e.peers[peer].incarnation }

// Have returns the number up to which this incarnation needs no messages of a peer again.
func (e *Endpoint) Have(peer int) uint64 { return e.peers[peer].accepted }

// Connected says that a connection from a peer was made, with Have. It repeats the
// acknowledgement, which an earlier connection may have lost.
func (e *Endpoint) Connected(peer int) []Action {
	return []Action{Ack{peer, e.peers[peer].settled}}
}

// PeerUp says that a connection to a peer was made, and up to which number it has our messages.
// Those behind are transmitted, in order, as is what is sent from now on. It fails with a
// *LostError if messages that the peer needs are not kept any more.
func (e *Endpoint) PeerUp(peer int, have uint64) ([]Action, error) {
	p := &e.peers[peer]
	// Messages have+1 … sent are missing: all of them have to be kept.
	if have < p.sent && (len(p.kept) == 0 || p.kept[0].Seq > have+1) {
		first := p.sent + 1
		if len(p.kept) > 0 {
			first = p.kept[0].Seq
		}
		return nil, &LostError{Peer: peer, Have: have, First: first}
	}
	p.up, p.have = true, have
	if e.cfg.Kind == Sender || have < p.acked {
		// The peer went back, and needs again what it had acknowledged.
		p.setAcked(have)
	}
	var acts []Action
	for _, m := range p.after(have) {
		acts = append(acts, Transmit{peer, m})
	}
	return acts, nil
}

// PeerDown says that the connection to a peer is lost.
func (e *Endpoint) PeerDown(peer int) {
	e.peers[peer].up = false
	e.peers[peer].have = 0
}

// Recorded returns from which source the next receive from any source has to take its message,
// and its number in the channel if it is from outside, because it was so before the failure.
// Without ok it takes whatever matches; if several messages in the inbox do, the one that was
// delivered first.
func (e *Endpoint) Recorded() (src int, seq uint64, ok bool) {
	if len(e.replay) == 0 || e.replay[0].Number != e.matches+1 {
		return 0, 0, false
	}
	return e.replay[0].Source, e.replay[0].Seq, true
}

// ReceivedAny says that a receive from any source got a message: number seq of the channel from
// src, 0 if it is unknown or src is in the own group. The application goes on when Durable is not
// less than wait.
func (e *Endpoint) ReceivedAny(src int, seq uint64) (wait uint64, acts []Action, err error) {
	source, number, ok := e.Recorded()
	e.matches++
	if ok {
		if src != source || seq != 0 && number != 0 && seq != number {
			e.matches--
			return 0, nil, &ReplayError{Number: e.matches + 1, Source: src, Message: seq, WantSource: source, WantNumber: number}
		}
		e.replay = e.replay[1:]
		if e.cfg.Kind == Optimistic {
			e.dependOnMatch()
		}
		return 0, nil, nil
	}
	if e.inside[src] {
		seq = 0 // channels inside do not survive, and begin to count anew
	}
	switch {
	case e.cfg.Kind == None:
		return 0, nil, nil
	case e.cfg.Kind == Receiver && !e.inside[src]:
		return 0, nil, nil // the order of the log says it
	}
	if e.cfg.Kind == Optimistic {
		e.dependOnMatch()
	}
	acts = []Action{e.append(Frame{Kind: Determined, Peer: src, Number: e.matches, Message: Message{Seq: seq}})}
	if e.cfg.Kind != Optimistic {
		wait = e.appended
	}
	return wait, acts, nil
}
