// Package timing predicts how long a distributed cache of persistent memory takes, as
// in the thesis of Malinowski: virtual time, no bytes. Plain MPI I/O and a tier of
// checkpoints are timed on the same machine.
//
//	machine, err := timing.Load("lap06")
//	setup := timing.Setup{Machine: machine, Cached: true}
//	result, err := timing.Blocks{Requests: 100_000, Bytes: 1024, Write: true}.Run(ctx, setup)
//	fmt.Println(result.Rate)
//
// # Promises
//
//   - The same input gives the same result.
//   - One description of a machine serves all workloads: no number of it is set for one
//     of them.
//
// docs/TIERS.md says what the description assumes, and compares results with the
// thesis.
package timing
