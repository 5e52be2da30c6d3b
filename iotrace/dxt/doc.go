// Package dxt reads and writes the text that darshan-dxt-parser prints of a
// Darshan log: each read and write of a job, by file and rank.
//
//	t, report, err := dxt.Read(r, iotrace.Options{})
//	left, err := dxt.Write(w, t)
//
// A Trace keeps less than the text says. A Log keeps it all, so that a text can
// be passed on unchanged:
//
//	log, err := dxt.ReadLog(r)
//	_, err = log.WriteTo(w)
//
// # Promises
//
//   - The texts of all versions from 3.1 to 3.6 are read, and come out of a Log
//     byte for byte as they were.
//   - What Write has written, Read reads, with times to a tenth of a millisecond,
//     as the format has them; writing that again gives the same bytes, but for the
//     number of processes if some of them neither read nor write.
//   - A record with fewer segments than it announces is refused, and so is a last
//     line without an end: the text was cut. A cut between two records cannot be
//     seen.
//   - What is wrong is an *iotrace.FormatError with its line.
//
// # Format
//
// Lines that are not of segments begin with #. First, what there is to know of
// the job, as "# exe: …", "# start_time: …", "# nprocs: …"; then for each module,
// file and rank a record:
//
//	# DXT, file_id: 9457796068806373448, file_name: /scratch/out
//	# DXT, rank: 3, hostname: n0
//	# DXT, write_count: 1, read_count: 1
//	# DXT, mnt_pt: /scratch, fs_type: lustre
//	# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
//	 X_POSIX       3  write        0               0         4096      0.0120      0.0131
//	 X_POSIX       3   read        0             512          512      0.0140      0.0141
//
// A segment is printed by
//
//	printf("%8s%8d%7s%9d%16d%16d%12.4f%12.4f", …)
//
// with a length of 13 places instead of 16 up to 3.1.5, and without the offset
// for MPI-IO up to 3.1.8. Behind it come the OSTs of Lustre and, from 3.6 on, the
// number of the thread, each version with blanks of its own; a Log keeps that
// part as it is. An offset of -1 is that of MPI-IO where Darshan could not know it.
// Segments count from 0, writes and reads apart.
package dxt
