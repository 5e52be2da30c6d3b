// Package read opens a trace of any known format, packed or not. It recognises the format
// by the contents, never by the name.
//
//	t, report, err := read.File("out.strace", iotrace.Options{})
//	t, report, err = read.Stream("-", os.Stdin, iotrace.Options{})
//	traces, reports, err := read.Files(names, iotrace.Options{}, open)
//
// Errors name the file and the line or offset.
//
// # Darshan
//
// The package reads the logs of Darshan 3, the files that end in .darshan, and the text
// that darshan-dxt-parser prints of them.
//
//	t, report, err := read.Darshan(f, size, iotrace.Options{})
//	t, report, err = read.DarshanText(r, iotrace.Options{})
//
// A log has counters for each file, rank and interface (POSIX, MPI-IO, STDIO), and the reads
// and writes one by one only if DXT was enabled when the program ran. The trace has both,
// the striping of the module LUSTRE, and properties of the job.
//
//   - Logs of all releases from 3.0.0 to 3.5.0 can be read, in both byte orders and in
//     all three compressions. Numbers that an old release did not count are None.
//   - A warning names the modules that are not read, and those whose data are incomplete.
//   - Errors in logs are *iotrace.FormatError values with the offset. With
//     Options.Lenient, the intact modules are returned.
//   - A hostile log costs memory in proportion to its own length: 256 bytes for each,
//     and 4 MiB, go through the decompression of a region at most. The list of the
//     ranks is bounded by 24 MiB.
//
// # Format of Darshan
//
// Numbers have the byte order of the machine that wrote the log, which the magic number
// shows. A header of 360 bytes, or 1328 from format 3.41 on, says where the names and the
// records of the modules are:
//
//	            3.41
//	  0           0  char[8]   format as text: 3.00, 3.10, 3.20, 3.21 or 3.41
//	  8           8  i64       magic number, 6567223
//	 16          16  u8        compression: 0 zlib, 1 bzip2, 2 none
//	 20  u32     24  u64       incomplete modules, a bit for each
//	 24          32  u64[2]    offset and length of the names
//	 40  [16]    48  u64[2][64]  offset and length of each module
//	296  [16]  1072  u32[64]   version of each module's records
//
// Formats before 3.20 lack the module H5D, those before 3.41 PNETCDF_VAR; modules behind
// have lower numbers there. A compressed region may be several streams of zlib or bzip2,
// one after the other: each rank compresses its own part. The job begins behind the header
// and goes on to the next region, at most 4096 bytes: user, start, end (with nanoseconds
// from 3.41 on), processes and job number, an i64 each; 1024 bytes of lines key=value; the
// command line; and a line for each file system, with type, tab and directory.
//
// A name is the number of a record, a u64, and the path, which ends in a zero byte; in
// format 3.00 its length is in front, a u32. Records begin with the number of the name,
// a u64, and the rank, an i64, -1 if all ranks share it. Counters, an i64 each, and times,
// an f64 each in seconds since the start, follow in records of POSIX, MPI-IO and STDIO:
//
//	module  version  counters  times  differences from the next version
//	POSIX   1        68        15     fopen, fread, fwrite and fseek are counted too
//	        2        64        15     no end of the first close and last open
//	        3        64        17     no counters of fileno, dup and rename
//	        4        69        17
//	MPI-IO  1, 2     51        15     no end of the first close and last open
//	        3        51        17
//	STDIO   1        13        15     no counter of fdopen
//	        2        14        15
package read
