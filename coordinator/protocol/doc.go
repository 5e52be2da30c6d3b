// Package protocol holds the decisions of coordinated checkpointing as two
// pure state machines: a [Coordinator] for the job and a [Member] for each
// rank. An event goes in, actions come out. There is no clock, socket, file or
// goroutine in here: the caller supplies the time with each event and carries
// the actions out, so that the same code runs over real sockets in production
// and over a seeded simulator in tests.
//
// # One checkpoint
//
// A checkpoint is taken at an iteration boundary on which all ranks agree.
// A scheduled boundary is known beforehand: it travels with Start and Resume,
// and a rank that reaches it stops by itself. A boundary asked for in the
// middle of the run is agreed on in one more round:
//
//	coordinator            rank
//	Propose n        ──▶   holds at its next boundary
//	                 ◀──   Holding n, iteration in progress i
//	StopAt n, B      ──▶   B = max i: nobody is past it, since all hold
//	                 ◀──   Stopped n at B, messages sent to each peer
//	Drain n          ──▶   messages to expect from each peer
//	                 ◀──   Drained n: all of them have arrived
//	Write n          ──▶   the rank writes its image
//	                 ◀──   Written n (durable) or WriteFailed n
//	  commit               the manifest is renamed into place
//	Resume, next B   ──▶   goes on computing
//
// Whatever goes wrong before the commit ends in Abort n; each rank answers
// Aborted n once nothing of its own is being written any more; then the debris
// is discarded and Resume sent. The death of a rank discards the checkpoint
// and ends the generation: all ranks of it are killed, and a new generation is
// spawned from the last committed checkpoint.
//
// # What it promises
//
//   - Commit n is asked for only after every rank of one generation has
//     reported Written n, stopped at the same boundary, with its channels
//     drained.
//   - No rank passes the boundary of a checkpoint before that checkpoint has
//     been committed or aborted.
//   - A rank that is silent longer than Limits.Silence is declared dead; a
//     phase without progress for Limits.Phase is aborted, naming the rank.
//   - Numbers of checkpoints grow and are never used twice within a job.
package protocol
