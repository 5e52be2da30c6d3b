// Package export writes traces in formats of other tools, and reads back those that keep
// the whole trace: CSV with comments and Parquet return exactly the trace that was
// written, CSV without its counters and other lists. Writers stream.
//
// # CSV
//
// The text follows RFC 4180, with newlines as line ends. Lines whose first field begins
// with # describe the whole trace, in this order; WriteRows leaves them out:
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
// A CSV that begins with the names of the columns is read by these names: in any order,
// with columns that are missing (all but op, start_ns and end_ns may be) or unknown, with
// any of the rows, with whole numbers written as fractions, with true for 1 and NaN for
// nothing, with semicolons or tabs. Its ranks and files are those that occur. Rows of JSON
// and Parquet with these names are read as well. The columns:
//
//	op          open, read, write, sync, seek, stat, truncate, rename, unlink,
//	            close, mmap, gather, lock-wait, encode, barrier
//	module      POSIX, MPIIO or STDIO
//	zone        library, data, shared, iobuffer, or empty
//	create      1 if an open made the file or emptied it, else empty
//	rank, node  number of the rank or process, and its node; or empty
//	file        path, or empty
//	peer, peer_node  the rank whose bytes a gather takes
//	checkpoint  number, 0 outside of checkpoints
//	round       of a two-phase write, from 0
//	offset      in the file, or empty
//	bytes
//	start_ns, end_ns  nanoseconds since the origin
//
// A byte of a name that is no UTF-8 is \xHH, as in x-\xff.dat; a backslash that would look
// like the beginning of such a byte, or of itself, is \x5c. So it is in the other formats.
//
// # CSV of counters
//
// The numbers of counters have the names of the fields of iotrace.Counters, as in
// max_read_time_ns, read_sizes_1m_4m (of Darshan's bins), common_1_size and slowest_rank.
// WriteCounters writes them as a table for other programs: file, module, rank, node, then
// the names. An empty rank is the sum of all ranks. There is no reader for it.
//
// # Parquet
//
// The columns are those that WisIO reads from traces of Recorder, so that WisIO and
// DFAnalyzer can read the file. They also need a file global.json beside it, with
// {"tmid":[0,MAX]}, the range of the column tmid:
//
//	index, level, thread_id   number of the event, from 0; 0; 0
//	proc, rank, proc_id       number of the rank or process, and of the entry of the
//	                          trace, or -1
//	cat, io_cat               0 POSIX, 1 MPI-IO, 4 a step of the write path;
//	                          1 read, 2 write, 3 metadata, 0 other
//	tstart, tend, duration    seconds, the first two since the origin
//	tmid                      middle of the event, in microseconds since the origin
//	func_id                   the operation, as in CSV
//	hostname, app             node, job
//	proc_name                 app#hostname#rank#thread
//	file_name, file_id        path; number of the file, or -1
//	size, bandwidth           bytes and MiB/s of a read or write, else 0
//	acc_pat                   0 if a read or write begins where the rank's last one on
//	                          the file ended, else 1
//
// Other properties are in columns of our own (ownColumns). Job, source, origin and the
// tables are in the file's metadata under the key ckpt.trace, as an events file without
// events in base64.
//
// # Chrome trace
//
// The JSON object format of the Trace Event format, for ui.perfetto.dev,
// chrome://tracing and speedscope. Each rank is a process, named with its node. Its
// threads, numbered across processes, are lanes: two slices in a lane never overlap
// unless one contains the other. Times are microseconds since the first event, rounded
// down to 1/8 µs, which viewers add up without an error. A counter has the bytes per
// second read and written, in a thousand samples over the trace.
package export
