// Package channel keeps the messages between groups of ranks that fail and restart apart from
// each other. An [Endpoint] is one rank's side of its channels to all ranks outside its group; a
// channel is an ordered pair of ranks. It survives the death and the restart of either end: what
// is sent is received exactly once, in order, whatever happens to the connections and the
// processes in between.
//
// An Endpoint is a pure state machine. It knows no clock, goroutine, socket or file: an event
// goes in, actions come out, and the same events give the same actions. The caller carries them
// out in their order. Package mpi does so over real connections, a simulator over whatever it
// makes up.
//
// # Use
//
//	e := channel.New(channel.Config{Kind: channel.Receiver, Rank: 0, Size: 4})   // or Restore
//
//	seq, acts := e.Send(dst, channel.Message{Context: …, Tag: …, Data: …})
//	acts, err := e.Arrive(src, message)   // ErrGap: connect again
//	acts := e.Logged(index)               // all frames up to Append.Index are durable
//	acts := e.Acked(src, seq)             // a cumulative acknowledgement came
//	e.Collected(peer, seq)                // a committed checkpoint of the peer has them
//
//	err = e.Admit(peer, incarnation)      // both ends of a new connection, first of all
//	have := e.Have(peer)                  // the receiver tells the sender …
//	acts, err := e.PeerUp(peer, have)     // … who sends what is missing; then the
//	acts = e.Connected(peer)              // receiver acknowledges what is stable
//	e.PeerDown(peer)                      // the connection to the peer is lost
//
//	src, seq, ok := e.Recorded()          // before each receive from any source
//	wait, acts, err := e.ReceivedAny(src, seq) // after it; go on once Durable() >= wait
//
//	state := e.Snapshot(); b := state.Encode()   // part of a checkpoint
//	st, err := channel.Decode(b)
//	e, acts, err := channel.Restore(config, st, frames, nil)
//
// # Kinds
//
// The rank is taken to be piecewise deterministic (Strom and Yemini, Optimistic Recovery in
// Distributed Systems, ACM TOCS 3(3), 1985): what it does follows from its checkpoint and from
// what it receives. A receive that names its source is determined, since a channel is FIFO and a
// tag picks the first match. Not determined is which source a receive from any source gets: the
// matches. They are numbered from 1; a match with its number is a determinant.
//
//	            payload                      match               ack says
//	Receiver    logged by the receiver,      logged, waited for, in the log
//	            then delivered               if inside the group
//	Sender      kept by the sender until     logged, waited for  delivered
//	            a checkpoint covers it
//	Optimistic  delivered, logged behind     logged behind       in the log
//	None        kept until it is delivered   not logged          delivered
//
// Receiver and Sender are pessimistic: what the rest of the world can have heard of is stable,
// and a failed rank goes on alone (Elnozahy, Alvisi, Wang and Johnson, A Survey of
// Rollback-Recovery Protocols in Message-Passing Systems, ACM Computing Surveys 34(3), 2002,
// section 4). Sender is that of Johnson and Zwaenepoel (Sender-Based Message Logging, FTCS-17,
// 1987) but for the place of the determinant, which the receiver's log holds rather than the
// sender's memory, so that any number of ranks may fail together.
//
// With Receiver a match with a message from outside needs no frame: deliveries are made in the
// order of the log, and a receive from any source takes the earliest delivery that fits, so that
// the order of the log says which one it was. Only matches with messages of the own group, which
// are not in the log, are written.
//
// # Dependencies
//
// With Optimistic every message carries on how many matches of each rank it depends, its sender's
// own among them, and what receives it depends on these, too: the dependency vectors of Strom and
// Yemini, with matches in the place of receipts. If a rank loses all but its first k
// determinants, whoever depends on more of them is an orphan. As only matches count, loss of the
// tail of a log costs nothing in a program that names its sources, whose messages carry
// no vector at all: the messages lost are still kept by their senders, or come again.
//
// (Direct dependencies alone, as in Johnson and Zwaenepoel, Recovery in Distributed Systems Using
// Optimistic Message Logging and Checkpointing, J. of Algorithms 11(3), 1990, would not do. A
// rank that goes back to its last match, because it has received an orphan since, has sent other
// messages since as well, which carry no more matches of its own than those it keeps.)
//
// For package recovery a state of a rank then is one with "sent" = its Matches, to everybody, and
// "received" = its Depends, in transit allowed. With None it is Sent and Received, in transit
// forbidden. The line found is given to [Restore] as the number of determinants that each rank
// keeps.
//
// Optimistic needs groups of one rank: dependencies inside of a group are not tracked.
//
// # Promises
//
//   - Deliver comes once for each message of a channel, in the order of Send,
//     over all incarnations of both ends, provided that a receiver is restored
//     from a committed checkpoint and its log, and (Optimistic, None) that the
//     restored states are a consistent line.
//   - With Receiver, a message is delivered and acknowledged only when it is
//     durable. With Receiver and Sender, whoever goes on after a match only when
//     Durable says so can never become an orphan, nor make one.
//   - A sender forgets what it keeps once it is acknowledged (Receiver, Optimistic,
//     None) or collected (Sender). If a peer needs a message that is not kept any
//     more, PeerUp says so: a message is not lost silently.
//   - A log whose commit failed loses no message: Relog gives its frames again,
//     and what was not durable is not delivered (Receiver) and not acknowledged.
//   - A state is read without trusting a length in it, and has a checksum.
//
// # State
//
// All numbers are little-endian; n is the number of ranks.
//
//	0    8   "CKPTCHN\x01"
//	8    1   kind
//	9    3   zero
//	12   4   ranks in the job, n
//	16   4   rank
//	20   4   zero
//	24   8   matches with any source so far
//	32   8   outputs so far
//	40   8n  messages sent, by rank
//	…    8n  messages received
//	…    8n  Depends
//	…    8   number of determinants that are still to be followed, each
//	           0  8  number of the match
//	           8  8  number of the message in its channel, 0 for a message of
//	                 the own group
//	           16 4  source
//	           20 4  zero
//	…    8   number of messages kept, by rank and number, each
//	           0  4  destination
//	           4  4  tag
//	           8  1  context
//	           9  7  zero
//	           16 8  number in its channel
//	           24 8  number of ranks in its Depends, 0 or n
//	           32 8  bytes
//	           40    its Depends, 8 bytes each, and the message
//	end  4   CRC-32C of all before
package channel
