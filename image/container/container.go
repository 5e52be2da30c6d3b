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
	"time"
	"unsafe"

	"ckpt/image/plan"
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

// Defaults of WriteOptions, chosen by measurement (docs/FORMAT.md, "Speed").
const (
	defaultExtent = 256 << 10
	defaultDepth  = 4
	// stageBytes is the length of a chunk, which gathers extents worth the disk's while, and of
	// a staging buffer.
	stageBytes = plan.WriteBytes
	// stageBelow is the length from which an extent is read by itself, straight into its
	// region.
	stageBelow = 1 << 20
)

// WriteOptions are the settings of Write and WriteJoint. The zero value stores bytes as they
// are, except zeros.
type WriteOptions struct {
	// ExtentBytes is the length of an extent, the unit of checksums, compression and
	// comparison, rounded up to pages; 0 means 256 KiB, the limit is 64 MiB, with Fetch 4 MiB.
	ExtentBytes int
	// Depth is how many chunks are packed, and writes under way, at a time; 0 means 4.
	Depth int
	// Buffer is how many bytes of a file are under way at most in Write; 0 means 16 MiB.
	// WriteJoint has settings.
	Buffer int64
	// Buffered writes through the page cache; else around it where the file system can.
	Buffered bool
	// Codec compresses; nil stores raw bytes.
	Codec *Codec
	// History, if not nil, remembers what is written. Extents unchanged since checkpoint Base
	// become references; all are stored if Base is 0 or unknown, or the extent lies in a file
	// of a checkpoint before Oldest.
	History      *History
	Base, Oldest int
	// Staging, if not nil, takes a copy of the memory, and Captured is called, once and before
	// the write returns, when the memory may change again. Without it, that is when the write
	// returns.
	Staging  *Staging
	Captured func()
	// Fetch, if not nil, fills a part of a region's memory, which is elsewhere, before it is
	// read. Release, if not nil, says once of each byte to be fetched, whatever becomes of the
	// write, that it is not read again; it may cut memory differently. At most 32 MiB are in
	// between. Several goroutines call both. An error of Fetch ends the write; then another
	// rank of a WriteJoint may still read what was released. Fetch excludes Staging.
	Fetch   func(mem []byte) error
	Release func(mem []byte)
	// Clean, if not nil, reports that n bytes from offset of a region are unchanged since
	// checkpoint Base. Such an extent becomes a reference, unread, if History knows it and
	// Oldest allows. It is called before anything is fetched, and believed.
	Clean func(region string, offset, n int64) bool
	// Trace, if not nil, records what is done.
	Trace *Tracing
	// Held, if not nil, returns for how long in all the file system has kept operations back,
	// waiting for others. StorageTime and what Codec learns leave that time out.
	Held func() time.Duration
	// Progress, if not nil, is told the bytes of memory dealt with since its last call, one
	// call at a time.
	Progress func(int64)
}

// held is Held, which may be nil.
func (o *WriteOptions) held() time.Duration {
	if o.Held == nil {
		return 0
	}
	return o.Held()
}

// LoadOptions are the settings of Place.Load.
type LoadOptions struct {
	// Some: the file may hold regions of the rank that into lacks; they are not read.
	Some bool
	// Check: what is read is checked only; memory is not written, and Loaded not called.
	Check bool
	// Progress, if not nil, is told the bytes read since its last call, one call at a time.
	Progress func(int64)
	// Loaded, if not nil, gets each part of a region's memory, whole pages, when it is complete
	// and checked; it is not touched again. Several goroutines call it. At most 64 MiB are
	// written to and not handed over. An error ends the load.
	Loaded func(mem []byte) error
	// Current, if not nil, fills memory of a region with what it holds before the load: parts of
	// arrays leave bytes between their cells alone.
	Current func(mem []byte) error
}

// FileInfo describes a container file that has been written.
type FileInfo struct {
	Path        string
	Bytes       int64       // length of the file
	Holes       int64       // of which so many are in holes
	IndexBlake3 string      // digest of the file's index, hexadecimal
	Zones       zones.Sizes // of the regions as the program asked for them
	// ManagementTime was spent on laying out the file and on its index, StorageTime on the
	// rest: writing and waiting for the disk, checksums and packing. The sum is the time of the
	// call.
	ManagementTime, StorageTime time.Duration
}

// Staging is memory into which a Write copies what it has to store, so that the program can go
// on. It serves one Write at a time.
type Staging struct{ mem []byte }

// NewStaging makes a Staging of mem, which begins at a page boundary. Other memory is
// written from where it is.
func NewStaging(mem []byte) *Staging { return &Staging{mem} }
