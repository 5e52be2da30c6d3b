// Package rank is the process of one rank, which `ckpt rank` starts: the agent that
// follows the coordinator, the loop of the application, and the memory that checkpoints
// capture and restarts fill.
//
// [Run] returns when the coordinator lets the rank leave or is gone.
//
// # Promises
//
//   - A rank ends when its connection to the coordinator ends.
//   - Signs of life do not wait for any I/O.
//   - A checkpoint is reported written after its bytes are durable.
package rank
