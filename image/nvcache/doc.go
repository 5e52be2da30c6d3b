// Package nvcache keeps checkpoints on the nodes that made them, before and after they
// are in the store: the tier.
//
// Each node has a directory, which is a store by itself. It holds the container files of
// its ranks, what protects those of other nodes, and the manifest of the whole
// checkpoint:
//
//	DIR/format
//	DIR/jobs/JOB/job                   the description of the job, as in the store
//	DIR/jobs/JOB/node                  which node the directory belongs to
//	DIR/jobs/JOB/NNNN/rank-R.img       of this node's ranks, and copies of others'
//	DIR/jobs/JOB/NNNN/parity-S-I.par   of set S
//	DIR/jobs/JOB/NNNN/manifest         of all ranks
//
// A coordinator opens the tier and makes room for a version, the ranks write their files
// through writers, and Commit makes the version exist:
//
//	tier, err := nvcache.Open(job, description, setting, nodesOfRanks, nodes)
//	err = tier.Prepare(node, number)          // for each node
//	// in each rank process:
//	w, err := tier.Writer(ctx, number, rank, sinks...)
//	info, err := container.Write(ctx, w.FS(), w.Path(), header, regions, options)
//	err = w.Finish(ctx)
//	// in the coordinator again:
//	err = tier.Commit(ctx, manifest)
//
// # Promises
//
//   - A version without a manifest does not exist. All its bytes, and those that protect
//     them, are durable before its first manifest is written; so any one sound manifest
//     means that it exists.
//   - Its manifests go first, on all nodes, when a version is reclaimed.
//   - Recover puts in place the bytes that were written, wherever it finds them: the
//     manifest leads to digests and checksums of all of them.
//   - A version whose identity is not that of the checkpoint of the same number in the
//     store is stale: Settle removes it.
//
// Everything goes through a vfs.FS for each node, which may be that of another host.
package nvcache
