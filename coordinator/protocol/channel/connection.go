package channel

// Admit is told the incarnation of the peer at the other end of a new connection,
// in either direction, before anything else. One that has been replaced is
// refused with a *StaleError. A newer one is adopted, after which connections of
// the older one must be dropped and nothing from them be given to Arrive or
// Acked.
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

// Have returns the number up to which messages of a peer need not be sent again to
// this incarnation.
func (e *Endpoint) Have(peer int) uint64 { return e.peers[peer].accepted }

// Connected says that a connection from a peer was made, with Have. It repeats the
// acknowledgement, which an earlier connection may have lost.
func (e *Endpoint) Connected(peer int) []Action {
	return []Action{Ack{peer, e.peers[peer].settled}}
}

// PeerUp says that a connection to a peer was made, and up to which number it has
// our messages. Those behind are transmitted, in order; so is, from now on, what
// is sent. It fails with a *LostError if messages that the peer needs are not kept
// any more.
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
