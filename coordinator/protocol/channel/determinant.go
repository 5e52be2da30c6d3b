package channel

// Recorded returns from which source the next receive from any source has to take
// its message, and its number in the channel if it is from outside, because it
// was so before the failure. Without ok it takes whatever matches; if several
// messages in the inbox do, the one that was delivered first.
func (e *Endpoint) Recorded() (src int, seq uint64, ok bool) {
	if len(e.replay) == 0 || e.replay[0].Number != e.matches+1 {
		return 0, 0, false
	}
	return e.replay[0].Source, e.replay[0].Seq, true
}

// ReceivedAny says that a receive from any source got a message: number seq of the
// channel from src, 0 if it is not known or src is in the own group. The
// application goes on when Durable is not less than wait.
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
