// Package supervisor is the protocol of a job whose ranks checkpoint in groups. A group takes
// coordinated checkpoints of its own, fails as a whole and restarts as a whole; messages between
// groups go through logged channels (package channel). All ranks in one group is coordinated
// checkpointing, one rank per group is uncoordinated checkpointing, the ranks of a node in a
// group is semi-coordinated checkpointing.
//
// A [Supervisor] owns one protocol.Coordinator per group, which decides what concerns that group
// alone, and decides what concerns several: who goes back where after a failure, when the job
// ends, what may be removed. Like them it is a pure state machine: the caller supplies the time
// with each event and carries the actions out in their order.
//
// # Use
//
//	s, err := supervisor.New(supervisor.Config{Groups: [][]int{{0, 1}, {2, 3}}, Log: channel.Receiver, …})
//	perform(s.Begin(0))
//	perform(s.Step(now, supervisor.Event{Group: 1, Event: protocol.RankLost{…}}))
//	at, ok := s.Deadline()   // Step(at, Event{Job, protocol.Tick{}}) at the latest
//
// Ranks are numbered within the job. Requested, Tick and Examined are of the job, all other
// events of a group; Answer, Print, Collect, Recovery, Finish and the notice of a job that
// restarts from scratch are of the job, all other actions of a group. With one group, a
// Supervisor does exactly what the Coordinator alone does.
//
// Numbers of checkpoints are unique within the job: group g of G has those with number ≡ g+1 (mod
// G). The incarnation of a process is the incarnation of its group.
//
// # After a failure
//
// With a pessimistic log, at the receiver or at the sender, nothing that anybody outside the
// group may depend on is ever lost (Elnozahy, Alvisi, Wang and Johnson, A Survey of
// Rollback-Recovery Protocols in Message-Passing Systems, ACM Computing Surveys 34(3), 2002,
// section 4.1; Johnson and Zwaenepoel, Sender-Based Message Logging, FTCS-17, 1987). The failed
// group goes back to its newest checkpoint, alone, and replays:
//
//	failed group         supervisor                     other groups
//	a rank died     ──▶
//	                ◀──  Spawn from its newest
//	Hello, address  ──▶
//	                     Moved: rank, incarnation  ──▶  connect again, send again
//	Ready           ──▶                                 what it does not have
//	                ◀──  Moved: all others; Start
//
// Without a log, or with an optimistic one (Strom and Yemini, Optimistic Recovery in Distributed
// Systems, ACM TOCS 3(3), 1985), what a group has lost can force others back. The recovery line
// is found by package recovery, from one moment: the survivors are fenced, that is, they exchange
// nothing with other groups while it is looked for, and say what they depend on. With an
// optimistic log, the logs of those that go back are read next, which may well show that others
// have to go back as well; it ends when no further group is forced:
//
//	failed group         supervisor                     other groups
//	a rank died     ──▶
//	                     Fence                     ──▶  drop their connections
//	                ◀──  Examine (Optimistic)      ◀──  Fenced: vectors
//	stable states   ──▶
//	                     the line; Examine of those that it forces back, and again
//	                     Forget what comes after the line
//	                ◀──  Spawn                     ──▶  those that go back
//	                     Unfence                   ──▶  those that do not
//	Ready           ──▶                            ◀──  Ready
//	                ◀──  Start, when all are ready ──▶
//
// Those that went back start together: until then the others have heard nothing new of them, so that
// a failure meanwhile finds the same history as this one did. A survivor that does not answer the
// fence within Limits.Phase is declared dead. A commit under way in a group that has to go back
// is waited for.
//
// If no line is left, because checkpoints are damaged and logs have been cut, the whole job
// restarts from scratch.
//
// # The end
//
// A group that has ended keeps its processes: others may fail yet and need what it has kept for
// them, and it may be forced back itself. When all groups have ended, the job has.
//
// A stop brings all groups to one iteration boundary, where all messages are drained, those
// between groups too, and has them all store: whatever the log, the line so stored is consistent
// and loses nothing.
//
//	each group           supervisor
//	                ◀──  a request to stop
//	all hold        ──▶  Agreed: a boundary it can reach
//	                ◀──  Boundary: the latest of these, raised if another comes
//	all stand there ──▶  when this is so of all groups
//	                ◀──  Permit: drain, with what other groups have sent
//	committed       ──▶  Rest
//	                ◀──  End, when all rest
//
// # What the caller sees to
//
//   - Spawn, Examine and Forget: the processes of the group are ended before, and
//     are gone; what they had begun to store is swept.
//   - Committed brings the channel.Vector of each rank as of the checkpoint.
//     Stopped counts the messages sent to ranks inside the group, since the
//     process began, and outside, since the job began; Drain says the same of what
//     is to have been received.
//   - A checkpoint holds channel.State and inbox of one moment. With an optimistic
//     log, WriteDone waits until all frames appended before are durable.
//   - A rank tells its output before the Stopped that follows, and Print is
//     noted durably before a later Commit is carried out.
//   - The Base of Collect is durable before anything is removed, Forget has been
//     carried out before what follows.
//   - A Supervisor that takes a job over begins when all its processes are gone.
//
// # What it promises
//
//   - The state that the job resumes from after a failure has no orphan, and no
//     message is lost. If the program is deterministic but for its receives from
//     any source, it ends as it could have without failures.
//   - With a pessimistic log only the groups that failed go back; without, only
//     the groups that the maximal recovery line sends back.
//   - No recovery to come needs what Collect removes, and Keep of the
//     newest checkpoints of each group are there for the case that one is damaged.
//   - Each output is printed once, however often ranks and coordinator fail.
//   - If failures stop, the job completes.
//
// The tests run seeded schedules of faults in a simulated job, at least 100,000 in the nightly
// form (CKPT_SIM_SCHEDULES), and see to it that the simulation notices when the protocol does one
// thing wrong.
package supervisor
