// Package dxt reads and writes the text that darshan-dxt-parser prints of a
// Darshan log: each read and write of a job, by file and rank.
//
//	t, report, err := dxt.Read(r, iotrace.Options{})
//	left, err := dxt.Write(w, t)
//
// A Trace keeps less than the text has. A Log keeps everything, so that a text can be
// passed on unchanged:
//
//	log, err := dxt.ReadLog(r)
//	_, err = log.WriteTo(w)
//
// # Promises
//
//   - All versions from 3.1 to 3.6 can be read, and a Log writes them back byte for
//     byte.
//   - Read reads what Write has written, with times to a tenth of a millisecond as
//     in the format. Writing that again gives the same bytes, except for the number
//     of processes if some of them neither read nor write.
//   - A record with fewer segments than it announces is refused, and so is a last
//     line without an end: the text was truncated. A cut between two records cannot
//     be detected.
//   - Errors are *iotrace.FormatError values with the line.
//
// # Format
//
// Lines that begin with # are not segments. First come properties of the job, such as
// "# exe: …", "# start_time: …", "# nprocs: …"; then a record for each module, file
// and rank:
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
// The length has 13 places instead of 16 up to 3.1.5, and the offset is missing for
// MPI-IO up to 3.1.8. Behind the columns come the OSTs of Lustre and, from 3.6 on, the
// number of the thread. Versions separate them differently; a Log keeps that part
// unchanged. MPI-IO has an offset of -1 where Darshan could not know it. Segments
// count from 0, writes and reads separately.
package dxt
