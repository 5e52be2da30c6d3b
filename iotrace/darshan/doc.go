// Package darshan reads the logs of Darshan 3, the files that end in .darshan.
//
//	t, report, err := darshan.Read(f, size, iotrace.Options{})
//
// A log has counters for each file, rank and interface. It has the reads and writes
// one by one only if DXT was enabled when the program ran. The trace has both:
//
//   - Counters of the modules POSIX, MPI-IO and STDIO, a record each.
//   - Events from the segments of DXT_POSIX and DXT_MPIIO, the same that package dxt
//     makes of their text, with times to the nanosecond.
//   - Striping from the module LUSTRE, an entry for each part of a file's layout.
//   - Properties: the mounted file systems, the release of Darshan, its MPI-IO hints.
//
// # Promises
//
//   - Logs of all releases from 3.0.0 to 3.5.0 can be read, in both byte orders and in
//     all three compressions. Numbers that an old release did not count are None.
//   - Modules that this package does not read are named in a warning, and so are
//     modules whose data are incomplete.
//   - Errors in logs are *iotrace.FormatError values with the offset. With
//     Options.Lenient, the intact modules are returned.
//   - A hostile log costs memory in proportion to its own length: 256 bytes for each,
//     and 4 MiB, go through the decompression of a region at most. The list of the
//     ranks is bounded by 24 MiB.
//
// # Format
//
// Numbers have the byte order of the machine that wrote the log. Its magic number
// shows which one that is.
//
//	+--------------+ 0
//	| header       |  360 bytes; 1328 from format 3.41 on
//	+--------------+
//	| job          |  \
//	| names        |   > each a region: compressed by itself
//	| modules      |  /
//	+--------------+
//
// The header:
//
//	  0  char[8]      format as text: 3.00, 3.10, 3.20, 3.21 or 3.41
//	  8  i64          magic number, 6567223
//	 16  u8           compression: 0 zlib, 1 bzip2, 2 none
//	 20  u32          incomplete modules, a bit for each
//	 24  u64[2]       offset and length of the names
//	 40  u64[2][16]   offset and length of each module
//	296  u32[16]      version of each module's records
//
// The header from format 3.41 on:
//
//	  16  u8           compression
//	  24  u64          incomplete modules, a bit for each
//	  32  u64[2]       offset and length of the names
//	  48  u64[2][64]   offset and length of each module
//	1072  u32[64]      version of each module's records
//
// Modules have numbers: 1 POSIX, 2 MPI-IO, 3 H5F, 4 H5D, 5 PNETCDF_FILE,
// 6 PNETCDF_VAR, 7 BG/Q, 8 LUSTRE, 9 STDIO, 10 DXT_POSIX, 11 DXT_MPIIO, 12 MDHIM,
// 13 APXC, 14 APMPI, 15 HEATMAP, 16 DFS, 17 DAOS. Formats before 3.20 lack H5D, those
// before 3.41 PNETCDF_VAR; modules behind have lower numbers there.
//
// A compressed region may be several streams of zlib or bzip2, one after the other:
// each rank compresses its own part. The job begins behind the header and goes on to
// the next region. It is not larger than 4096 bytes:
//
//	0  i64         user
//	8  i64 [i64]   start, seconds since 1970 and, from 3.41 on, nanoseconds
//	   i64 [i64]   end
//	   i64         processes
//	   i64         job number
//	   char[1024]  lines of the form key=value, such as lib_ver=3.4.6
//	   char[]      command line, then of each file system a line: type, tab, directory
//
// A name is the number of a record, a u64, and the path, which ends in a zero byte. In
// format 3.00 the path has no zero byte; its length is in front, a u32.
//
// A record of POSIX, MPI-IO or STDIO:
//
//	   0  u64      number of the record, a hash of the path
//	   8  i64      rank; -1 of a record that all ranks share
//	  16  i64[]    counters
//	      f64[]    times, in seconds since the start
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
//
// A record of LUSTRE, version 1, and then the targets, an i64 each:
//
//	 0  u64, i64  number of the record, rank
//	16  i64[3]    targets and metadata targets of the file system, first target
//	40  i64, i64  size and number of the stripes
//
// Version 2, and then the components of 72 bytes and the targets, an i64 each:
//
//	 0  u64, i64  number of the record, rank
//	16  i64, i64  number of the components and of the stripes
//
//	 0  i64, i64  size and number of the stripes; the size is -1 if it is not used
//	16  i64, i64  pattern, flags
//	32  i64, i64  start and end in the file; -1 is the end of the file
//	48  i64       mirror
//	56  char[16]  pool
//
// A record of DXT_POSIX and DXT_MPIIO, and then the segments, writes first:
//
//	 0  u64, i64  number of the record, rank
//	16  i64       whether all ranks share the file
//	24  char[64]  host
//	88  i64, i64  number of the writes and of the reads
//
//	 0  i64, i64  offset, length; MPI-IO has no offset in version 1
//	16  f64, f64  start and end, in seconds since the start of the job
//	32  u64       thread; from version 2 of DXT_POSIX and 3 of DXT_MPIIO on
package darshan
