// Package dmtcp reads checkpoint images of DMTCP: the areas of memory, and the bytes
// that the image stores of them.
//
// Read returns only the areas:
//
//	p, err := dmtcp.Read(ctx, name, file, size)
//
// A Scanner reads an image record by record, forward only, so that it works on a pipe.
// Every Raw followed by its data is a copy of the image:
//
//	s, err := dmtcp.NewScanner(name, file, size)
//	for {
//		rec, err := s.Next()
//		if err == io.EOF {
//			break // the image is whole
//		}
//		... rec.Raw, then rec.Data bytes from s.Read
//	}
//
// # Promises
//
//   - A truncated image is refused, and so is one with bytes behind its end.
//   - Lengths in an image are checked before they are used. A hostile image costs
//     time in proportion to its length after decompression, a few hundred KiB of
//     memory, and under Read the memory of its areas and their names, which is
//     limited.
//   - Errors in the contents are *zones.FormatError values with the offset in the
//     decompressed file. Other errors are those of the reader or the context.
//   - Images that DMTCP can write are never refused. Checks that some file system,
//     plug-in or mount could make fail are left out, such as equal inodes of the
//     same file in two areas.
//
// # Layout
//
// The format is called v4.0; DMTCP 4.0 to 5.0 write it. All numbers are little-endian.
// The whole file may be compressed with gzip, whatever its name.
//
//	+--------------------+ 0
//	| file header  4 KiB |
//	+--------------------+ 4096
//	| file header again  |  the same bytes
//	+--------------------+ 8192
//	| area header  4 KiB |
//	| data               |  see below; of any length, so that what follows may
//	|                    |  begin anywhere
//	| area header ...    |
//	+--------------------+ file length - 4096
//	| end marker   4 KiB |  an area header whose start is 0 and size 2^64-1
//	+--------------------+
//
// The file header:
//
//	   0  char[32]    DMTCP_CHECKPOINT_IMAGE_v4.0\n
//	  32  id          of the process: u64 host, u64 time, i32 virtual pid,
//	                  u32 generation
//	  56  id          of its parent
//	  80  id          of the computation
//	 104  i32 x 5     pid, ppid, sid, gid, foreground gid; all virtual
//	 124  u32         is the root of the process tree
//	 128  u32         processes in the computation, launchers included
//	 132  u32         ELF type: 0 is 32 bit, 1 is 64 bit
//	 136  u64 x 4     offsets of functions in the vdso
//	 168  u64 x 2     buffer for the restart: start, end; never stored
//	 184  u64 x 2     vdso
//	 200  u64 x 2     vvar
//	 216  u64 x 2     vvar_vclock
//	 232  u64         brk
//	 240  u64         end of the stack
//	 248  u64         entry of the restart
//	 256  char[1024]  name of the program
//	1280  char[1024]  path of the executable
//	2304              padding
//
// The area header:
//
//	   0  u64         start
//	   8  u64         end
//	  16  u64         size
//	  24  u64         offset in the file behind it
//	  32  i32 (in 8)  protection: 1 read, 2 write, 4 execute
//	  40  i32 (in 8)  flags of mmap(2): 1 shared, 2 private, 0x10 fixed,
//	                  0x20 anonymous
//	  48  u64         device, major
//	  56  u64         device, minor
//	  64  u64         inode
//	  72  i64         length stored of a file; -1 if not set
//	  80  u64         properties
//	  88  char[1024]  name as in /proc/PID/maps
//	1112              padding
//
// The properties determine what follows:
//
//	0  a file's area, stored whole: as many bytes as the length at 72 says,
//	   size bytes if that is not positive
//	1  an area that is zero again after a restart (the cache of nscd): nothing
//	2  an area that is cut into runs, whose headers follow
//	4  a run: size bytes
//	5  a run of zeros: nothing
//
// The runs of an area cover it without gaps, in order of their addresses. Their
// headers are copies of the area's, but for start, end, size and properties.
// The bytes after the NUL of a name, the upper halves of protection and flags,
// the padding of area headers and the rest of the end marker are left-overs of
// the writer's memory and mean nothing.
//
// # Which damage is found
//
// An image has no checksums; gzip has one, over the whole. Without gzip a
// changed bit is found
//
//   - in the file header: always, because there are two copies;
//   - in start, end and size: always, because two determine the third, and areas and
//     runs are in order;
//   - in the properties: at once, or at the next header, which is then misplaced. It
//     is missed if the data, read with the wrong length, ends where another area
//     begins;
//   - in the length of a file's area: likewise. It is missed if the meaning is the
//     same: 0 and -1 both mean the size;
//   - in offset, protection, flags, device, inode and name of an area that is cut
//     into runs: always, because the runs repeat them;
//   - in those of other areas: only if the value is impossible. That covers the
//     lower 12 bits of the offset, protection beyond 7, both or neither of shared
//     and private, unknown flags, device numbers beyond 12 and 20 bits, and a name
//     that does not begin with a slash or has no end;
//   - in the end marker: in start and size, always.
//
// So changes are missed in offset, protection, fixed, device, inode and name of a
// file's area, in bytes without meaning, and in all data.
package dmtcp

import (
	"bytes"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// The signature belongs to the format, not to the program's version.
const (
	signaturePrefix = "DMTCP_CHECKPOINT_IMAGE_v"
	signature       = signaturePrefix + "4.0\n\x00"
)

var gzipMagic = []byte{0x1f, 0x8b}

// IsImage reports whether a file that begins with head is an image of DMTCP, of any
// version of the format, compressed or not. It needs the first 512 bytes.
func IsImage(head []byte) bool {
	if bytes.HasPrefix(head, gzipMagic) {
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		start := make([]byte, len(signaturePrefix))
		n, _ := io.ReadFull(z, start) // head may end early; use what was unpacked
		head = start[:n]
	}
	return bytes.HasPrefix(head, []byte(signaturePrefix))
}

// CompanionDir returns the name of the directory in which DMTCP puts the files that an
// image shares with others. ok is false if the image does not have a name of DMTCP.
func CompanionDir(image string) (dir string, ok bool) {
	stem, ok := strings.CutSuffix(image, ".dmtcp")
	return stem + companionSuffix, ok
}

const companionSuffix = "_files"

// IsCompanion reports whether a directory is the CompanionDir of some image.
func IsCompanion(dir string) bool { return strings.HasSuffix(dir, companionSuffix) }

// version returns the version in a signature, for an error.
func version(head []byte) string {
	v := head[len(signaturePrefix):min(len(head), 32)]
	if i := bytes.IndexAny(v, "\n\x00"); i >= 0 {
		v = v[:i]
	}
	return strings.ToValidUTF8(string(v), "?")
}
