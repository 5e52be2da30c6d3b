// Package mount shows checkpoints, and storage, as file systems in user space (FUSE), so that
// programs in any language read and write through the project unchanged:
//
//	m, err := mount.Browse(store, "/mnt/ckpt", mount.BrowseOptions{Log: log})
//	defer m.Unmount()
//	m.Wait()
//
// # Browsing
//
//	JOB/latest                 a link to the newest checkpoint
//	JOB/N/manifest.json        what checkpoint N consists of
//	JOB/N/rank-R/NAME.npy      an array of a rank, for numpy.load
//	JOB/N/global/NAME.npy      an array of all ranks as one, without halos
//
// A slash in the name of an array becomes %2F, a percent sign %25.
//
// # Storage
//
// Storage shows a directory, for reading and writing. A Gate decides when bytes move, a Watch
// learns of each request, and Files may hold the bytes instead of the directory.
//
// # Promises
//
//   - Browse writes nothing to a store.
//   - Every byte is checked when it is read. Damage costs EIO and a line with file, offset and
//     reason; bytes beside it are read (TestBrowse).
//   - Reading costs the extents that it touches, and holes between them where that takes less time
//     than another call; an open file keeps 16 MiB of them.
//   - A new checkpoint appears at the next look at its job, a pruned one goes within a second. Its
//     open files can be read to their ends (TestBrowse).
//   - Where a daemon was killed, Browse and Storage mount again.
//   - Bytes that a program has synchronised through Storage are on the storage of the directory.
package mount
