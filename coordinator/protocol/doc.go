// Package protocol holds the decisions of coordinated checkpointing as two pure state machines: a
// [Coordinator] for the job and a [Member] for each rank. An event goes in, actions come out.
// There is no clock, socket, file or goroutine in here: the caller supplies the time with each
// event and carries the actions out, so that the same code runs over real sockets in production
// and over a seeded simulator in tests.
//
// # One checkpoint
//
// A checkpoint is taken at an iteration boundary on which all ranks agree. A scheduled boundary
// is known beforehand: it travels with Start and Resume, and a rank that reaches it stops by
// itself. A boundary asked for in the middle of the run is agreed on in one more round:
//
//	coordinator            rank
//	Propose n        ──▶   holds at its next boundary
//	                 ◀──   Holding n, iteration in progress i
//	StopAt n, B      ──▶   B = max i: all are before it, since all hold
//	                 ◀──   Stopped n at B, messages sent to each peer
//	Drain n          ──▶   messages to expect from each peer
//	                 ◀──   Drained n: all of them have arrived
//	Write n          ──▶   the rank writes its image
//	                 ◀──   Written n (durable) or WriteFailed n
//	  commit               the manifest is renamed into place
//	Resume, next B   ──▶   goes on computing
//
// Config.Async moves Resume up, as the next section draws it.
//
// Whatever goes wrong before the commit ends in Abort n; each rank answers Aborted n once nothing
// of its own is being written any more; then the debris is discarded and Resume sent. The death
// of a rank discards the checkpoint and ends the incarnation: all ranks of it are killed, and a
// new incarnation is spawned from the last committed checkpoint.
//
// # Asynchronous checkpoints
//
// With Config.Async the job stands still only while every rank copies its memory. The images are
// written, and committed, behind the computation:
//
//	coordinator            rank
//	Write n          ──▶   copies its memory, then writes the copy
//	                 ◀──   Captured n
//	Resume, next B   ──▶   goes on computing, and writing
//	                 ◀──   Written n (durable) or WriteFailed n
//	  commit
//
// Written says Captured too: a rank that cannot copy its memory just writes it. From Resume on
// checkpoint n is behind, and n+1 the number of the next. The two never mix: what a message is
// about its number tells.
//
// There is at most one checkpoint behind; with Config.InFlight there are several, see below.
// Requests and schedules by time begin no other until it is committed or aborted. At a
// scheduled boundary the ranks stop all the same, and are drained only then: that is the
// back-pressure. The end of the job waits for it too. As long as nothing waits, a write
// behind may take its time; when something does, a rank that writes nothing for Limits.Phase
// has the checkpoint aborted, and one that does not stop writing for as long again is
// declared dead.
//
// Abort of a checkpoint behind ends its writing, and holds no application; the debris is
// discarded when all ranks have answered Aborted. The death of a rank loses the one behind,
// unless it is being committed: that is waited for. After the last rank is done, a death loses
// that checkpoint and nothing else.
//
// With Config.InFlight the ranks copy first, and write the copy when the checkpoints before it have
// ended, so that up to so many are behind. They are written one at a time, in their order:
//
//	Capture n        ──▶   copies its memory
//	                 ◀──   Captured n
//	Resume, next B   ──▶   goes on computing
//	Write n          ──▶   writes the copy, once n-1 is committed or aborted
//	                 ◀──   Written n (durable) or WriteFailed n
//
// The ranks stand still at a boundary only while as many are behind as may be.
//
// A checkpoint after which the job is to stop is written synchronously: what the ranks would
// compute meanwhile would be lost.
//
// # Two levels of storage
//
// Where checkpoints are written to directories of the nodes first, Commit makes one exist there,
// and it is copied into the store later, beside the protocol:
//
//	driver                 rank
//	Store n          ──▶   copies its file, at a limited rate, and computes
//	                 ◀──   Stored n (durable) or StoreFailed n
//	  manifest             is renamed into place in the store
//
// If no slot is free before an earlier checkpoint is stored, the driver keeps the order to write
// back, and says Postponed; Ordered says that it was sent. The ranks stand at the boundary
// meanwhile. Requests are heard, a stop without a checkpoint is carried out, and a wait longer
// than Limits.Phase aborts the checkpoint.
//
// # Groups
//
// A Coordinator has one group of ranks; all ranks may be in one. It asks before it does
// what concerns others, and the machine in package supervisor answers:
//
//	coordinator                     supervisor
//	Await start, drain        ──▶   Permit
//	Agreed: boundary, to stop ──▶   Boundary, or CancelStop
//	Down: the group failed    ──▶   RollBack, from which checkpoint
//	Rest: nothing left to do  ──▶   End, GoOn or RollBack
//
// Halt ends an incarnation that other groups force back. Ranks are numbered as in the job
// everywhere.
//
// A Member passes on what concerns the channels of its rank to other groups: Fence, Unfence,
// Moved and Collected from the coordinator, Fenced to it.
//
// # What it promises
//
//   - Commit n is asked for only after every rank of one incarnation has
//     reported Written n, stopped at the same boundary, with its channels
//     drained.
//   - No rank passes the boundary of a checkpoint before that checkpoint has
//     been committed or aborted; with Config.Async, or captured by all ranks.
//   - Discard n is asked for only when no rank writes n any more, or together
//     with the end of the job.
//   - At most one checkpoint is behind, or InFlight; no channel is drained for the next
//     before it is committed or aborted, and no job completes before.
//   - A rank that is silent longer than Limits.Silence, or a multiple of it after
//     restarts that got no further, is declared dead; a phase without progress
//     for Limits.Phase is aborted, naming the rank.
//   - Numbers of checkpoints grow and are never used twice within a job.
package protocol
