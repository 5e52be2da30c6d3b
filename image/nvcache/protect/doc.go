// Package protect keeps the files of a checkpoint on more nodes than one: as copies on
// partner nodes, or as parity of a set of ranks on different nodes. It knows files,
// nodes and failure domains, and nothing of jobs.
//
//	sets := scheme.Sets(topology)
//	sink, err := protect.Coded(set, member, holders)
//	tee := protect.Tee(fsys, path, sink)
//	container.Write(ctx, tee, path, …) // one pass over the bytes
//	tee.Wait(ctx)                       // what protects them is durable
//
// # Sets
//
// The nodes are divided into groups. The ranks that have the same index within their
// nodes make a set: one member for each node of the group. A node that has fewer ranks
// than the others takes part without a rank, so that every rank is in a set.
//
// The members' files are cut into units. In each row, some members' nodes hold parity
// and the next units of the others are the data; the places move by one from row to
// row, as in RAID-5 and RAID-6. Bytes beyond the end of a file count as zeros. So each
// node of a group of K+M holds parity of M/K of a file for each of its ranks.
package protect
