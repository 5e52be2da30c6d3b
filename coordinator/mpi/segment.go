package mpi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// An Implementation is the MPI library whose shared-memory footprint a segment has.
type Implementation uint8

// The implementations. The values are part of the segment header.
const (
	MPICH Implementation = iota + 1
	OpenMPI
)

func (f Implementation) String() string {
	switch f {
	case MPICH:
		return "mpich"
	case OpenMPI:
		return "openmpi"
	}
	return fmt.Sprintf("implementation(%d)", uint8(f))
}

// ParseImplementation reads "mpich" or "openmpi".
func ParseImplementation(s string) (Implementation, error) {
	for _, f := range []Implementation{MPICH, OpenMPI} {
		if f.String() == s {
			return f, nil
		}
	}
	return 0, fmt.Errorf("MPI implementation %q is unknown (want mpich or openmpi)", s)
}

const (
	kib = 1 << 10
	mib = 1 << 20

	// HeaderBytes is all that a checkpoint stores of a segment.
	HeaderBytes = zones.PageSize
	ctlBytes    = 256 // of a rank's control block: its two bells, a cache line pair each
	stateBytes  = 4   // of a cell's state word
	ringHead    = 128 // of a ring: head and tail, a cache line each
	recordAlign = 32  // of records in a ring, which is also the size of their header

	// maxNodeRanks bounds the ranks of one node. 4096 ranks of MPICH would take a terabyte of
	// rings; beyond it sizes could overflow.
	maxNodeRanks = 4096
)

// A geometry says where in a segment everything lies. Both implementations have the same parts,
// in other numbers and sizes.
type geometry struct {
	implementation Implementation
	ranks          int
	ringBytes      int64 // per ordered pair, its header included
	cells          int   // per rank
	cellBytes      int64
	ctlOff         int64 // control blocks, by rank
	stateOff       int64 // state words of cells, by rank
	ringOff        int64 // rings, by sender and then receiver
	cellOff        int64 // cells, by owner
	total          int64
}

// mpichConstant is the part of MPICH's segment that does not grow with the ranks: the constant of
// Eq. 3.11 (León 2022), 25.47 MiB. Header, control blocks and state words lie in it; the rest is
// idle, as it is in MPICH once the job has started.
const mpichConstant = 2547 * mib / 100

// Open MPI's segment is flat: 90.10 MiB is the least and most frequent value of León, Table 5.1,
// for 4 to 49 ranks; with 64 ranks it shows 97.30, 98.27 and
// 99.32 MiB. The floors below which rings and pools are not cut reproduce that
// step: 2 MiB + 64 × 512 KiB + 64² × 16 KiB = 98 MiB. From 61 ranks upwards the segment therefore
// grows.
const (
	openMPIFlat     = 9010 * mib / 100
	openMPIConstant = 2 * mib
	openMPICell     = 32 * kib
	openMPIMinRing  = 16 * kib
	openMPIMinPool  = 512 * kib
	maxRing         = 64 * kib
	maxPool         = 4 * mib
)

// newGeometry lays out a segment. The caller has checked f and ranks.
func newGeometry(f Implementation, ranks int) geometry {
	g := geometry{implementation: f, ranks: ranks}
	n := int64(ranks)
	var constant, total int64
	switch f {
	case MPICH:
		constant = zones.PageRound(mpichConstant)
		g.ringBytes = maxRing
		g.cellBytes = 64 * kib
		g.cells = maxPool / (64 * kib)
	default:
		constant = openMPIConstant
		total = max(openMPIFlat, constant+n*openMPIMinPool+n*n*openMPIMinRing)
		room := total - constant
		// Rings get half of the room, in whole pages; pools what is left.
		g.ringBytes = min(max(room/2/(n*n)&^(zones.PageSize-1), openMPIMinRing), maxRing)
		g.cellBytes = openMPICell
		g.cells = int(min((room-n*n*g.ringBytes)/n, maxPool) / openMPICell)
	}
	g.ctlOff = HeaderBytes
	g.stateOff = g.ctlOff + n*ctlBytes
	g.ringOff = constant
	g.cellOff = g.ringOff + n*n*g.ringBytes
	g.total = zones.PageRound(max(total, g.cellOff+n*int64(g.cells)*g.cellBytes))
	return g
}

func (g *geometry) ctl(rank int) int64 { return g.ctlOff + int64(rank)*ctlBytes }

func (g *geometry) state(owner, cell int) int64 {
	return g.stateOff + (int64(owner)*int64(g.cells)+int64(cell))*stateBytes
}

func (g *geometry) ring(src, dst int) int64 {
	return g.ringOff + (int64(src)*int64(g.ranks)+int64(dst))*g.ringBytes
}

func (g *geometry) cell(owner, cell int) int64 {
	return g.cellOff + (int64(owner)*int64(g.cells)+int64(cell))*g.cellBytes
}

// SegmentBytes returns the size of the segment of a node with that many ranks, in bytes and whole
// pages; 0 if f is unknown or ranks is not in 1…4096. MPICH comes to 25.47 + 4·ranks + ranks²/16
// MiB, Open MPI to 90.1 MiB up to 60 ranks and 2 + ranks/2 + ranks²/64 MiB beyond (León 2022, Eq.
// 3.11 and Table 5.1).
func SegmentBytes(f Implementation, ranks int) int64 {
	if checkShape(f, ranks) != nil {
		return 0
	}
	return newGeometry(f, ranks).total
}

func checkShape(f Implementation, ranks int) error {
	if f != MPICH && f != OpenMPI {
		return fmt.Errorf("MPI %v is unknown", f)
	}
	if ranks < 1 || ranks > maxNodeRanks {
		return fmt.Errorf("a node has 1 to %d ranks, not %d", maxNodeRanks, ranks)
	}
	return nil
}

const (
	segmentMagic   = "CKPTSEG\n"
	segmentVersion = 1
	headerUsed     = 52 // bytes of the header that mean something
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Segment is the shared memory of one node, mapped into this process. See the package comment
// for its layout.
type Segment struct {
	path string
	geo  geometry
	mem  []byte
}

// OpenSegment creates or opens the segment file of a node. Several processes may call it with the
// same arguments, at any time and in any order; exactly one of them initialises the file. A file
// that is not a segment of this version and geometry, or that another user could have written, is
// refused.
//
// The space of all that ranks use is reserved here, so a full /dev/shm is an error (ENOSPC) of
// OpenSegment and not a SIGBUS in the middle of a message.
func OpenSegment(path string, f Implementation, ranks int) (*Segment, error) {
	return openSegment(path, os.O_CREATE, f, ranks)
}

// JoinSegment opens the segment file of a node, which OpenSegment has made. A rank that comes
// after the name was removed makes no new file, which would stay for ever.
func JoinSegment(path string, f Implementation, ranks int) (*Segment, error) {
	return openSegment(path, 0, f, ranks)
}

func openSegment(path string, create int, f Implementation, ranks int) (*Segment, error) {
	fail := func(err error) (*Segment, error) { return nil, &SegmentError{Path: path, Err: err} }
	if err := checkShape(f, ranks); err != nil {
		return fail(err)
	}
	s := &Segment{path: path, geo: newGeometry(f, ranks)}
	// /dev/shm is writable by all: without O_NOFOLLOW a link put there by somebody else would
	// have us write into a file of ours.
	file, err := os.OpenFile(path, create|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fail(err)
	}
	defer file.Close() // the mapping outlives the descriptor; nothing is buffered
	if err := s.prepare(file); err != nil {
		return fail(err)
	}
	s.mem, err = unix.Mmap(int(file.Fd()), 0, int(s.geo.total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fail(fmt.Errorf("map %d bytes: %w", s.geo.total, err))
	}
	return s, nil
}

// prepare brings the file to its size and writes a missing header. It holds a lock on
// the file meanwhile; the kernel drops the lock of a process that is killed, and the next one
// finds either no header, and starts again, or a whole one, since the header is a single write
// and the last thing to happen.
func (s *Segment) prepare(file *os.File) error {
	fd := int(file.Fd())
	for {
		err := unix.Flock(fd, unix.LOCK_EX)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("lock: %w", err)
		}
	}
	defer unix.Flock(fd, unix.LOCK_UN)

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("not a regular file")
	case st.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("owned by user %d", st.Uid)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("mode %#o lets others in (want 0600)", st.Mode&0o777)
	case st.Size != 0 && st.Size != s.geo.total:
		return fmt.Errorf("%d bytes long (%v with %d ranks has %d)", st.Size, s.geo.implementation, s.geo.ranks, s.geo.total)
	}
	want := s.geo.header()
	if st.Size != 0 {
		got := make([]byte, HeaderBytes)
		if _, err := file.ReadAt(got, 0); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		if !bytes.Equal(got, make([]byte, HeaderBytes)) {
			return s.geo.checkHeader(got)
		}
	}
	if err := file.Truncate(s.geo.total); err != nil {
		return fmt.Errorf("size: %w", err)
	}
	// The idle part between the state words and the rings is not touched.
	for _, part := range [][2]int64{{0, s.geo.state(s.geo.ranks, 0)}, {s.geo.ringOff, s.geo.total}} {
		if err := reserve(file, part[0], part[1]-part[0]); err != nil {
			err = fmt.Errorf("reserve %d bytes: %w", part[1]-part[0], err)
			return errors.Join(err, file.Truncate(0)) // give back what was reserved
		}
	}
	if _, err := file.WriteAt(want, 0); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	return nil
}

// Fallocate is unix.Fallocate; tests, of which few need the space, have their own.
var Fallocate = unix.Fallocate

// reserve makes sure that every page of a part of the file has memory or disk behind it.
func reserve(file *os.File, off, size int64) error {
	for {
		err := Fallocate(int(file.Fd()), 0, off, size)
		switch err {
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP: // some network file systems: write the zeros out
			zero := make([]byte, mib)
			for end := off + size; off < end; off += mib {
				if _, err := file.WriteAt(zero[:min(mib, end-off)], off); err != nil {
					return err
				}
			}
			return nil
		}
		return err
	}
}

// header returns the first page of a segment with this geometry.
func (g *geometry) header() []byte {
	h := make([]byte, HeaderBytes)
	copy(h, segmentMagic)
	le := binary.LittleEndian
	le.PutUint32(h[8:], segmentVersion)
	le.PutUint32(h[12:], uint32(g.implementation))
	le.PutUint32(h[16:], uint32(g.ranks))
	le.PutUint32(h[20:], uint32(g.cells))
	le.PutUint64(h[24:], uint64(g.cellBytes))
	le.PutUint64(h[32:], uint64(g.ringBytes))
	le.PutUint64(h[40:], uint64(g.total))
	le.PutUint32(h[48:], crc32.Checksum(h[:48], castagnoli))
	return h
}

// checkHeader says what in h differs from the header of g.
func (g *geometry) checkHeader(h []byte) error {
	want := g.header()
	if bytes.Equal(h[:HeaderBytes], want) {
		return nil
	}
	le := binary.LittleEndian
	switch {
	case string(h[:8]) != segmentMagic:
		return errors.New("not a segment: the magic is wrong")
	case le.Uint32(h[48:]) != crc32.Checksum(h[:48], castagnoli):
		return fmt.Errorf("header: %w: the checksum is wrong", ErrCorrupt)
	case le.Uint32(h[8:]) != segmentVersion:
		return fmt.Errorf("version %d (this program knows %d)", le.Uint32(h[8:]), segmentVersion)
	case !bytes.Equal(h[:headerUsed], want[:headerUsed]):
		return fmt.Errorf("made for %v with %d ranks, not for %v with %d", Implementation(le.Uint32(h[12:])), le.Uint32(h[16:]), g.implementation, g.ranks)
	}
	return fmt.Errorf("header: %w: bytes past its fields are not zero", ErrCorrupt)
}

// Unlink removes the file, if it is still there. The ranks that have it mapped go on using it.
func (s *Segment) Unlink() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return &SegmentError{Path: s.path, Err: err}
	}
	return nil
}

// Close unmaps the segment. The Comm that uses it must be closed before.
func (s *Segment) Close() error {
	if s.mem == nil {
		return nil
	}
	err := unix.Munmap(s.mem)
	s.mem = nil
	if err != nil {
		return &SegmentError{Path: s.path, Err: fmt.Errorf("unmap: %w", err)}
	}
	return nil
}

// Region returns the segment as a region of the shared zone. Its bytes may be saved, and
// overwritten with an earlier quiescent segment of the same geometry, while no rank of the node
// is joined or every one has stopped and drained.
func (s *Segment) Region() zones.Region {
	return zones.Region{Name: "segment", Zone: zones.Shared, Elem: zones.Bytes, Size: s.geo.total, Mem: s.mem}
}

// Drained returns the region of a segment that holds no message, to be saved: the header and
// zeros. The old messages in its queues were received, and are not read again. Without them a
// checkpoint of bt.A.16 has two thirds of the bytes, and its size does not depend on which queues
// the ranks happened to use.
func (s *Segment) Drained() zones.Region {
	r := s.Region()
	r.Mem = s.mem[:HeaderBytes:HeaderBytes]
	return r
}

// word32 and word64 give access to the words that processes share. Offsets come from the
// geometry, which aligns them.
func (s *Segment) word32(off int64) *uint32 { return (*uint32)(unsafe.Pointer(&s.mem[off])) }
func (s *Segment) word64(off int64) *uint64 { return (*uint64)(unsafe.Pointer(&s.mem[off])) }

// SegmentDir returns the directory for a segment of need bytes: /dev/shm if it is there and has
// room, the directory for temporary files otherwise.
func SegmentDir(need int64) string {
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if unix.Statfs(shm, &st) == nil && unix.Access(shm, unix.W_OK) == nil &&
		st.Bavail >= uint64(max(need, 0))/uint64(st.Bsize)+1 {
		return shm
	}
	return os.TempDir()
}
