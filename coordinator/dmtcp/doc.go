// Package dmtcp runs programs that are not changed, under DMTCP: it starts DMTCP's
// coordinator and the program, has checkpoints taken when they are due, stores each in
// the job, and restarts the program from what is stored.
//
// # Promises
//
//   - A checkpoint counts when the store has all of it: as many images as processes, each
//     parsed to its end, and committed. DMTCP's exit status 0 is not enough.
//   - The files that DMTCP wrote stay until the store has the next checkpoint, so that no
//     moment is without one.
//   - A restart that makes no progress is ended, and another is tried, if need be from an
//     older checkpoint.
//   - Whatever a killed coordinator has left behind, processes and files, the next one
//     finds in one file, ends, and stores.
//
// # How a checkpoint is taken
//
// DMTCP writes into the directory "live" of the run. When it says that it is done, the
// files are checked, made durable and moved to a directory of their own, a set. The set
// is noted in the file state.json. Then the program computes on while the set is stored
// by package image/dmtcp. Only one set waits at a time.
package dmtcp
