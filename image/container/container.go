// Package container writes and reads the files of a checkpoint: each holds regions of the
// memory of one or more ranks, cut into extents that are packed and checked one by one. No
// other code creates, writes, completes or checks such a file.
//
// # Format
//
// Numbers are little-endian. Header, extents, index and trailer begin at multiples of 4096, for
// direct I/O.
//
//	+--------------------+ 0
//	| header      4 KiB  |  job, checkpoint, rank, node, kind; CRC-32C
//	+--------------------+ 4096
//	| payload            |  extents, each padded with zeros to 4 KiB;
//	|   extent           |  no gaps, no overlap; CRC-32C in the index
//	|   extent ...       |
//	+--------------------+ index offset
//	| index              |  blake3-256 of the header block
//	|   regions          |  name, zone, element type, rank, size
//	|   external files   |  path, blake3-256 of that file's index
//	|   extents          |  64 bytes each
//	|   zeros to 4 KiB   |
//	+--------------------+
//	| copy of the index  |  if it is too large for the trailer
//	+--------------------+ file length - 4096
//	| trailer     4 KiB  |  where the index is; its CRC-32C and blake3-256;
//	+--------------------+  the length of the file; a copy of the index; CRC-32C
//
// The digest of the index is thus a digest of the whole. It is in the manifest, so that a file
// cannot pass for another. docs/FORMAT.md has every field.
package container

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

var (
	// ErrRegionsDiffer says that the regions to load into are other ones than the image holds.
	ErrRegionsDiffer = errors.New("the regions of the image are not those of the process")
	// ErrUnsupported says that a file uses a codec or filter that this version does not know.
	ErrUnsupported = errors.New("not supported by this version")
)

// An OtherJobError is durable.ErrOtherJob with the details.
type OtherJobError struct{ File, Job, Want string }

// Reason is the error without the name of the file.
func (e *OtherJobError) Reason() string {
	return fmt.Sprintf("%v: it is of job %s, not %s", durable.ErrOtherJob, e.Job, e.Want)
}

func (e *OtherJobError) Error() string { return e.File + " " + e.Reason() }

// Is makes it answer to durable.ErrOtherJob.
func (e *OtherJobError) Is(target error) bool { return target == durable.ErrOtherJob }

const (
	// ManifestName is the manifest in the directory of a checkpoint; no container file has this
	// name.
	ManifestName = "manifest"
	// JobNumber names the directory of what belongs to the job; checkpoints count from 1.
	JobNumber = 0
)

// ValidJobName reports whether a job may have this name.
func ValidJobName(name string) bool {
	if len(name) < 1 || len(name) > 101 {
		return false
	}
	for i, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// FormatNumber returns the name of the directory of a checkpoint.
func FormatNumber(n int) string { return fmt.Sprintf("%04d", n) }

// ParseNumber reads the name of a numbered directory, which is unique for a number.
func ParseNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err == nil && FormatNumber(int(n)) == s
}

// PathNumber returns the number in a path like 0007/rank-0.img.
func PathNumber(p string) (int, bool) {
	return ParseNumber(strings.TrimSuffix(path.Dir(p), "/"))
}

// JobPath returns the path of a file relative to the directory of its job.
func JobPath(name string) string {
	return path.Join(filepath.Base(filepath.Dir(name)), filepath.Base(name))
}

// LocalPath reports whether p, relative to the job, names a file in a checkpoint directory:
// NNNN/name.
func LocalPath(p string) bool {
	dir, name := path.Split(p)
	_, ok := ParseNumber(strings.TrimSuffix(dir, "/"))
	return ok && strings.HasSuffix(dir, "/") && name != "." && name != ".." && name != "" &&
		name != ManifestName && !strings.ContainsAny(name, "\x00\\\n") && path.Clean(p) == p
}

// aligned returns n zero bytes that direct I/O takes.
func aligned(n int) []byte { return vfs.Aligned(n) }

func isAligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%zones.PageSize == 0
}

// continues says that b follows a in the same piece of memory.
func continues(a, b []byte) bool {
	n := len(a)
	return n > 0 && cap(a)-n >= len(b) && &a[:n+1][n] == &b[0]
}
