// Package mpi is the simulated MPI runtime of one rank. A rank is an
// operating-system process: its death is a real one, its memory is what a
// checkpoint has to save, and its messages really travel, through a shared
// segment inside a node and through TCP between nodes.
//
// # Use
//
//	mem := mpi.NewMemory()
//	u, err := mem.Alloc("u", zones.Data, zones.Float64, 8*n)     // state
//	err = mem.MapLibrary("ckpt", "/proc/self/exe")               // code
//	seg, err := mpi.OpenSegment(path, mpi.MPICH, ranksOnNode)    // every rank of the node
//	mem.AddShared(seg)
//	c, err := mpi.Join(mpi.Config{Rank: …, Size: …, NodeOf: …, Segment: seg, …})
//	err = c.RestorePending(saved)                                // after a restart
//	… c.Send, c.Recv, c.AllreduceSum …
//	c.Close(); seg.Close(); mem.Close()
//
// A checkpoint at an iteration boundary, where no rank sends any more: each
// rank reports [Comm.Sent]; the coordinator turns the matrix round; each rank
// calls [Comm.Drain] with what was sent to it; when all have returned, the
// regions of [Memory.Regions] and the bytes of [Comm.Pending] are its state,
// and the segment is [Segment.Quiescent]. A restart, under any mapping, gives
// each rank its regions and pending messages back. The content of a segment may
// be put back too, if it has the same geometry, before any rank joins; it holds
// no message and a fresh segment does as well.
//
// # Promises
//
//   - Messages of a pair arrive in the order in which they were sent, whatever
//     their sizes and transports. Send is eager: it never waits for the program
//     at the other end, whose inbox has no bound.
//   - Collective operations add in an order that depends on the number of ranks
//     only, so results are the same bits in every run and under every mapping.
//   - A rank that waits costs no processor time: it sleeps on a futex or in the
//     network poller.
//   - A peer may be killed at any instruction. Nothing that it had not finished
//     is seen; operations that involve it block until [Comm.Abort] and then
//     return the error given there. That holds for both transports: a lost
//     connection is reported through [Config].Lost and otherwise waited out.
//   - No length that comes from another process is trusted. Damage ends the
//     Comm with an error that names the peer and what was found.
//   - Connections between nodes prove in both directions that they know the
//     job's token, by HMAC-SHA256 over two nonces and both ranks. What follows
//     is neither encrypted nor authenticated: use trusted networks.
//
// A segment in which a rank was killed is not used again: cells that it had
// taken would stay taken. A recovery opens a new file.
//
// # The segment
//
// One file per node, mapped by all its ranks, n of them, numbered 0…n−1 in the
// order of their ranks. All words are little-endian and naturally aligned.
//
//	0         header, 4 KiB
//	4 KiB     control blocks, n × 256 bytes
//	  …       cell states, n × cells × 4 bytes
//	  …       idle, up to the constant of the flavour
//	constant  rings, n × n: the ring from i to j is number i·n + j
//	  …       cells, n pools of cells; pool i belongs to rank i
//	  …       idle, up to a whole page or the flat size
//
//	            MPICH                      Open MPI
//	constant    25.47 MiB                  2 MiB
//	ring        64 KiB                     16…64 KiB, half of the room
//	cell        64 KiB                     32 KiB
//	pool        64 cells, 4 MiB            512 KiB…4 MiB, the other half
//	total       25.47 + 4n + n²/16 MiB     90.1 MiB; 2 + n/2 + n²/64 from n = 61
//
// Header:
//
//	0   8   "CKPTSEG\n"
//	8   4   version, 1
//	12  4   flavour, 1 = MPICH, 2 = Open MPI
//	16  4   ranks
//	20  4   cells per rank
//	24  8   bytes of a cell
//	32  8   bytes of a ring
//	40  8   bytes of the segment
//	48  4   CRC-32C of bytes 0…47
//	52      zero
//
// Control block: at 0 the in-bell, on which the rank's receiver sleeps; at 128
// the out-bell, on which it sleeps as a sender that needs space.
//
// Cell state: 0 free, otherwise 1 + the number of the receiver. Ring: at 0 the
// head, at 64 the tail, both counting bytes for ever; at 128 the records, each
// a multiple of 32 bytes long, payloads wrapping round at the end. Record:
//
//	0   1   kind: 1 = a whole message follows, 2 = a piece of one is in a cell
//	1   1   context: 0 = user, 1 = collective operation
//	2   2   zero
//	4   4   bytes of the payload or piece
//	8   4   tag
//	12  4   cell, of the sender's pool
//	16  8   bytes of the message
//	24  8   offset of the piece
//
// # Between nodes
//
// The dialler sends "CKPTMPI\x01", its rank, the rank it wants (4 bytes each)
// and a nonce of 32 bytes; the acceptor a nonce and its proof; the dialler its
// proof; the acceptor 'W'. Then, in this direction only, frames:
//
//	0   1   'M'
//	1   1   context
//	2   2   zero
//	4   4   tag
//	8   8   bytes of the message
//	16  4   CRC-32C of bytes 0…15
//	20      the message
//
// # Pending messages
//
//	0   8   "CKPTPND\x01"
//	8   8   number of messages, in the order of their arrival:
//	          0   4   source rank
//	          4   4   context
//	          8   4   tag
//	          12  4   zero
//	          16  8   bytes
//	          24      the message
//	end 4   CRC-32C of all before
package mpi
