// Package nodes keeps checkpoints on the nodes that made them, before and after they
// are in the store: the tier.
//
// Each node has a directory, which is a store by itself. It holds the container files of
// its ranks, what protects files of other nodes, and the manifest of the whole
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
//	tier, err := nodes.Open(job, description, setting, nodesOfRanks, nodes)
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
//   - A version is stale if the store has another checkpoint of this number: Settle
//     removes it.
//
// Everything goes through a vfs.FS for each node, which may reach another host.
//
// # Protection
//
// A Scheme protects files from the loss of nodes: by copies on partner nodes, or by parity
// of a set of ranks on different nodes.
//
//	sets := scheme.Sets(topology)
//	sink, err := Coded(set, member, holders)
//	tee := Tee(fsys, path, sink)
//	container.Write(ctx, tee, path, …) // one pass over the bytes
//	tee.Wait(ctx)                       // what protects them is durable
//
// The nodes are divided into groups. The ranks that have the same index within their
// nodes make a set: one member for each node of the group. A node that has fewer ranks
// than the others takes part without a rank, so that every rank is in a set.
//
// The members' files are cut into units. In each row, some members' nodes hold parity
// and the next units of the others are the data; the places move by one from row to
// row, as in RAID-5 and RAID-6. Bytes beyond the end of a file count as zeros. So each
// node of a group of K+M holds parity of M/K of a file for each of its ranks.
package nodes
