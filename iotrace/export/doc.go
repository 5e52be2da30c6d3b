// Package export writes traces in formats of other tools, and reads back the formats
// that keep the whole trace.
//
//	err := export.WriteCSV(w, t)
//	t, report, err := export.ReadCSV(r, iotrace.Options{})
//	err = export.WriteParquet(w, t)
//	t, err = export.ReadParquet(r, size)
//	err = export.WriteJSON(w, t)
//	err = export.WriteChrome(w, t)
//
// # Promises
//
//   - CSV with comments and Parquet return exactly the trace that was written, CSV
//     without its counters and other lists.
//   - All writers stream: beyond the trace they need memory for its ranks and files,
//     and Chrome for the operations under way at one moment.
//   - Errors in CSV and JSON lines are *iotrace.FormatError values with the line.
//
// # CSV
//
// The text follows RFC 4180, with newlines as line ends; fields are quoted if
// necessary. Lines whose first field begins with # describe the whole trace. They are,
// in this order:
//
//	#ckpt-trace,1                         the version
//	#job,NAME
//	#source,NAME                          what recorded the trace
//	#origin,2026-10-20T12:00:00.000000001Z   time 0; not there if it is not known
//	#rank,NUMBER,NODE                     one for each rank
//	#file,PATH                            one for each file
//	op,module,zone,…                      the names of the columns
//	write,POSIX,data,…                    one for each event, in order of start
//	#end,COUNT                            how many events there are
//
// WriteRows leaves the lines with # out. A CSV that begins with the names of the columns
// is read by these names: in any order, with columns that are missing (all but op,
// start_ns and end_ns may be) or unknown, with any of the rows, with whole numbers
// written as fractions, with true for 1 and NaN for nothing. Its ranks and files are
// those that occur. The columns:
//
//	op          open, read, write, sync, seek, stat, truncate, rename, unlink,
//	            close, mmap, gather, lock-wait, encode, barrier
//	module      POSIX, MPIIO or STDIO
//	zone        library, data, shared, iobuffer, or empty
//	create      1 if an open made the file or emptied it, else empty
//	rank        number of the rank or process, and
//	node        its node; both empty if there is none
//	file        path, or empty
//	peer        number of the rank whose bytes a gather takes, and
//	peer_node   its node; both empty if there is none
//	checkpoint  number, 0 outside of checkpoints
//	round       of a two-phase write, from 0
//	offset      in the file, or empty
//	bytes
//	start_ns    nanoseconds since the origin
//	end_ns
//
// A byte of a name that is no UTF-8 is \xHH, as in x-\xff.dat: programs such as pandas
// read nothing else. A backslash that would look like the beginning of such a byte, or of
// itself, is \x5c. Other backslashes stay. Reading gives the names back. The same holds
// for JSON lines, the file beside a CSV, and the columns of Parquet.
//
// # JSON lines
//
// Each line is an object with a type: first a "trace" with job, source, origin and the
// counts of ranks, files and events, then an "event" for each event, with the columns
// of the CSV as members. Members that would be empty are left out, and so are
// checkpoint 0, round 0 and module POSIX. Reading takes any of the objects, on one line
// or several, also with null, with whole numbers written as fractions, and with members
// that are unknown. Where a line begins with { an object begins, so that a broken one
// does not take the next one with it.
//
// Between the two are a "striping" and a "renaming" for each of the trace, a "rank" for
// each rank, and a "counters" for each file, rank and interface. Its numbers have the
// names of the fields of iotrace.Counters, as in max_read_time_ns, read_sizes_1m_4m (of
// Darshan's bins), common_1_size and slowest_rank; those that nobody counted are left
// out.
//
// # CSV of counters
//
// WriteCounters writes the same numbers as a table: file, module, rank, node, then the
// names above. An empty rank is the sum of all ranks. There is no reader for it: the
// rows have no place for the number of ranks, the run time and the stripes, which the
// analysis needs.
//
// # Parquet
//
// The columns are those that WisIO reads from traces of Recorder (its tool
// recorder2parquet writes them), so that WisIO and DFAnalyzer can read the file. They
// also need a file global.json beside it, with {"tmid":[0,MAX]}, the range of the
// column tmid:
//
//	index         number of the event, from 0
//	proc, rank    number of the rank or process; -1 if there is none
//	thread_id     0
//	cat           0 POSIX, 1 MPI-IO, 4 a step of the write path
//	io_cat        1 read, 2 write, 3 metadata, 0 other
//	tstart, tend  seconds since the origin
//	func_id       the operation, as in CSV
//	level         0
//	hostname      node
//	app           job
//	proc_name     app#hostname#rank#thread
//	file_name     path; empty if there is none
//	size          bytes of a read or write, else 0
//	acc_pat       0 if a read or write begins where the rank's last one on the file
//	              ended, else 1
//	bandwidth     MiB/s of a read or write, else 0
//	duration      seconds
//	tmid          middle of the event, in microseconds since the origin
//	file_id       number of the file, -1 if there is none
//	proc_id       number of the rank, -1 if there is none
//
// Other properties are in columns of our own. Job, source, origin and the tables are
// in the file's metadata under the key ckpt.trace, as an events file without events in
// base64:
//
//	ckpt_module, ckpt_zone, ckpt_create, ckpt_peer, ckpt_checkpoint, ckpt_round,
//	ckpt_offset, ckpt_bytes, ckpt_start_ns, ckpt_end_ns
//
// # Chrome trace
//
// The JSON object format of the Trace Event format, for ui.perfetto.dev,
// chrome://tracing and speedscope. Each rank is a process, named with its node. Its
// threads, numbered across processes, are lanes: two slices in a lane never overlap
// unless one contains the other. Times are microseconds since the first event, rounded
// down to 1/8 µs, which viewers add up without an error. A counter has the bytes per
// second read and written, in a thousand samples over the trace. Each barrier has flows
// from the rank that came last to the others.
package export
