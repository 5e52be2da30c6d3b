// Package dmtcp reads checkpoint images of DMTCP: the areas of memory, and the bytes
// that the image stores of them.
//
// Read returns only the areas. A Scanner reads an image record by record, forward only, so
// that it works on a pipe. Every Raw followed by its data is a copy of the image:
//
//		s, err := dmtcp.NewScanner(name, file, size)
//		for {
//			rec, err := s.Next()
//			if err == io.EOF {
//				break // the image is whole
//			}
//			... rec.Raw, then rec.Data bytes from s.Read
//		}
//
//	  - A truncated image is refused, and so is one with bytes behind its end.
//	  - Lengths are checked before they are used. A hostile image costs time in proportion
//	    to its length after decompression, a few hundred KiB of memory, and under Read the
//	    memory of its areas and their names, which is limited.
//	  - Errors in the contents are *zones.FormatError values with the offset in the
//	    decompressed file.
//	  - Every image that DMTCP can write is read. Checks that some file system, plug-in or
//	    mount could make fail are left out.
//
// # Layout
//
// DMTCP 4.0 to 5.0 write the format v4.0, perhaps compressed with gzip. All numbers are
// little-endian. A file header of 4 KiB comes twice. Then come areas, each with a header of
// 4 KiB and data of any length, and an end marker: an area header whose start is 0 and size
// 2^64-1. The file header:
//
//	   0  char[32]    DMTCP_CHECKPOINT_IMAGE_v4.0\n
//	  32  id          of the process: u64 host, u64 time, i32 virtual pid,
//	                  u32 generation; its parent; the computation
//	 104  i32 x 5     pid, ppid, sid, gid, foreground gid; all virtual
//	 124  u32         is the root of the process tree
//	 128  u32         processes in the computation, launchers included
//	 132  u32         ELF type: 0 is 32 bit, 1 is 64 bit
//	 136  u64 x 4     offsets of functions in the vdso
//	 168  u64 x 8     start and end of the restart buffer, vdso, vvar, vvar_vclock
//	 232  u64 x 3     brk, end of the stack, entry of the restart
//	 256  char[1024]  name of the program
//	1280  char[1024]  path of the executable
//
// The area header:
//
//	 0  u64 x 4     start, end, size, offset in the file behind it
//	32  i32 (in 8)  protection: 1 read, 2 write, 4 execute
//	40  i32 (in 8)  flags of mmap(2): 1 shared, 2 private, 0x10 fixed,
//	                0x20 anonymous
//	48  u64 x 3     device, major and minor; inode
//	72  i64         length stored of a file; -1 if not set
//	80  u64         properties
//	88  char[1024]  name as in /proc/PID/maps
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
// The runs of an area cover it without gaps, in order of their addresses. Their headers
// are copies of the area's, but for start, end, size and properties. Padding, the bytes
// after the NUL of a name, and the upper halves of protection and flags mean nothing.
//
// # Which damage is found
//
// An image has no checksums; gzip has one, over the whole. Without gzip a changed bit is
// found in the file header, in start, end and size, in the properties and lengths (at once,
// or at the next header, which is then misplaced), and in all fields of an area that is cut
// into runs. In offset, protection, flags, device, inode and name of other areas only values
// that are impossible are found, and in data nothing is.
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

func version(head []byte) string {
	v := head[len(signaturePrefix):min(len(head), 32)]
	if i := bytes.IndexAny(v, "\n\x00"); i >= 0 {
		v = v[:i]
	}
	return strings.ToValidUTF8(string(v), "?")
}
