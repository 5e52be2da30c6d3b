// Package modes predicts what the modes of checkpointing and the logs of messages cost:
// how many bytes are logged, what storing group by group takes, how long a restart of
// one group or of all ranks takes, and how much work a failure costs.
//
//	groups, err := modes.Groups(modes.Semi, mapping, 0)     // group of each rank
//	t := modes.Count(inst, groups)                          // traffic between the groups
//	bytes := t.Logged(modes.Receiver).Bytes                 // of an iteration
//	c := modes.Cost(&modes.Case{…})                         // all of it
//
// The thesis (León Otero, UAB 2022, section 3.3.2) splits the time of a checkpoint of one
// group into management and storage, Eq 3.6, and names three cases of contention without
// a model: no other group stores at the same time, all do, or a share of them. [Case]
// has that share as a number.
//
// # Promises
//
//   - The functions are pure: the same arguments give the same results.
//   - Every cost is a [fit.Range]. Its ends are those of all quantities that it depends on,
//     so that it holds whatever depends on whatever.
//   - [Result.Assumed] names each quantity that is assumed and not measured.
//   - Logged bytes are those of the frames of a message log of ckpt, heads and padding
//     included, and follow from the pattern of the messages alone.
package modes
