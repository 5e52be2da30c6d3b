// Package tune predicts how long a checkpoint takes on a storage that package pfs
// describes, and finds the settings that suit it.
//
//	f, err := tune.Predict(ctx, system, c)                 // seconds, phases, the bottleneck
//	choice, err := tune.Search(ctx, system, c, tune.Pause) // the best settings, and why
//
// The plan of the checkpoint is the one that the ranks would carry out; pfs carries it
// out in virtual time. So nodes share what they share on the storage: a server, a
// router, the processors of a host.
//
//	latency = coordination + management + storage
//
// Coordination and management come from the description's service. Storage is the
// simulation: files are created, extents packed, gathered, written and made durable. Of
// several rounds the first is packed before anything is written, and the others while
// the round before is written. With Async the application continues once its memory is
// copied, and the pause is coordination and the copy.
//
// An Adapter follows a job that runs. Where its checkpoints disagree with their forecasts,
// it scales the description by what was measured, and looks for a better way.
//
// # Promises
//
//   - A forecast is a function of its input, and of the seed.
//   - Search never chooses what it predicts to be worse than the default, nor what
//     exceeds the limit of memory.
//   - The interval of a forecast holds what the description missed of probes that were
//     kept apart, and the doubt about the stored bytes.
package tune
