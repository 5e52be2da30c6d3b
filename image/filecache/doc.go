// Package filecache caches files of a parallel job in directories of its nodes, as the
// distributed NVRAM cache of A. Malinowski does (PhD thesis, Gdańsk): files that
// processes write into by request, small, scattered and often.
//
// # Use
//
//	c := &filecache.Cache{Nodes: nodes, Store: filecache.Store{FS: vfs.OS{}, Dir: "/store"}}
//	f, err := c.Open(ctx, "map", filecache.Options{Flags: filecache.Create, Size: 1 << 30, Processes: nodeOfProcess})
//	p := f.Process(rank)
//	p.ReadAt(b, off); p.WriteAt(b, off); p.WriteIf(cell, off, mask)
//	p.Sync(ctx)  // all processes
//	p.Close(ctx) // all processes
//	f, recovery, err := c.Recover(ctx, "map", filecache.Options{}) // after a failure
//
// A file of n nodes is cut into n contiguous fragments of ceil(size/n) bytes. One
// manager per node and file has a fragment and serves the requests to it one by one, as
// they arrive. The owner of a byte follows from its offset. A request over several
// fragments is split. Each manager loads its whole fragment when the file is opened, and
// stores all of it when the file is synced, or closed after a write, with large
// contiguous reads and writes. So there are no blocks, misses or evictions, and the
// managers act on their own. Cache.OpenLocal opens a private file of a node instead.
//
// # Promises
//
// Without any level, a request that a failure cuts may be torn, and the rest is there
// if all node directories are.
//
//   - A write is visible to all processes when it returns.
//   - With level 1 (Levels.Records) a request is in its writer's own node directory
//     before it is sent, until it has been served. After the death of processes or a
//     loss of power, all acknowledged writes are there, and all or nothing of each
//     request that was under way.
//   - With level 2 (Levels.Replicas) a request is in journals on its node and on the
//     next ones before it is served. The same holds then, and also after the loss of as
//     many nodes, with their directories, as there are replicas. A journal begins again
//     when the store has the file, and a long one asks for that.
//   - With level 3 (Levels.Versions) each Sync makes a new version of the file. It
//     exists when all its bytes and its manifest are durable. Alone, recovery is exactly
//     the newest version; with the others it is what is left if they lost too much.
//   - Where writes to the same bytes overlap in time, those bytes are of one of them.
//   - A write that fails may be there in part, until Recover.
//   - Recover does not change the store. It returns ErrLost if no level kept enough.
//   - With Create and DeleteOnClose, and without Sync, the store sees no operation.
//
// # Files
//
// NAME is escaped as in a URL. A node has, in DIR/NAME:
//
//	session      what the file was opened with, and how far opening or closing got
//	fragment     the node's part of the file
//	record-P     level 1: the request of process P that is under way
//	journal-K-E  level 2: the requests to the fragment of node K, epoch E
//
// The store has NAME or, with level 3, NAME.vNNNN and NAME.vNNNN.manifest.
//
// # Monitoring
//
// A Monitor writes CSV. Times count from its first event; wait is from the sending of a
// request until its manager begins with it, service from there to the answer.
//
//	global      time_s, event (open, store, recover, close), phase (begin, end), file,
//	            seconds (at the end), detail, error
//	manager     time_s, event (read, write, write-if, load, store, rotate; receive and
//	            answer at level Detail), process, source (its node; −1 as in process: the
//	            file as a whole), sequence, part, offset, bytes, wait_s, service_s, error
//	statistics  from_s, to_s, file, request, source, target (nodes), requests, bytes,
//	            wait_s, service_s (sums), longest_s (the longest of both together)
package filecache
