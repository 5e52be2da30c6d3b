// Package turns lets jobs and commands that share a storage unit use it one after the
// other. Serve is the controller of one unit: it listens on a Unix socket in the
// directory, and for other hosts on TCP. A Client is one process that moves bytes: it
// opens a burst with Begin, moves its bytes through Turn.FS, or after Await, and closes
// it with End. Package image/iosched/arbiter decides whose turn it is.
//
// # Promises
//
//   - A Client never fails. Without a controller, and with one that died, does not
//     answer or speaks another version, all bytes pass at once, and Report.Passed says why.
//   - A client waits for a silent controller at most ClientOptions.Patience, and for a turn
//     at most ClientOptions.MaxWait.
//   - While a turn is granted, an operation costs one atomic addition and no message.
//   - A turn is given back only while no operation is under way.
//   - Messages to clients never block the controller, and none has a length that it trusts.
//   - On a Unix socket, the kernel says which user a client is, not the client.
package turns
