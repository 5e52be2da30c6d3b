package supervisor

import (
	"ckpt/coordinator/protocol/channel"
)

// A mutant is a protocol with one thing done wrong. The zero value does all of it
// right.
type mutant struct {
	skipDrain      bool   // store without having received what was sent in the group
	forgetKept     bool   // leave messages kept for others out of a checkpoint
	ignoreOrder    bool   // replay receives from any source in whatever order
	goOnEarly      bool   // go on before the determinant of a receive is durable
	anyIncarnation bool   // exchange messages with processes that were replaced
	forgetAddress  bool   // forget where a process is that was announced during a fence
	resendLater    uint64 // begin that many messages too late after a connection was made
	collectMore    uint64 // forget that many messages too many
	truncateMore   int    // cut that many frames too many off a log
	dropFrame      bool   // say that a frame is durable which was never written
	deliverEarly   bool   // deliver and acknowledge before the frame is durable
	noDuplicates   bool   // take for new what has been received before
	zeroSent       bool   // go back without the number of messages sent
	ackEarly       bool   // acknowledge before the frame is durable
	noPrinted      bool   // a coordinator that takes over does not know what was put out
	noFlush        bool   // store a checkpoint before the log that it covers
	commitEarly    bool   // commit before the last rank has written
}

// wrote hears of the frames that a sync has made durable.
func (m *mutant) wrote(log *simLog, n int) {
	if m.dropFrame && n > 1 {
		// The next to last one, so that the log stays as long.
		i := len(log.frames) - (log.end() - log.durable) - 2
		log.frames[i] = log.frames[i+1]
	}
}

// arrive takes a message from a connection.
func (m *mutant) arrive(p *proc, src int, msg channel.Message) ([]channel.Action, error) {
	if m.noDuplicates && msg.Seq <= p.e.Have(src) {
		p.inbox = append(p.inbox, letterIn{src, msg.Tag, msg.Seq, decodeLetter(msg.Data)})
		p.run()
	}
	acts, err := p.e.Arrive(src, msg)
	if m.ackEarly && err == nil {
		acts = append(acts, channel.Ack{To: src, Seq: msg.Seq})
	}
	if m.deliverEarly && err == nil {
		if a, ok := acts[len(acts)-1].(channel.Append); ok {
			acts = append(acts, p.e.Logged(a.Index)...)
		}
	}
	return acts, err
}

// restored is what a rank goes back to.
func (m *mutant) restored(st *channel.State) *channel.State {
	if !m.zeroSent {
		return st
	}
	c := *st
	c.Vector.Sent = make([]uint64, st.Size)
	c.Kept = make([][]channel.Message, st.Size)
	return &c
}
