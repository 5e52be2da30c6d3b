// Package image keeps the checkpoints of parallel jobs on disk: the manifest, and
// the store that commits, lists, loads, verifies and prunes them. Package container
// has the files that a checkpoint consists of.
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
//	info, err := container.Write(ctx, vfs.OS{}, tx.RankPath(rank), header, regions, container.WriteOptions{})
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
package image
