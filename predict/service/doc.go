// Package service predicts what ckpt itself stores of a job, and how long that takes.
//
//	f, err := service.New(runs)        // what jobs measured
//	s := f.Size(job)                   // the first checkpoint and those that follow
//	t := f.Time(job, s.Next)           // coordination + management + storage
//
// An image of another checkpointer is the memory of its process. Of that memory ckpt
// stores less, for known reasons, and each has its own term:
//
//   - the library once for a job, the segment once for a node
//   - nothing of extents that are zeros: of an array the program may write the leading
//     part only, its used share
//   - nothing of extents that have not changed since the checkpoint before: an iteration
//     rewrites the leading part of an array, its changed share
//   - packed extents: each array by its own ratio
//   - header and index of each file
//
// The shares come from the workload spec. Jobs confirm or replace them: how many extents
// of an array were stored bounds its share from both sides. Intervals hold these bounds,
// and what earlier predictions of the measured jobs were off by.
//
// A checkpoint refers to files of the last 15 only, so each sixteenth stores the memory
// that never changes again.
//
// Sizes are in bytes, times in seconds, both of all ranks together.
//
// # Modes
//
// The package predicts, too, what the modes of checkpointing and the logs of messages cost:
//
//	groups, err := service.Groups(service.Semi, mapping, 0)  // group of each rank
//	t := service.CountTraffic(inst, groups)                  // traffic between the groups
//	bytes := t.Logged(service.Receiver).Bytes                // of an iteration
//	c := service.CostOf(&service.ModeCase{…})                // all of it
//
// The thesis (León Otero, UAB 2022, section 3.3.2) splits the time of a checkpoint of one
// group into management and storage, Eq 3.6, and names three cases of contention without
// a model: no other group stores at the same time, all do, or a share of them. [ModeCase]
// has that share as a number. Every cost is a [fit.Range] whose ends come from all
// quantities that it depends on, so that it holds whatever depends on whatever;
// [ModeCost.Assumed] names the quantities that were not measured. Logged bytes are those
// of the frames of a message log of ckpt, heads and padding included.
package service
