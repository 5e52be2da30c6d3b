// Package mpi is the simulated MPI runtime of one rank. A rank is an operating-system process:
// its death is a real one, its memory is what a checkpoint has to save, and its messages really
// travel, through a shared segment inside a node and through TCP between nodes.
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
//	… c.Send, c.RecvFloat64s, c.AllreduceSum …
//	c.Close(); seg.Close(); mem.Close()
//
// A checkpoint at an iteration boundary, where no rank sends any more: each rank reports
// [Comm.Sent]; the coordinator turns the matrix round; each rank calls [Comm.Drain] with what was
// sent to it; when all have returned, the regions of [Memory.Regions] and the bytes of
// [Comm.Pending] are its state, and the segment holds no message: [Segment.Drained] is all that
// is saved of it. A restart, under any mapping, gives each rank its regions and pending messages
// back. The content of a segment may be put back too, if it has the same geometry, before any
// rank joins; it holds no message and a fresh segment does as well.
//
// # Groups
//
// A job whose checkpoints are not coordinated is a set of groups of ranks, each of which takes
// checkpoints and restarts as a whole, alone: [Config].Channels. All of the above then holds
// within a group: Sent, Drain, Pending and the segment are about its members only. Messages
// between groups travel in channels, over TCP even on the same node, as a segment does not
// outlive the death of a rank in it.
//
//	log, _, err := msglog.Open(…)
//	frames, err := log.NewReader(0)                              // before Join
//	c, err := mpi.Join(mpi.Config{…, Channels: &mpi.Channels{
//		Kind: channel.Receiver, Group: …, Incarnation: n, Log: log,
//		Restore: &mpi.Restored{State: …, Pending: …, Frames: frames.Next}}})
//	… c.Send, c.RecvFloat64s, c.AllreduceSum …                           // as ever
//	snap, err := c.Snapshot(ctx)                                 // after Drain, instead of Pending
//	err = c.Collected(rank, n)                                   // a checkpoint of rank is committed
//	err = c.PeerMoved(rank, addr, incarnation)                   // rank was restarted
//	err = c.Close()                                              // when the whole job is at its end
//
// Without Restore a rank begins; with it there is no RestorePending. Package channel decides what
// is kept, what is logged and what a rank waits for. This package gives its Endpoint sockets, a
// log and a clock; see there for the kinds of logging and what they promise. A program that is to
// be replayed receives from any source in one goroutine only; its other receives, and its
// collectives, are determined by what they receive.
//
// When a rank of another group cannot be reached, nothing happens but waiting. Send keeps the
// message and returns, up to a limit of bytes that are not acknowledged; a receive waits; the
// connection is dialled again, at first after 5 ms, later every second, and at once when
// PeerMoved gives a new address. A process whose successor has been met ends with an error, so
// that no zombie goes on computing.
//
// When the log has failed, as on a full disk, Channels.LogFailed is told and the log is reopened
// again and again. Meanwhile nothing is lost: a pessimistic rank gets no messages from other
// groups, no rank acknowledges any, and their senders keep them.
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
//     job's token, by HMAC-SHA256 over two nonces and both ranks. The data
//     behind that is as it is sent: Listener and Dial of [Config] encrypt it where ranks
//     run on several hosts.
//
// A segment in which a rank was killed is not used again: cells that it had taken would stay
// taken. A recovery opens a new file.
//
// # The segment
//
// One file per node, mapped by all its ranks, n of them, numbered 0…n−1 in the order of their
// ranks. All words are little-endian and naturally aligned.
//
//	0         header, 4 KiB
//	4 KiB     control blocks, n × 256 bytes
//	  …       cell states, n × cells × 4 bytes
//	  …       idle, up to the constant of the implementation
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
//	12  4   implementation, 1 = MPICH, 2 = Open MPI
//	16  4   ranks
//	20  4   cells per rank
//	24  8   bytes of a cell
//	32  8   bytes of a ring
//	40  8   bytes of the segment
//	48  4   CRC-32C of bytes 0…47
//	52      zero
//
// Control block: at 0 the in-bell, on which the rank's receiver sleeps; at 128 the out-bell, on
// which it sleeps as a sender that needs space.
//
// Cell state: 0 free, otherwise 1 + the number of the receiver. Ring: at 0 the head, at 64 the
// tail, both counting bytes for ever; at 128 the records, each a multiple of 32 bytes long,
// payloads wrapping round at the end. Record:
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
// The dialler sends "CKPTMPI\x01", its rank, the rank it wants (4 bytes each) and a nonce of 32
// bytes; the acceptor a nonce and its proof; the dialler its proof; the acceptor 'W'. Then, in
// this direction only, frames:
//
//	0   1   'M'
//	1   1   context
//	2   2   zero
//	4   4   tag
//	8   8   bytes of the message
//	16  4   CRC-32C of bytes 0…15
//	20      the message
//
// # Between groups
//
// The sender dials, and connections of this kind are told from the others by the last byte of the
// magic. The dialler sends
//
//	0   8   "CKPTMPI\x02"
//	8   4   its rank
//	12  4   the rank it wants
//	16  32  nonce
//	48  8   its incarnation
//	56  1   kind of logging, as in package channel
//	57  7   zero
//
// the acceptor its nonce (32 bytes), its incarnation (8) and the proof of all that (32); the
// dialler its proof; the acceptor
//
//	0   1   'W' welcome, 'S' you have been replaced, 'K' another kind of logging
//	1   7   zero
//	8   8   W: up to which message it has the dialler's; S: the incarnation that it
//	        knows; K: its kind
//
// Then the dialler sends frames, beginning behind that message:
//
//	0   1   'C'
//	1   1   context
//	2   2   zero
//	4   4   tag
//	8   8   bytes of the message
//	16  8   its number in the channel
//	24  8   number of ranks in its Depends, 0 or all
//	32  4   CRC-32C of bytes 0…31
//	36      its Depends, 8 bytes each, and the message
//
// and the acceptor, whenever there is something new to say:
//
//	0   1   'A'
//	1   3   zero
//	4   8   up to which message all are acknowledged
//	12  4   CRC-32C of bytes 0…11
//
// A rank has at most one connection from each other one: the last that proved itself and is of
// the newest incarnation. A message with another one missing before it has the connection closed,
// and made again.
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
