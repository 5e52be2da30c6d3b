// Package export writes traces in formats of other tools, and reads back those
// that keep all of a trace.
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
//   - CSV and Parquet give back the trace that was written, exactly.
//   - All of them are written as a stream: beyond the trace they need memory for
//     its ranks and files, and Chrome for the operations that are under way at
//     one moment.
//   - What is wrong with a CSV is an *iotrace.FormatError with its line.
//
// # CSV
//
// The text is as RFC 4180 has it, with lines that end in a newline only, and a
// field that needs it in quotes. Lines whose first field begins with # say what
// is true of the whole trace. They are, in this order:
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
// A CSV that begins with the names of the columns, and has none of the other
// lines, is read as well; ranks and files then are those that occur. The columns:
//
//	op          open, read, write, sync, seek, stat, truncate, rename, unlink,
//	            close, mmap, gather, lock-wait, encode, barrier
//	module      POSIX or MPIIO
//	zone        library, data, shared, iobuffer, or empty
//	create      1 if an open made the file, else empty
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
// # JSON lines
//
// Each line is an object with a type: first one "trace" with job, source, origin
// and the counts of ranks, files and events; then one "event" for each event,
// with the columns of the CSV as members. Those that are empty there are not
// there, nor are checkpoint, round and module if they are 0, 0 and POSIX.
//
// # Parquet
//
// The columns are those that WisIO reads from traces of Recorder (its tool
// recorder2parquet writes them), so that WisIO and DFAnalyzer can take the file;
// to do so they want a file global.json beside it, with {"tmid":[0,MAX]}, the
// range of the column tmid:
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
// What they cannot say is in columns of our own; job, source, origin and the
// tables are in the file's metadata under the key ckpt.trace, as an events file
// without events in base64:
//
//	ckpt_module, ckpt_zone, ckpt_create, ckpt_peer, ckpt_checkpoint, ckpt_round,
//	ckpt_offset, ckpt_bytes, ckpt_start_ns, ckpt_end_ns
//
// # Chrome trace
//
// The JSON object format of the Trace Event format, which chrome://tracing and
// ui.perfetto.dev open. Each rank is a process, named with its node; its threads,
// numbered on from one process to the next, are lanes: slices in one lane never
// overlap unless one holds the other. Times are microseconds since the first event.
// There are a counter of the bytes per second that are read and written, sampled a
// thousand times over the trace, and for each barrier a flow from the rank that came
// last to the others.
package export
