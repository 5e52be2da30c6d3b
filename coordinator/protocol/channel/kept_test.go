package channel

import (
	"testing"
)

// newEndpoint is that of rank 0 of three.
func newEndpoint(t *testing.T, kind Kind) *Endpoint {
	t.Helper()
	e, err := New(Config{Kind: kind, Rank: 0, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sends has an endpoint send n messages to rank 1 and returns the numbers of those
// that it transmits.
func sends(e *Endpoint, n int) []uint64 {
	var numbers []uint64
	for range n {
		_, acts := e.Send(1, Message{Data: []byte("data")})
		numbers = append(numbers, transmitted(acts)...)
	}
	return numbers
}

func transmitted(acts []Action) (numbers []uint64) {
	for _, a := range acts {
		if m, ok := a.(Transmit); ok {
			numbers = append(numbers, m.Message.Seq)
		}
	}
	return numbers
}

// settled reports whether a peer has acknowledged all that was sent to it.
func settled(e *Endpoint, peer int) bool { return e.peers[peer].acked >= e.peers[peer].sent }

// TestSettledWhenAllIsAcknowledged: not before the last message, and an older
// acknowledgement that comes late takes nothing back.
func TestSettledWhenAllIsAcknowledged(t *testing.T) {
	e := newEndpoint(t, Receiver)
	sends(e, 2)
	e.Acked(1, 1)
	if settled(e, 1) {
		t.Error("settled with one of two messages acknowledged")
	}
	e.Acked(1, 2)
	e.Acked(1, 1)
	if !settled(e, 1) {
		t.Error("not settled with both acknowledged")
	}
}

// TestCollectedCountsAsAcknowledged: a checkpoint of the peer covers a message whose
// acknowledgement was lost.
func TestCollectedCountsAsAcknowledged(t *testing.T) {
	e := newEndpoint(t, Sender)
	sends(e, 2)
	e.Collected(1, 2)
	if messages, bytes, unacked := e.Kept(1); messages != 0 || bytes != 0 || unacked != 0 || !settled(e, 1) {
		t.Errorf("%d messages of %d bytes are kept, %d not acknowledged", messages, bytes, unacked)
	}
}

// TestCollectedNeverFalls: a rank that goes back keeps nothing again that a
// checkpoint of its peer covers, whichever word of it comes last.
func TestCollectedNeverFalls(t *testing.T) {
	e := newEndpoint(t, Sender)
	e.Collected(1, 2)
	e.Collected(1, 1)
	sends(e, 3)
	if messages, _, _ := e.Kept(1); messages != 1 {
		t.Errorf("%d messages are kept, want the third one only", messages)
	}
}

// TestConnectionAcknowledges: with a log at the sender, what the peer says it has
// counts as acknowledged.
func TestConnectionAcknowledges(t *testing.T) {
	e := newEndpoint(t, Sender)
	sends(e, 2)
	if _, err := e.PeerUp(1, 2); err != nil {
		t.Fatal(err)
	}
	if messages, _, unacked := e.Kept(1); messages != 2 || unacked != 0 || !settled(e, 1) {
		t.Errorf("%d messages are kept, %d bytes not acknowledged", messages, unacked)
	}
}

// TestSentAgain: a rank that sends again what the peer has does not transmit it, but
// keeps it, as the peer may go back behind it.
func TestSentAgain(t *testing.T) {
	e := newEndpoint(t, Sender)
	if _, err := e.PeerUp(1, 2); err != nil {
		t.Fatal(err)
	}
	if got := sends(e, 3); len(got) != 1 || got[0] != 3 {
		t.Errorf("transmits %v, want the third message only", got)
	}
	if messages, _, _ := e.Kept(1); messages != 3 {
		t.Errorf("%d messages are kept", messages)
	}
	acts, err := e.PeerUp(1, 0)
	if got := transmitted(acts); err != nil || len(got) != 3 {
		t.Errorf("to a peer that went back: %v, %v", got, err)
	}
}

// TestNewIncarnationEndsConnection: nothing is transmitted to a peer that has been
// replaced until the new one is connected.
func TestNewIncarnationEndsConnection(t *testing.T) {
	e := newEndpoint(t, Receiver)
	if _, err := e.PeerUp(1, 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Admit(1, 2); err != nil {
		t.Fatal(err)
	}
	if got := sends(e, 1); len(got) != 0 {
		t.Errorf("transmits %v", got)
	}
	acts, err := e.PeerUp(1, 0)
	if got := transmitted(acts); err != nil || len(got) != 1 {
		t.Errorf("when it is connected: %v, %v", got, err)
	}
}

// TestDuplicateIsAcknowledged: the sender of a message that came twice may have lost
// the first acknowledgement.
func TestDuplicateIsAcknowledged(t *testing.T) {
	e := newEndpoint(t, Sender)
	for range 2 {
		acts, err := e.Arrive(1, Message{Seq: 1})
		if err != nil || len(acts) == 0 || acts[len(acts)-1] != (Ack{1, 1}) {
			t.Errorf("%v, %v", acts, err)
		}
	}
}

// TestSnapshotStays: what is acknowledged after a checkpoint is in it all the same.
func TestSnapshotStays(t *testing.T) {
	e := newEndpoint(t, Receiver)
	sends(e, 1)
	st := e.Snapshot()
	e.Acked(1, 1)
	if kept := st.Kept[1]; len(kept) != 1 || string(kept[0].Data) != "data" {
		t.Errorf("%+v", kept)
	}
}
