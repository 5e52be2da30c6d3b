// Package recovery finds recovery lines: the checkpoints to which the ranks of a
// job roll back after a failure, when the ranks checkpoint without coordination.
// It is pure: a [History] goes in, a [Line] comes out.
//
// # Use
//
// Every rank counts the messages that it has sent to and received from each
// peer and stores the two vectors with each of its checkpoints. That is all a
// History needs; after a failure the survivors report the vectors of the state
// they are in.
//
//	h := &recovery.History{Ranks: []recovery.Rank{{Checkpoints: …, Current: …}, …}}
//	line, err := recovery.Find(h, failed, recovery.Options{InTransit: recovery.Forbidden})
//	for _, p := range line.Places { … }           // the state that each rank resumes from
//	garbage, err := recovery.Collect(h, options)  // states that no later recovery needs
//	dead, err := recovery.Useless(h)              // checkpoints that are of no use
//	err = recovery.Text(os.Stdout, line, garbage, "rank")
//	err = diagram.Draw(w, "svg", diagram.Figure{History: h, Line: line, Garbage: garbage})
//
// The vectors of the survivors must describe one moment: no rank may have
// received what another one reports not to have sent. Ranks that have stopped
// before they report, or channels whose counters are read at the receivers
// first, ensure this. Find refuses a History that violates it.
//
// # Model
//
// Channels are directed and FIFO, one per ordered pair of ranks, and their
// messages are numbered from 1 in the order of sending: the counters of a state
// say exactly which messages it has sent and received. A message counts as
// received when it is part of the rank's state, whether the program has asked
// for it or it waits in the inbox that is saved with the state.
//
// Between state ci of rank i and state cj of rank j there is
//
//   - an orphan, if cj.Received[i] > ci.Sent[j]: cj depends on a message that,
//     after the rollback, has never been sent. No line may have one.
//   - a message in transit, if ci.Sent[j] > cj.Received[i]: it was sent and has
//     not arrived. With Options.InTransit Allowed the caller has it in a log
//     and replays it. With Forbidden it would be lost, and no line may have one either, with one exception: between two
//     ranks that both keep their current state the channel lives on and
//     delivers it.
//
// Ranks that checkpoint and fail together are one Rank of a History whose Members
// says so. Their counters stay apart, channel by channel.
//
// A state need not be a checkpoint. A rank can rebuild a later state from a
// checkpoint by replaying its log of receives, up to the last stable one: give that
// state Logged. Recovery from optimistic logs uses such states (Strom and Yemini 1985; Johnson and Zwaenepoel 1990).
//
// # Promises
//
//   - The line is the maximal consistent one: no consistent set of states lets
//     any rank keep more. There is exactly one, since the consistent lines are
//     closed under taking the later state of each rank. The tests compare with
//     all combinations.
//   - Find takes O(ranks · states of all ranks) steps by rollback propagation
//     (Bhargava and Lian 1988; Elnozahy, Alvisi, Wang and Johnson, A Survey of
//     Rollback-Recovery Protocols in Message-Passing Systems, ACM Computing
//     Surveys 34(3), 2002, section 3.1).
//   - No recovery needs a state that Collect lists, whichever ranks fail next and
//     whatever they do before (Wang, Chung, Lin and Fuchs,
//     Checkpoint Space Reclamation for Uncoordinated Checkpointing in
//     Message-Passing Systems, IEEE TPDS 6(5), 1995).
//   - A checkpoint that Useless lists lies on a zigzag cycle and belongs to no
//     consistent set of checkpoints (Netzer and Xu, Necessary and Sufficient Conditions for
//     Consistent Global Snapshots, IEEE TPDS 6(2), 1995).
//   - The same History gives the same result, steps and causes included.
package recovery
