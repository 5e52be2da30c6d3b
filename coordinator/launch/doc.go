// Package launch starts the processes of ranks: as children, or with one command of
// mpiexec or srun for all of them. It also keeps the directory of a run outside the
// store, which holds the socket and the scratch files of each node.
//
// # Promises
//
//   - A process counts as done only when the kernel has reaped it.
//   - The next run removes the directories and the shared memory of dead runs.
package launch
