// Package probe measures a directory: how fast it takes the requests of a checkpoint.
//
//	r, err := probe.Run(ctx, vfs.OS{}, "/scratch", probe.Options{Time: time.Minute, MaxBytes: 256 << 20})
//
// A probe writes as package container does: several writers, each with some requests
// under way, into files of their own or into one that all share, around the page cache
// or through it, and syncs at the end. Further probes create, rename, remove and sync
// small files. All probes take turns, in an order drawn anew for each round, so that
// other work on the machine meets all alike. MeasureHost copies memory, and pulls bytes
// over the loopback network.
//
// # Promises
//
//   - All files lie in one new directory inside of the one that is measured. Run removes
//     it, also after an error and when the context is done.
//   - At most Options.MaxBytes lie there at a time, and at most half of the free space.
//   - Run begins no probe that the time left is too short for, once each was measured. It
//     exceeds twice the time only as long as a fit would have too few probes.
//   - Some of the probes are held out, drawn by the seed: they are for checks, no fit
//     may use them.
package probe
