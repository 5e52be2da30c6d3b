// Package coordinator runs a parallel job under checkpoints: it starts the
// ranks as processes, takes coordinated checkpoints into a store, notices
// deaths, restarts from the last committed checkpoint, and serves requests from
// other terminals.
//
// [Launch] begins a new job and [Restart] continues one; both return when the job has
// ended. Package job knows what the store keeps of the job, package rank is the other
// side of the connections, package wire is what goes over them.
//
// The decisions are in package protocol, a pure state machine; this package
// carries them out. One goroutine, the loop of a [driver], owns all state of
// the job; connections, processes and timers post to its mailbox.
//
// # Promises
//
//   - A checkpoint that is reported taken is durable for all ranks.
//   - A failed write, a full disk included, neither ends the job nor harms an
//     earlier checkpoint.
//   - No rank outlives the coordinator: a rank leaves when its connection ends.
//   - Ranks and requests prove themselves with a random token of the run; the
//     coordinator listens on a Unix socket only.
package coordinator
