// Package wire is how the coordinator of a job speaks with its ranks and with other
// commands: the environment of a rank process, the greeting that begins a connection,
// the bodies of messages, errors that keep their kind on the way, and the [Client] of a
// running job.
//
// # Promises
//
//   - A connection without the random token of the run is closed at its first line.
//   - Sending to a rank never blocks, even if the rank does not read.
package wire
