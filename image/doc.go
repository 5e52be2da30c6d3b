// Package image keeps the checkpoints of parallel jobs on disk: the container
// format, the manifest, and the store that commits, lists, loads, verifies and
// prunes them.
//
// A coordinator opens the store, takes the lock of its job and sweeps what an
// earlier life may have left. For each checkpoint it calls Begin, has every
// rank process Write its image at the path it is given, and calls Commit:
//
//	store, err := image.CreateStore(vfs.OS{}, dir)
//	job, err := store.CreateJob("bt.S.4", spec)      // or store.Job, then job.Lock
//	removed, err := job.Sweep()
//	tx, err := job.Begin(1)
//	defer tx.Abort()
//	// in each rank process:
//	info, err := image.Write(ctx, vfs.OS{}, tx.RankPath(rank), header, regions, image.WriteOptions{})
//	// in the coordinator again:
//	err = tx.Commit(ctx, manifest)
//
// A rank that restarts reads the manifest and loads its file:
//
//	m, err := job.Manifest(n)
//	err = job.Load(ctx, m, m.Ranks[rank].File, rank, regions)
//
// # Promises
//
//   - When Commit has returned nil, the checkpoint survives a loss of power,
//     complete for all ranks. Until then it does not exist. There is nothing in
//     between, and no other checkpoint is affected.
//   - Every byte of every file is covered by a checksum or must be zero. Load
//     and Verify read all of them; what Load returns is what Write was given.
//   - No length, count or path in a file is believed before it is checked. A
//     damaged file costs an error that names file, offset and reason: never a
//     panic, an endless loop or more memory than the file is long.
//   - A failed Write leaves no file, a failed Commit no checkpoint.
//   - The same regions make the same file, byte for byte.
//
// # Store
//
//	DIR/format                         "ckpt-store 1\n"
//	DIR/jobs/JOB/job                   the caller's description of the job
//	DIR/jobs/JOB/lock                  flock: one writer per job
//	DIR/jobs/JOB/NNNN/manifest         the checkpoint; the rest is what it names
//	DIR/jobs/JOB/NNNN/rank-R.img       container files
//	DIR/jobs/JOB/NNNN/node-K.shared.img
//	DIR/jobs/JOB/NNNN/library.img
//
// A manifest may name files in the directory of an earlier checkpoint, and the
// index of a container may refer to extents in one. The directory of a pruned
// checkpoint therefore stays, without its manifest, as long as something in it
// is used.
//
// # Container
//
// All numbers are little-endian. Header, extents, index and trailer begin at
// multiples of 4096 so that they can be read and written around the page cache.
//
//	+--------------------+ 0
//	| header      4 KiB  |  job, checkpoint, rank, node, kind; CRC-32C
//	+--------------------+ 4096
//	| payload            |  extents, each padded with zeros to 4 KiB;
//	|   extent           |  no gaps, no overlap; CRC-32C in the index
//	|   extent ...       |
//	+--------------------+ index offset
//	| index              |  blake3-256 of the header block
//	|   regions          |  name, zone, element type, rank, size
//	|   external files   |  path, blake3-256 of that file's index
//	|   extents          |  64 bytes each
//	|   zeros to 4 KiB   |
//	+--------------------+ file length - 4096
//	| trailer     4 KiB  |  where the index is; its CRC-32C and blake3-256;
//	+--------------------+  the length of the file; CRC-32C
//
// The digest of the index is thus a digest of the header and, through the
// checksums of the extents, of the whole. It is in the manifest, so that a file
// cannot be taken for another. docs/FORMAT.md has every field.
package image
