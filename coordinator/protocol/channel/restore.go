package channel

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Restore returns the endpoint of a rank's next incarnation: st is the state in the checkpoint
// that it goes back to, and next returns the frames of its log, in their order, io.EOF at the
// end; it may be nil with a kind that has no log. The frames may begin anywhere up to the first
// one that the state does not cover: those that it covers are left out. The data of a frame must
// stay as it is.
//
// The actions deliver what was received since the checkpoint, in the order of the log: the inbox
// has to hold what was saved with the state, then these, then whatever comes.
//
// line, for a rank with an optimistic log that is not the only one to go back, is the recovery
// line: how many determinants each rank keeps, by rank; MaxUint64 for a rank that keeps all.
// Messages that depend on more are not replayed, nor are more of the own determinants followed,
// and the actions append a Cut to the log, so that no later recovery does so; none of the ranks
// that go back may go on before the Cuts of all of them are durable. Without line all of the log
// is replayed.
func Restore(cfg Config, st *State, next func() (Frame, error), line []uint64) (*Endpoint, []Action, error) {
	e, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case st.Kind != cfg.Kind || st.Rank != cfg.Rank || st.Size != cfg.Size:
		return nil, nil, fmt.Errorf("the state is of rank %d of %d with %v, and this is rank %d of %d with %v",
			st.Rank, st.Size, st.Kind, cfg.Rank, cfg.Size, cfg.Kind)
	case line != nil && len(line) != cfg.Size:
		return nil, nil, fmt.Errorf("the recovery line has %d ranks of %d", len(line), cfg.Size)
	}
	v := &st.Vector
	e.matches, e.outputs = v.Matches, v.Outputs
	if slices.Max(v.Depends) > 0 {
		e.depends = slices.Clone(v.Depends)
	}
	for r := range e.peers {
		p := &e.peers[r]
		p.sent = v.Sent[r]
		p.accepted, p.received, p.settled = v.Received[r], v.Received[r], v.Received[r]
		for _, m := range st.Kept[r] {
			p.keep(m)
		}
		if len(st.Kept[r]) > 0 {
			p.setAcked(st.Kept[r][0].Seq - 1)
			p.collected = p.acked
		} else {
			p.acked, p.collected = p.sent, p.sent
		}
	}
	if cfg.Kind == None {
		next = nil // nothing that a log could say
	}
	frames, err := st.relevant(next)
	if err != nil {
		return nil, nil, err
	}
	var acts []Action
	if line != nil {
		before := len(frames)
		frames = cut(frames, line, cfg.Rank)
		if len(frames) < before {
			acts = append(acts, e.append(Frame{Kind: Cut, Peer: -1, Message: Message{Data: AppendNumbers(nil, line)}}))
		}
	}
	for _, f := range frames {
		switch f.Kind {
		case Received:
			p := &e.peers[f.Peer]
			switch {
			case e.inside[f.Peer]:
				return nil, nil, fmt.Errorf("%w log: a message of rank %d, which is in the group", ErrCorrupt, f.Peer)
			case f.Message.Seq <= p.received: // its commit was reported as failed, and it is there twice
				continue
			case f.Message.Seq != p.received+1:
				return nil, nil, fmt.Errorf("%w log: message %d of rank %d follows message %d", ErrCorrupt, f.Message.Seq, f.Peer, p.received)
			}
			p.accepted, p.settled = f.Message.Seq, f.Message.Seq
			acts = append(acts, e.deliver(f.Peer, f.Message))
		case Determined:
			if e.inside[f.Peer] && f.Message.Seq != 0 {
				return nil, nil, fmt.Errorf("%w log: determinant %d is of message %d of rank %d, and messages of the group have no numbers",
					ErrCorrupt, f.Number, f.Message.Seq, f.Peer)
			}
			last := e.matches
			if n := len(e.replay); n > 0 {
				last = e.replay[n-1].Number
			}
			if f.Number > last {
				e.replay = append(e.replay, Determinant{f.Number, f.Peer, f.Message.Seq})
			}
		}
	}
	if err := e.checkReplay(); err != nil {
		return nil, nil, err
	}
	return e, acts, nil
}

// checkReplay checks that no determinant is missing. Receiver logs determinants only for messages
// of the own group.
func (e *Endpoint) checkReplay() error {
	if e.cfg.Kind == Receiver {
		return nil
	}
	for i, d := range e.replay {
		if want := e.matches + 1 + uint64(i); d.Number != want {
			return fmt.Errorf("%w log: determinant %d follows determinant %d", ErrCorrupt, d.Number, want-1)
		}
	}
	return nil
}

// relevant reads a log and returns the frames that the state does not cover and no cut has taken
// back. In front of them are the determinants in the state; they may be in the log once more.
func (st *State) relevant(next func() (Frame, error)) ([]Frame, error) {
	var frames []Frame
	for _, d := range st.Replay {
		frames = append(frames, Frame{Kind: Determined, Peer: d.Source, Number: d.Number, Message: Message{Seq: d.Seq}})
	}
	if next == nil {
		return frames, nil
	}
	for {
		f, err := next()
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return nil, err
		}
		if f.Kind != Cut && (f.Peer < 0 || f.Peer >= st.Size) {
			return nil, fmt.Errorf("%w log: rank %d of %d", ErrCorrupt, f.Peer, st.Size)
		}
		switch f.Kind {
		case Received:
			if n := len(f.Message.Depends); n != 0 && n != st.Size {
				return nil, fmt.Errorf("%w log: message depends on %d ranks of %d", ErrCorrupt, n, st.Size)
			}
			if f.Message.Seq > st.Vector.Received[f.Peer] {
				frames = append(frames, f)
			}
		case Determined:
			if f.Number > st.Vector.Matches {
				frames = append(frames, f)
			}
		case Cut:
			if n := len(f.Message.Data); n != 8*st.Size {
				return nil, fmt.Errorf("%w log: cut of %d bytes for %d ranks", ErrCorrupt, n, st.Size)
			}
			frames = cut(frames, Numbers(f.Message.Data), st.Rank)
		default:
			return nil, fmt.Errorf("%w log: frame of kind %d", ErrCorrupt, f.Kind)
		}
	}
}

// cut removes the frames of rank me that a line takes back.
func cut(frames []Frame, line []uint64, me int) []Frame {
	return slices.DeleteFunc(frames, func(f Frame) bool {
		if f.Kind == Determined {
			return f.Number > line[me]
		}
		for r, n := range f.Message.Depends {
			if n > line[r] {
				return true
			}
		}
		return false
	})
}

// ErrGap is a message with one missing before it. It is not delivered; the connection has to be
// made again, which has the sender begin at the first one missing.
var ErrGap = errors.New("a message is missing before this one")

// ErrCorrupt marks bytes of a state, or frames of a log, that no rank of this version writes.
var ErrCorrupt = errors.New("corrupt")

// A StaleError is an incarnation of a peer that has been replaced.
type StaleError struct {
	Peer       int
	Got, Known uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("incarnation %d of rank %d is stale: it is in incarnation %d", e.Got, e.Peer, e.Known)
}

// A LostError says that a peer needs messages that are kept no more. It went back behind what it
// has acknowledged or what a checkpoint of it covered.
type LostError struct {
	Peer        int
	Have, First uint64 // the peer has messages up to Have, we from First on
}

func (e *LostError) Error() string {
	return fmt.Sprintf("rank %d has %d messages of this channel and %d is the first that is kept: those between are lost", e.Peer, e.Have, e.First)
}

// A ReplayError is an execution that did not follow its log: the program is not deterministic, or
// was changed.
type ReplayError struct {
	Number              uint64 // of the match
	Source, WantSource  int
	Message, WantNumber uint64
}

func (e *ReplayError) Error() string {
	return fmt.Sprintf("receive %d from any source got message %d of rank %d; in the log it is message %d of rank %d",
		e.Number, e.Message, e.Source, e.WantNumber, e.WantSource)
}
