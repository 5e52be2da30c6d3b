// Package slowfs is a file system as slow as a disk that is described. Processes that are
// given the same directory share the disk: it has one arm, which serves one piece of an
// operation at a time, in the order in which they come, and moves between files.
//
//	fsys, err := slowfs.FromEnvironment(os.Getenv)   // the machine's, without a described disk
//
// It makes visible on a fast disk, or in memory, what several jobs do to each other on a
// slow one. The bytes go to the file system beneath as they would without it.
//
// Promises:
//
//   - Together, all processes move no more bytes in a time than the disk would. An operation
//     that would take longer beneath takes as long as it does there.
//   - A large operation is cut into pieces of Model.Unit. Pieces of several processes alternate.
//   - A piece that does not continue the one before it, in the same file, costs a seek.
//   - A process that dies or is stopped, whenever that happens, holds up no other: the state is
//     one word of shared memory, and whoever changes it does so in one step.
//   - Files keep all abilities of package vfs that they have beneath.
//
// A file outside the directory is as fast as it is beneath.
package slowfs
