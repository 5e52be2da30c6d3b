// Package strace converts the output of strace into a trace:
//
//	strace -f -ttt -T -y -o out.txt PROGRAM
//	t, report, err := strace.Read(r, iotrace.Options{})
//
// The relevant options: -f follows children and threads; -tt or -ttt gives the time,
// which is required; -T gives the duration of calls; -y gives the paths of
// descriptors, without which those opened before are unknown; -o separates the text
// from the program's output. Any of -y, -yy, -x, -s and -P is optional.
//
// With -ttt the trace counts from its first line, and its origin is the time of that
// line. With -tt there is no date, and the trace counts from the midnight before its
// first line, so that several traces of one day fit together.
//
// # What becomes an event
//
// Successful calls on files: open, read, write, seek, stat, truncate, sync, rename,
// unlink, close, mmap and msync in all their forms. sendfile, copy_file_range and splice
// are a read and a write. Directories count as files. Bytes are those that the call
// returned. fallocate is a truncate if the length of the file is known and changes.
// The report counts calls that fail, and calls on other things than files (sockets,
// pipes, terminals, devices …), each kind separately.
//
// A request of asynchronous I/O lasts from io_submit to the end of the io_getevents that
// returns it. Results with the number that a program gives to all its requests, as fio
// does, belong to the oldest requests of their length.
//
// Warnings of the trace tell what moves bytes, or makes files, without an event: requests
// of io_uring, mappings of files, reflinks, unknown descriptors, lists that strace cuts,
// lines that are not understood, calls that do not return.
//
// # Ranks
//
// A process whose environment names a rank in MPI (OMPI_COMM_WORLD_RANK, PMIX_RANK,
// PMI_RANK; SLURM_PROCID with SLURM_STEP_ID) has that rank, and so have its threads and
// children. Other values of the environment are not kept. If any process has such a rank,
// those without one have iotrace.None, and the name of their program as node. Otherwise a
// rank is a process with all its threads, and its number is the process id; launchers of
// MPI jobs and their proxies are no ranks either. A text whose lines name no process, as strace
// writes it without -f, is of one process, whose rank is 0. ReadTasks merges texts of
// strace -ff in the order of time.
//
// # How files are identified
//
// The path is from open, made absolute if the working directory is known, or from
// -y. A descriptor refers to an open file description: dup, fork and threads share it
// and its position, and exec closes those marked for it.
//
// The offset of a read or write is its argument or the position, which moves with
// reads, writes and seeks. With O_APPEND it is the length of the file, if that is
// known from creation or truncation by the program, or from a stat, seek or truncate;
// otherwise there is no offset. A descriptor opened before the trace may append, as in
// command >> log. So until the program seeks, a write to it has an offset only if
// position and length are known and equal.
//
// # Promises
//
//   - The report counts lines that cannot be understood, which are errors with
//     Options.Strict, and calls of other kinds.
//   - Lines that strace interrupted ("<unfinished ...>") are joined.
//   - A clock that runs backwards, except for midnight with -tt, is an error. So are
//     a truncated last line and an impossible offset. With Options.Lenient they are
//     noted, and the usable part is returned.
//   - Errors are *iotrace.FormatError values with the line. Memory is bounded by the
//     processes, descriptors and paths of the program, besides the events.
package strace
