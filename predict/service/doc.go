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
package service
