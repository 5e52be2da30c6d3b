// Package iotrace holds the I/O events of a job, the compact file that stores them,
// and the recorder that collects them while a checkpoint is written.
//
// A Trace is in memory. It comes from a file, or from an importer in one of the
// packages below:
//
//	t, err := iotrace.ReadFile("rank-3.trace")
//	err = iotrace.WriteTrace(w, t)
//
// Programs record their own I/O, from any number of goroutines:
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
// Each rank records its own file. Merge combines them into one trace.
//
//   - Reading back gives what was written, event by event.
//   - A file that ends early is refused, or read as far as its blocks are whole,
//   - Reading back returns what was written, event by event.
//   - A file that ends early is refused, or read up to its last whole block,
//     depending on Options. Every block has a checksum, so that a changed bit is
//     found.
//   - Numbers in a file are checked before they are used. A hostile file costs
//     memory in proportion to its own length.
//   - Errors in files are *FormatError values with the position.
//   - A nil Recorder records nothing and may be used like any other.
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
// The events of an EVNT stand one after the other, in the order of recording. An EVNT
// can be decoded without any other block. Events repeat much of earlier events: their
// kind and stream usually occurred before in the block and are named by a number, and
// their offset is usually where the last operation ended. An event is:
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
// A stream is the sequence of a rank's operations on a file for a checkpoint. Values
// without a predecessor in the block start at 0. A seek ends at its offset.
package iotrace
