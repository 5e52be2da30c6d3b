// Package strace makes a trace of what strace prints:
//
//	strace -f -ttt -T -y -o out.txt PROGRAM
//	t, report, err := strace.Read(r, iotrace.Options{})
//
// The options that matter: -f follows children and threads; -tt or -ttt gives
// the time, which there must be; -T how long calls take; -y the paths of
// descriptors, without which those that were open before are not known. -o keeps
// the text apart from what the program prints. Any of -y, -yy, -x, -s and -P may
// be there or not.
//
// With -ttt the trace counts from its first line, and its origin says when that was.
// With -tt there is no date, and the trace counts from the midnight before its first
// line, so that several of one day fit together.
//
// # What becomes an event
//
// Calls that succeed, on files: open, read, write, seek, stat, truncate, sync,
// rename, unlink, close and mmap in all their forms; sendfile, copy_file_range
// and splice are a read and a write. Directories count as files. The bytes are
// those that the call returned; fallocate is a truncate if the length of the file is
// known and changes. Calls that fail are counted in the report; so
// are those on what is no file (sockets, pipes, terminals, devices …), each kind
// by itself.
//
// A rank is a process, with all its threads, and is called by its number.
//
// A text whose lines name no process, as strace writes it without -f, is of one
// process, whose rank is 0. Those of strace -ff, one for each process and thread,
// ReadTasks puts together in the order of time.
//
// # How the file is known
//
// From the path of open, made absolute as far as the working directory is known,
// or from -y where it is there. A descriptor stands for what was opened, not for
// a number: dup, fork and threads share it and its position, exec closes those
// it should. The offset of a read or write is the one it names, or the position,
// which moves with reads, writes and seeks. With O_APPEND it is the length of the
// file if that is known: because the file was made or cut by the program, or from
// a stat, seek or truncate; else there is none. What was open before the trace may
// append, as in command >> log: until the program seeks, a write to it has an offset
// if position and length are known and the same. What others do to the file is not
// seen.
//
// # Promises
//
//   - No line is lost silently. One that is not understood is counted in the
//     report, and under Options.Strict an error; calls of other kinds are counted.
//   - Lines that strace interrupted ("<unfinished ...>") are put together.
//   - A clock that runs backwards is an error, but for midnight under -tt; and so
//     are a last line that is cut, and an offset that cannot be. Under
//     Options.Lenient they are noted, and what can be used is.
//   - What is wrong is an *iotrace.FormatError with its line.
//   - Memory is bounded by the processes, descriptors and paths of the program,
//     besides the events.
package strace
