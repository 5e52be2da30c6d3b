// Package fileview reads and writes the blocks of a file that a view selects,
// as if they lay next to each other, in few large calls instead of one call per
// block (data sieving).
//
// A checkpoint into a shared file has the zones of all ranks interleaved; an
// incremental one has runs of dirty pages between clean ones. A View describes
// such a pattern once, and a File then takes offsets that count wanted bytes
// only:
//
//	// One data zone per rank, the library zone of the rank before it.
//	v, err := fileview.NewView(header+library, []fileview.Tuple{{Size: data, Hole: library}}, ranks)
//	f, err := fileview.NewFile(file, v, fileview.Options{
//		Device: fileview.Device{Bandwidth: 118 << 20, Latency: time.Millisecond, Stripe: 2 << 20},
//	})
//	n, err := f.ReadAt(zone, rank*data) // partial restore: the data zone of one rank
//
// # Views
//
// A view begins at an offset of the file and goes through a list of tuples,
// again and again. A tuple is a block of wanted bytes and the hole after it:
//
//	file   0      initial
//	       +------+--------+-------+-----+------+--------+-------+----
//	       |      | block0 | hole0 | blk1| hole1| block0 | hole0 | ...
//	       +------+--------+-------+-----+------+--------+-------+----
//	view          0      size0         size0+size1
//
// The displacement of an MPI file view is the initial offset, its flattened
// filetype the list of tuples, its etype a byte.
//
// # Rules
//
// To read two blocks and the hole between them with one call pays as long as the
// hole takes less time than a call costs. A Rule
// decides which blocks to join; Method has the rules of the literature, and
// Adaptive, the default. Joined
// blocks go through a buffer of at most Options.Buffer bytes. Blocks that touch
// are read and written in place.
//
// # Promises
//
//   - The bytes that ReadAt returns, and the file after WriteAt, are the same
//     under every rule. A rule decides about cost only, whatever it answers.
//   - No call is larger than Options.Buffer, and a File has one buffer of that
//     size at most. Two calls that both need it take turns; who wants them in
//     parallel makes two Files over one file and one Locker.
//   - A write does not change a byte outside of its blocks. When it joins over a
//     hole it reads the hole and writes back what it read, with the range locked
//     all the while. Where there is no hole it is a plain write, which takes the
//     lock as well: it could be in the hole of somebody else. Nobody loses an
//     update, provided that all who write at the same time use the same Locker,
//     or Lockers that exclude each other as those of NewOFDLock do.
//   - A file grows to the last byte written and no further. Holes on the way
//     become zeros.
//   - Memory and time per call follow from the blocks asked for; the length of
//     the list of tuples counts with its logarithm.
//
// A write is not atomic: if it fails, some of its blocks may have been written,
// the last of them in part. Neither is it durable; that takes the Sync of the
// file.
//
// The method is that of Zickler (thesis, 2015), sections 3.3 and 4.4, with
// offsets of 64 bits throughout and without its read-modify-write of accesses
// that have no hole.
package fileview
