package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"ckpt/zones"
)

// An AreaRecord is the header of an area, or of one of its runs.
type AreaRecord struct {
	Start, End uint64
	Offset     uint64 // in the file behind it
	Prot       zones.Prot
	Flags      uint32 // of mmap(2)
	Device     uint64 // major<<32 | minor
	Inode      uint64
	FileSize   int64 // stored bytes of a file's area; unset if not positive
	Properties uint64
	Name       string
}

// The properties.
const (
	zeroPage = 1 << iota
	parentHeader
	childHeader
)

// The flags of mmap(2). DMTCP writes combinations of the first four. It adds the
// others itself when it restarts a process, so they are tolerated.
const (
	mapShared    = 0x1
	mapPrivate   = 0x2
	mapFixed     = 0x10
	mapAnonymous = 0x20
	mapGrowsDown = 0x100
	mapNoReserve = 0x4000
	mapStack     = 0x20000

	mapKnown = mapShared | mapPrivate | mapFixed | mapAnonymous | mapGrowsDown | mapNoReserve | mapStack
)

// Offsets of the fields in an area header.
const (
	atStart      = 0
	atEnd        = 8
	atSize       = 16
	atOffset     = 24
	atProt       = 32
	atFlags      = 40
	atMajor      = 48
	atMinor      = 56
	atInode      = 64
	atFileSize   = 72
	atProperties = 80
	atName       = 88
	nameSize     = 1024
)

// userSpace is the end of user addresses on x86-64 with five levels of page
// tables, the largest there is.
const userSpace = 1 << 56

const deletedMark = " (deleted)"

// isMarker reports whether an area header is the end marker. The checks refuse half a
// marker as an area.
func isMarker(b []byte) bool {
	return binary.LittleEndian.Uint64(b[atStart:]) == 0 && binary.LittleEndian.Uint64(b[atSize:]) == math.MaxUint64
}

// decodeArea decodes an area header and checks it as far as it can be checked alone.
// It reuses the name of last if it is the same, to save allocations.
func decodeArea(b []byte, last string) (AreaRecord, *flaw) {
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	a := AreaRecord{
		Start:      u64(atStart),
		End:        u64(atEnd),
		Offset:     u64(atOffset),
		Flags:      uint32(u64(atFlags)),
		Device:     u64(atMajor)<<32 | u64(atMinor),
		Inode:      u64(atInode),
		FileSize:   int64(u64(atFileSize)),
		Properties: u64(atProperties),
	}
	prot := uint32(u64(atProt))
	a.Prot = zones.Prot(prot)
	name := b[atName : atName+nameSize]
	end := bytes.IndexByte(name, 0)

	size := u64(atSize)
	switch {
	case a.Start == 0: // the start alone identifies the end marker for DMTCP
		return a, flawed(atStart, "an area starts at 0, and is not the end marker")
	case a.Start >= a.End:
		return a, flawed(atEnd, "an area from %#x ends at %#x, not after its start", a.Start, a.End)
	case a.Start%zones.PageSize != 0:
		return a, flawed(atStart, "an area starts at %#x, which is not a multiple of the page size", a.Start)
	case a.End%zones.PageSize != 0:
		return a, flawed(atEnd, "an area ends at %#x, which is not a multiple of the page size", a.End)
	case a.End > userSpace:
		return a, flawed(atEnd, "an area ends at %#x, beyond the addresses of a process", a.End)
	case size != a.End-a.Start:
		return a, flawed(atSize, "an area from %#x to %#x has a size of %#x", a.Start, a.End, size)
	case a.Offset%zones.PageSize != 0:
		return a, flawed(atOffset, "an area maps its file from offset %#x, which is not a multiple of the page size", a.Offset)
	case prot&^uint32(zones.Read|zones.Write|zones.Exec) != 0:
		return a, flawed(atProt, "a protection of %#x has unknown bits", prot)
	case a.Flags&^mapKnown != 0:
		return a, flawed(atFlags, "flags of %#x have unknown bits", a.Flags)
	case (a.Flags&mapShared != 0) == (a.Flags&mapPrivate != 0):
		return a, flawed(atFlags, "flags of %#x are not those of either a shared or a private area", a.Flags)
	case u64(atMajor)>>12 != 0: // the widths of the kernel's dev_t
		return a, flawed(atMajor, "device number %#x has more than 12 bits", u64(atMajor))
	case u64(atMinor)>>20 != 0:
		return a, flawed(atMinor, "minor device number %#x has more than 20 bits", u64(atMinor))
	case end < 0:
		return a, flawed(atName, "a name has no end")
	case a.FileSize < -1:
		return a, flawed(atFileSize, "%d bytes are stored of a file", a.FileSize)
	case a.FileSize > int64(size):
		return a, flawed(atFileSize, "%d bytes are stored of an area of %d", a.FileSize, size)
	}
	a.Name = last
	if string(name[:end]) != last {
		a.Name = string(name[:end])
	}
	return a, a.checkForm()
}

// checkForm checks the fields that the properties determine.
func (a *AreaRecord) checkForm() *flaw {
	if a.Properties != 0 && a.FileSize > 0 {
		// DMTCP's own reader would use this length for a run.
		return flawed(atFileSize, "%d bytes are stored of an area that is not stored whole", a.FileSize)
	}
	anonymous := a.Flags&mapAnonymous != 0
	switch a.Properties {
	case 0:
		switch {
		case anonymous:
			return flawed(atFlags, "an anonymous area is not cut into runs")
		case len(a.Name) == 0 || a.Name[0] != '/':
			return flawed(atName, "an area is stored as a file's and named %.40q", a.Name)
		case a.FileSize == -1 && strings.HasSuffix(a.Name, deletedMark):
			return flawed(atProperties, "an area of a removed file is not cut into runs")
		}
	case zeroPage:
		if !anonymous {
			return flawed(atProperties, "an area of zeros is not anonymous")
		}
	case parentHeader, childHeader, childHeader | zeroPage:
	default:
		return flawed(atProperties, "properties of %#x contradict one another", a.Properties)
	}
	return nil
}

// data returns the number of bytes that follow the header.
func (a *AreaRecord) data() int64 {
	switch {
	case a.Properties&(zeroPage|parentHeader) != 0:
		return 0
	case a.Properties == 0 && a.FileSize > 0:
		return a.FileSize
	}
	return int64(a.End - a.Start)
}

func checkRun(area, run *AreaRecord, next uint64) *flaw {
	switch {
	case run.Properties&childHeader == 0:
		return flawed(atProperties, "the runs of area %#x-%#x end at %#x", area.Start, area.End, next)
	case run.Start != next:
		return flawed(atStart, "a run of area %#x-%#x starts at %#x, not at %#x", area.Start, area.End, run.Start, next)
	case run.End > area.End:
		return flawed(atEnd, "a run of area %#x-%#x ends at %#x", area.Start, area.End, run.End)
	case run.Offset != area.Offset:
		return flawed(atOffset, "a run has the offset %#x, its area %#x", run.Offset, area.Offset)
	case run.Prot != area.Prot:
		return flawed(atProt, "a run has the protection %v, its area %v", run.Prot, area.Prot)
	case run.Flags != area.Flags:
		return flawed(atFlags, "a run has the flags %#x, its area %#x", run.Flags, area.Flags)
	case run.Device != area.Device:
		return flawed(atMajor, "a run is of device %#x, its area of %#x", run.Device, area.Device)
	case run.Inode != area.Inode:
		return flawed(atInode, "a run is of inode %d, its area of %d", run.Inode, area.Inode)
	case run.FileSize != area.FileSize:
		return flawed(atFileSize, "a run has %d bytes of a file, its area %d", run.FileSize, area.FileSize)
	case run.Name != area.Name:
		return flawed(atName, "a run is named %.40q, its area %.40q", run.Name, area.Name)
	}
	return nil
}

const headerSize = 4096 // of the file header, of an area header

// A UPID identifies a process of a cluster for all time, or a computation by its first
// process.
type UPID struct {
	Host       uint64 // gethostid(3)
	Time       uint64 // of its start, seconds since 1970
	PID        int32  // virtual
	Generation uint32 // of the computation; counts its checkpoints
}

// String formats it as in DMTCP's file names.
func (id UPID) String() string { return fmt.Sprintf("%x-%d-%x", id.Host, id.PID, id.Time) }

// A ImageHeader has the contents of the file header.
type ImageHeader struct {
	ID     UPID
	Parent UPID // zero for the root of the process tree
	Group  UPID // the computation that was checkpointed together
	Root   bool // is the root of the process tree
	Peers  int  // processes in the computation, launchers included
	Name   string
	Exe    string
}

// The offsets of the file header's fields, for decoding and for errors.
var headerFields = []struct {
	at   int
	name string
}{
	{0, "signature"}, {32, "process id"}, {56, "parent's id"}, {80, "computation"},
	{104, "pids"}, {124, "mark of the root"}, {128, "number of peers"}, {132, "ELF type"},
	{136, "vdso's functions"}, {168, "restart buffer"}, {184, "vdso"}, {200, "vvar"},
	{216, "vvar_vclock"}, {232, "brk"}, {240, "end of the stack"}, {248, "restart entry"},
	{256, "program name"}, {1280, "path of the executable"}, {2304, "padding"},
}

const (
	elf32 = 0
	elf64 = 1
)

func decodeHeader(b []byte) ImageHeader {
	return ImageHeader{
		ID:     decodeUPID(b[32:]),
		Parent: decodeUPID(b[56:]),
		Group:  decodeUPID(b[80:]),
		Root:   binary.LittleEndian.Uint32(b[124:]) != 0,
		Peers:  int(binary.LittleEndian.Uint32(b[128:])),
		Name:   cString(b[256:1280]),
		Exe:    cString(b[1280:2304]),
	}
}

func decodeUPID(b []byte) UPID {
	return UPID{
		Host:       binary.LittleEndian.Uint64(b),
		Time:       binary.LittleEndian.Uint64(b[8:]),
		PID:        int32(binary.LittleEndian.Uint32(b[16:])),
		Generation: binary.LittleEndian.Uint32(b[20:]),
	}
}

// cString returns the bytes before the first NUL, or all.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// A flaw is an error in a record, with its place.
type flaw struct {
	at          int
	reason      string
	unsupported bool
}

func flawed(at int, format string, args ...any) *flaw {
	return &flaw{at: at, reason: fmt.Sprintf(format, args...)}
}

// checkSignature checks the beginning of a file, which may be shorter than the
// signature.
func checkSignature(b []byte) *flaw {
	n := min(len(b), len(signature))
	if string(b[:n]) == signature[:n] {
		return nil
	}
	if bytes.HasPrefix(b, []byte(signaturePrefix)) {
		return &flaw{reason: fmt.Sprintf("format version %s of DMTCP is not supported, only 4.0 (DMTCP 4 and 5)", version(b)), unsupported: true}
	}
	for i := range n {
		if b[i] != signature[i] {
			return flawed(i, "the signature of a DMTCP image is missing")
		}
	}
	return nil
}

// checkHeader checks both copies of the file header.
func checkHeader(b []byte) *flaw {
	first, second := b[:headerSize], b[headerSize:]
	// An old image has data in place of the second signature.
	if f := checkSignature(first); f != nil && checkSignature(second) != nil {
		return f
	}
	for i := range first {
		if first[i] == second[i] {
			continue
		}
		field := headerFields[0].name
		for _, f := range headerFields {
			if f.at <= i {
				field = f.name
			}
		}
		return flawed(i, "the two copies of the file header differ in the %s: 0x%02x here, 0x%02x at offset %d",
			field, first[i], second[i], headerSize+i)
	}
	switch t := binary.LittleEndian.Uint32(first[132:]); t {
	case elf64:
		return nil
	case elf32:
		return &flaw{at: 132, reason: "images of 32-bit processes are not supported", unsupported: true}
	default:
		return flawed(132, "ELF type %d is neither 32 (0) nor 64 bit (1)", t)
	}
}
