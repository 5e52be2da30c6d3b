package container

import (
	"time"

	"ckpt/image/plan"
	"ckpt/zones"
)

// Defaults of WriteOptions, chosen by measurement (docs/FORMAT.md, "Speed").
const (
	defaultExtent = 256 << 10
	defaultDepth  = 4
	// stageBytes is the length of a chunk: extents are gathered into what is worth
	// the disk's while. It is also that of a staging buffer.
	stageBytes = plan.WriteBytes
	// stageBelow is the length from which an extent is read by itself, straight
	// into the memory of its region.
	stageBelow = 1 << 20
)

// WriteOptions are the settings of Write and WriteJoint. The zero value stores the
// bytes as they are, but for extents of zeros, which are never stored.
type WriteOptions struct {
	// ExtentBytes is the length of an extent, the unit of checksums, compression
	// and comparison. It is rounded up to whole pages; 0 means 256 KiB, the limit
	// is 64 MiB, with Fetch 4 MiB.
	ExtentBytes int
	// Depth is how many chunks are packed, and how many writes are under way, at a
	// time; 0 means 4.
	Depth int
	// Buffer is how many bytes of a file that Write makes are under way at most; 0
	// means 16 MiB. For WriteJoint it is in the settings.
	Buffer int64
	// Buffered writes through the page cache. Otherwise writes go around it where
	// the file system lets them, and through it where not.
	Buffered bool
	// Codec compresses; nil stores raw bytes.
	Codec *Codec
	// History, if not nil, remembers what is written. Extents that have not
	// changed since checkpoint Base become references to where they are stored;
	// with Base 0, or one that History does not know, all are stored. So are those
	// that lie in files of checkpoints before Oldest.
	History      *History
	Base, Oldest int
	// Staging, if not nil, takes a copy of the memory, and Captured is called, once
	// and before the write returns, when the memory may change again. Without it,
	// the memory must not change until the write returns.
	Staging  *Staging
	Captured func()
	// Fetch, if not nil, fills a part of the memory of a region, which is elsewhere:
	// no memory is read before. Release, if not nil, says of each byte that was to be
	// fetched, once and whatever becomes of the write, that it is not read again; it
	// may cut the memory in other places than Fetch. At most 32 MiB are in between.
	// Both are called by several goroutines. An error of Fetch ends the write. After
	// an error, another rank of a WriteJoint may still read what was released. Fetch
	// does not go with Staging.
	Fetch   func(mem []byte) error
	Release func(mem []byte)
	// Clean, if not nil, reports that n bytes from offset of a region have not
	// changed since checkpoint Base. Such an extent becomes a reference and is not
	// read, if History knows it and its file is of checkpoint Oldest or a later one.
	// It is called before anything is fetched. Its answer is not checked.
	Clean func(region string, offset, n int64) bool
	// Trace, if not nil, records what is done.
	Trace *Tracing
	// Held, if not nil, returns for how long, in all, the file system has kept operations
	// back so far, as one does that waits for others. It is no time of the storage:
	// neither StorageTime nor what Codec learns counts it.
	Held func() time.Duration
	// Progress, if not nil, is told the bytes of memory dealt with since the
	// last call. It is never called twice at once.
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
	// Some says that the file may hold regions of the rank that into lacks. They are
	// not read.
	Some bool
	// Check says that what is read is checked only: the memory of the regions is not
	// written, and Loaded not called.
	Check bool
	// Progress, if not nil, is told the bytes that have been read since the last
	// call. It is never called twice at once.
	Progress func(int64)
	// Loaded, if not nil, is called for each part of the memory of a region, whole
	// pages, when it is complete and checked; it is neither read nor written again.
	// Several goroutines call it. At most 64 MiB have been written to and not yet
	// handed over. An error of it ends the load.
	Loaded func(mem []byte) error
}

// FileInfo describes a container file that has been written.
type FileInfo struct {
	Path        string
	Bytes       int64       // length of the file
	Holes       int64       // of which so many are in holes
	IndexBlake3 string      // digest of the file's index, hexadecimal
	Zones       zones.Sizes // of the regions as the program asked for them
	// ManagementTime is what was spent on laying out the file and on its index,
	// StorageTime the rest: writing and waiting for the disk, with the checksums
	// and the packing done meanwhile. The sum is the time of the call.
	ManagementTime, StorageTime time.Duration
}

// Staging is memory into which a Write copies what it has to store, so that the
// program can go on before it is stored. It is used by one Write at a time.
type Staging struct{ mem []byte }

// NewStaging makes a Staging of mem, which begins at a page boundary. Extents
// that do not fit into it are written from where they are.
func NewStaging(mem []byte) *Staging { return &Staging{mem} }
