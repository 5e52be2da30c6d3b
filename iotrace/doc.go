// Package iotrace holds what a job did to its files: the events, the compact
// file that they are kept in, and their recording as a checkpoint is written.
//
// A Trace is all of it in memory. It is read from a file, or made by one of the
// importers in the packages below:
//
//	t, err := iotrace.ReadFile("rank-3.trace")
//	err = iotrace.WriteTrace(w, t)
//
// Whoever does I/O records it in passing, from any number of goroutines:
//
//	rec := iotrace.NewRecorder(w, iotrace.Meta{Job: "bt.A.16", Source: "ckpt"})
//	me, file := rec.Rank(iotrace.Rank{Rank: 3, Node: "n0"}), rec.File(path)
//	start := time.Now()
//	... write ...
//	rec.Record(iotrace.Event{Op: iotrace.Write, Rank: me, File: file, Peer: iotrace.None,
//		Offset: off, Bytes: n, Start: rec.Since(start), End: rec.Since(time.Now())})
//	err := rec.Close()
//
// Each rank records its own file; Merge makes one trace of them.
//
// # Promises
//
//   - Reading back gives what was written, event by event.
//   - A file that ends early is refused, or read as far as its blocks are whole,
//     as Options say. A changed bit is found: every block has a checksum.
//   - No length in a file is believed before it is checked. A hostile file costs
//     memory in proportion to its own length.
//   - What is wrong with a file is a *FormatError that says where.
//   - A nil Recorder records nothing and may be used like any other.
//
// The package is a leaf: it imports nothing else of this module.
//
// # The events file
//
// All numbers are little-endian. A varint is that of encoding/binary: seven bits
// a byte, the lowest first, the top bit set on all bytes but the last. A signed
// one, written ±, is 2n of n that is not negative and -2n-1 of one that is. A
// string is a varint, its length, and the bytes.
//
//	+--------------+ 0
//	| file header  |  16 bytes
//	+--------------+
//	| HEAD         |  job, source, origin
//	| TABL         |  ranks and files that the following events name
//	| EVNT         |  events
//	| TABL, EVNT … |  any number of them
//	| ENDS         |  totals; nothing follows
//	+--------------+
//
// The file header:
//
//	 0  u8[8]  89 'C' 'K' 'T' 'R' 0D 0A 1A
//	 8  u32    version, 1
//	12  u32    CRC-32C of the 12 bytes in front
//
// Each block begins with:
//
//	 0  char[4]  HEAD, TABL, EVNT or ENDS
//	 4  u32      length of the payload, at most 1 MiB
//	 8  u32      count: the entries of a table, or the events; else 0
//	12  u32      CRC-32C of the 12 bytes in front and the payload
//
// The payload of HEAD:
//
//	string   job
//	string   source
//	u8       whether the origin is known; if it is:
//	±varint  seconds since 1970
//	varint   nanoseconds
//	varint   the unit of all times, in ns, at most 10⁹
//
// That of TABL adds entries to the tables, which are empty at first:
//
//	varint   number of ranks; of each:
//	           ±varint  rank
//	           string   node
//	varint   number of files; of each:
//	           string   path
//
// That of ENDS, 24 bytes:
//
//	u64  events, ranks and files in all
//
// That of EVNT is one event after the other, in the order in which they were
// recorded. An EVNT can be decoded without any other. What tells an event from
// its like is little: most of it has been seen before in the same block, and is
// named by a number; the place in the file is mostly where the last operation
// ended. An event is:
//
//	varint   kind: 0 is one that is new, and defined here; n is the n-th that the
//	         block defined. A definition is:
//	           u8  operation
//	           u8  module << 1 | create
//	           u8  zone
//	           u8  flags, see below
//	[varint  unless flags have Stay: stream: 0 is one that is new, and defined
//	         here; n is the n-th that the block defined. A definition is:
//	           ±varint  rank, file, checkpoint: each less that of the stream
//	                    defined before]
//	[±varint if flags have Peer: peer - the last peer of the rank]
//	[±varint if flags have Round: round - round of the rank's last event]
//	[±varint if the flags say so: offset - where the stream's last read, write or
//	         seek ended]
//	[varint  unless flags have Same: bytes]
//	±varint  start - start of the last event; if flags have Gap, - end of the
//	         rank's last event
//	varint   end - start
//
// The flags:
//
//	bit 0     Same: as many bytes as the stream's last event of this operation
//	bit 1, 2  0 the offset is written
//	          1 it is where the stream's last read, write or seek ended
//	          2 it is as far from the stream's last offset as that one from the
//	            one before
//	          3 there is none
//	bit 3     Gap
//	bit 4     Round
//	bit 5     Peer: there is a peer
//	bit 6     Stay: the stream is that of the last event
//
// A stream is what a rank does to a file for a checkpoint. What is not there yet
// in a block counts as 0. A seek ends at its offset.
package iotrace
