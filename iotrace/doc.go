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
// Each rank records its own file. Merge combines them into one trace.
//
//   - Every block has a checksum. A damaged file is refused, or with Options.Lenient read
//     without its damaged blocks; a warning counts their events.
//   - A hostile file costs memory in proportion to its own length.
//   - Errors in files are *FormatError values with the position.
//   - A nil Recorder records nothing and may be used like any other.
//
// # The events file
//
// All numbers are little-endian. A varint is as in encoding/binary: seven bits
// a byte, the lowest first, the top bit set on all bytes but the last. A signed
// one, written ±, is 2n of n that is not negative and -2n-1 of one that is. A
// string is a varint, its length, and the bytes. This is version 2; version 1, which
// can be read, had no lists, and each name once (decode.go).
//
//	+------------------------+ 0
//	| file header            |  16 bytes
//	+------------------------+
//	| HEAD                   |  job, source, origin, run time
//	| RANK, FILE             |  names of the following events
//	| EVNT                   |  events
//	| RANK, FILE, EVNT …     |  any number of them
//	| COUN, STRP, RENM       |  the other lists
//	| WARN, PROP             |
//	| HEAD, RANK, FILE,      |  once more, so that damage of a name loses no event
//	| WARN, PROP             |
//	| ENDS                   |  totals; nothing follows
//	+------------------------+
//
// The file header:
//
//	 0  u8[8]  89 'C' 'K' 'T' 'R' 0D 0A 1A
//	 8  u32    version, 2
//	12  u32    CRC-32C of the 12 bytes in front
//
// Each block begins with:
//
//	 0  char[4]  its kind
//	 4  u32      length of the payload, at most 1 MiB, usually 8 KiB
//	 8  u32      count: its entries, or 0 of HEAD and ENDS
//	12  u64      entries of this kind in front of it; 0 of HEAD and ENDS
//	20  u32      CRC-32C of the payload
//	24  u32      CRC-32C of the 24 bytes in front
//
// A reader that meets damage looks for the next header with a right checksum, which
// tells how many entries are missing.
//
// The payload of HEAD:
//
//	string   job
//	string   source
//	u8       whether the origin is known; if it is:
//	±varint  seconds since 1970
//	varint   nanoseconds
//	varint   run time in ns; in a recording only the second HEAD has it
//
// That of ENDS is a u64 for the blocks in front of it, and one for each of the entries
// of EVNT, RANK, FILE, COUN, STRP, RENM, WARN and PROP, copies left out.
//
// The other payloads are entries, one after the other:
//
//	RANK  ±varint rank, string node
//	FILE  string path
//	STRP  ±varint file, size, count, start, end; varint number of OSTs; ±varint of
//	      each
//	RENM  ±varint file, new file, ns since the origin
//	WARN  string code, string text, ±varint count, bytes; varint number of files;
//	      of each ±varint file, count, bytes
//	PROP  string name, string value
//	COUN  u8 module; ±varint rank, file;
//	      varint how many numbers; of each:
//	        ±varint  number; if it is 0 or -1:
//	        varint   how many of the next are the same
//	      varint how many fractions; of each:
//	        varint   the bits of a float64, the lowest byte first
//
// The numbers of COUN are the fields of Counters in the order of its method numbers. Later
// versions may add some at the end.
//
// EVNT begins with a varint, the unit of its times in ns, at most 10⁹.
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
//	           ±varint  rank, file, checkpoint: each less the number of the stream
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
//	          3 no offset
//	bit 3     Gap
//	bit 4     Round
//	bit 5     Peer: there is a peer
//	bit 6     Stay: the stream of the last event
//
// A stream is the sequence of a rank's operations on a file for a checkpoint. Values
// without a predecessor in the block start at 0. A seek ends at its offset.
package iotrace
