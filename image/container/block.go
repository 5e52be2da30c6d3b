package container

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/blake3"

	"ckpt/internal/durable"
	"ckpt/zones"
)

// The fixed places of a container file; doc.go draws them.
const (
	// BlockSize is the length of the header, and of the trailer.
	BlockSize     = zones.PageSize
	formatVersion = 1
	// A trailer with a copy of the index has a version of its own: earlier readers know none.
	copiedVersion = 2
	copyAt        = 96
	copyRoom      = crcAt - copyAt

	headerMagic  = "ckptimg\n"
	trailerMagic = "ckptend\n"

	maxJob  = 128 // bytes of a job name in the header
	maxKind = 32
	crcAt   = BlockSize - 4

	maxExtent  = 64 << 20  // bytes of one extent, raw or stored
	maxIndex   = 256 << 20 // bytes of one index
	maxName    = 1024      // bytes of a region name
	maxPath    = 1024      // bytes of the path of another file
	extentSize = 64        // bytes of one extent record
)

// The lengths of a region record without its name, and of an external file's record without its
// path.
const (
	regionFixed = 24
	fileFixed   = 40
)

// Header says what a container file is part of.
type Header struct {
	Job    string
	Number int    // of the checkpoint; 0 for a file of the job
	Rank   int    // -1 if the file belongs to no single rank
	Node   int    // -1 if the file belongs to no single node
	Kind   string // one of the kinds below
}

// The kinds of container files.
const (
	KindRank       = "rank"
	KindLibrary    = "library"
	KindShared     = "shared"     // the segment of a node
	KindAggregated = "aggregated" // the ranks of an aggregator
	KindJob        = "job"        // all ranks, in one file with holes
	KindProcess    = "process"    // one that is no rank, like mpiexec
	KindFiles      = "files"      // what lies beside the images of another checkpointer
)

// ValidKind reports whether kind is one of them.
func ValidKind(kind string) bool {
	switch kind {
	case KindRank, KindLibrary, KindShared, KindAggregated, KindJob, KindProcess, KindFiles:
		return true
	}
	return false
}

func (h Header) check() error {
	switch {
	case !ValidJobName(h.Job):
		return fmt.Errorf("job name %q is not valid", h.Job)
	case h.Number < 0 || h.Number == JobNumber && h.Kind != KindLibrary || int64(h.Number) > math.MaxUint32:
		return fmt.Errorf("checkpoint number %d is out of range", h.Number)
	case h.Rank < -1 || h.Rank > math.MaxInt32:
		return fmt.Errorf("rank %d is out of range", h.Rank)
	case h.Node < -1 || h.Node > math.MaxInt32:
		return fmt.Errorf("node %d is out of range", h.Node)
	case !ValidKind(h.Kind):
		return fmt.Errorf("kind %q is unknown", h.Kind)
	}
	return nil
}

// encode writes the header block.
func (h Header) encode(b []byte) {
	le := binary.LittleEndian
	clear(b[:BlockSize])
	copy(b, headerMagic)
	le.PutUint32(b[8:], formatVersion)
	le.PutUint32(b[12:], BlockSize)
	le.PutUint64(b[16:], uint64(h.Number))
	le.PutUint32(b[24:], uint32(int32(h.Rank)))
	le.PutUint32(b[28:], uint32(int32(h.Node)))
	le.PutUint16(b[32:], uint16(len(h.Job)))
	le.PutUint16(b[34:], uint16(len(h.Kind)))
	copy(b[64:64+maxJob], h.Job)
	copy(b[192:192+maxKind], h.Kind)
	le.PutUint32(b[crcAt:], durable.Sum(b[:crcAt]))
}

// errBlock is the reason why a block is not accepted.
type errBlock string

func (e errBlock) Error() string { return string(e) }

// checkBlock checks what header and trailer have in common.
func checkBlock(b []byte, magic, what string, newest uint32) error {
	le := binary.LittleEndian
	if string(b[:8]) != magic {
		return errBlock("no " + what + " of a ckpt image (wrong magic)")
	}
	if le.Uint32(b[crcAt:]) != durable.Sum(b[:crcAt]) {
		return errBlock(what + " checksum does not match")
	}
	if v := le.Uint32(b[8:]); v > newest {
		return fmt.Errorf("image format %d: %w", v, durable.ErrNewerVersion)
	} else if v == 0 {
		return errBlock(fmt.Sprintf("image format %d is unknown", v))
	}
	return nil
}

// checkUnused checks that a block has its one encoding.
func checkUnused(b []byte, encode func([]byte), what string) error {
	var again [BlockSize]byte
	if encode(again[:]); string(again[:]) != string(b[:BlockSize]) {
		return errBlock(what + " has unused bytes that are not zero")
	}
	return nil
}

func decodeHeader(b []byte) (Header, error) {
	var h Header
	if err := checkBlock(b, headerMagic, "header", formatVersion); err != nil {
		return h, err
	}
	le := binary.LittleEndian
	nj, nk := int(le.Uint16(b[32:])), int(le.Uint16(b[34:]))
	number := le.Uint64(b[16:])
	if le.Uint32(b[12:]) != BlockSize || nj > maxJob || nk > maxKind || number > math.MaxUint32 {
		return h, errBlock("header field is out of range")
	}
	h = Header{
		Job:    string(b[64 : 64+nj]),
		Number: int(number),
		Rank:   int(int32(le.Uint32(b[24:]))),
		Node:   int(int32(le.Uint32(b[28:]))),
		Kind:   string(b[192 : 192+nk]),
	}
	if err := h.check(); err != nil {
		return h, errBlock("header: " + err.Error())
	}
	return h, checkUnused(b, h.encode, "header")
}

// trailer finds and checks the index.
type trailer struct {
	indexCRC    uint32
	indexOffset int64
	indexLen    int64
	fileLen     int64
	regions     int64
	files       int64
	extents     int64
	digest      [32]byte // blake3-256 of the index
	copies      copies
	copied      string // the index, with inTrailer
}

// copies says where a second index is, for the case that the first one is damaged.
type copies uint8

const (
	noCopy    copies = iota // as earlier versions wrote
	inTrailer               // one that fits there
	inPages                 // between the first one and the trailer
)

// pages is how many bytes all copies of an index take beside the trailer.
func (c copies) pages(indexLen int64) int64 {
	n := zones.PageRound(indexLen)
	if c == inPages {
		n *= 2
	}
	return n
}

func (t trailer) encode(b []byte) {
	le := binary.LittleEndian
	clear(b[:BlockSize])
	copy(b, trailerMagic)
	le.PutUint32(b[8:], formatVersion)
	if t.copies != noCopy {
		le.PutUint32(b[8:], copiedVersion)
		b[56] = byte(t.copies)
		copy(b[copyAt:crcAt], t.copied)
	}
	le.PutUint32(b[12:], t.indexCRC)
	le.PutUint64(b[16:], uint64(t.indexOffset))
	le.PutUint64(b[24:], uint64(t.indexLen))
	le.PutUint64(b[32:], uint64(t.fileLen))
	le.PutUint32(b[40:], uint32(t.regions))
	le.PutUint32(b[44:], uint32(t.files))
	le.PutUint64(b[48:], uint64(t.extents))
	copy(b[64:], t.digest[:])
	le.PutUint32(b[crcAt:], durable.Sum(b[:crcAt]))
}

// decodeTrailer checks every length against the length of the file.
func decodeTrailer(b []byte, fileLen int64) (trailer, error) {
	var t trailer
	if err := checkBlock(b, trailerMagic, "trailer", copiedVersion); err != nil {
		return t, err
	}
	le := binary.LittleEndian
	where := copies(b[56])
	if where > inPages || (where != noCopy) != (le.Uint32(b[8:]) == copiedVersion) {
		return t, errBlock("trailer: the copy of the index is nowhere")
	}
	indexOffset, indexLen, total := le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])
	extents := le.Uint64(b[48:])
	if total != uint64(fileLen) {
		return t, errBlock(fmt.Sprintf("file is %d bytes long, trailer says %d", fileLen, total))
	}
	if indexLen < 32 || indexLen > maxIndex || indexLen > total || indexOffset > total ||
		indexOffset < BlockSize || indexOffset%BlockSize != 0 ||
		int64(indexOffset)+where.pages(int64(indexLen))+BlockSize != fileLen || where == inTrailer && indexLen > copyRoom {
		return t, errBlock("trailer: place of the index is not in the file")
	}
	if extents > indexLen/extentSize {
		return t, errBlock("trailer: more extents than the index can hold")
	}
	t = trailer{
		indexCRC:    le.Uint32(b[12:]),
		indexOffset: int64(indexOffset),
		indexLen:    int64(indexLen),
		fileLen:     fileLen,
		regions:     int64(le.Uint32(b[40:])),
		files:       int64(le.Uint32(b[44:])),
		extents:     int64(extents),
		digest:      [32]byte(b[64:copyAt]),
		copies:      where,
	}
	if where == inTrailer {
		t.copied = string(b[copyAt : copyAt+t.indexLen])
	}
	if (t.regions+t.files)*regionFixed > t.indexLen {
		return t, errBlock("trailer: more records than the index can hold")
	}
	return t, checkUnused(b, t.encode, "trailer")
}

// inBlock words a decoding error of the block at off: as damage, unless the block is sound and
// we are too old.
func inBlock(path string, off int64, err error) error {
	if errors.Is(err, durable.ErrNewerVersion) || errors.Is(err, ErrUnsupported) {
		return &durable.OpError{Op: "read", Path: path, Offset: off, Err: err}
	}
	return durable.Damaged(path, off, "%s", err.Error())
}

func digestOf(b []byte) [32]byte { return blake3.Sum256(b) }

// hexDigest words a digest as manifests do.
func hexDigest(d [32]byte) string { return hex.EncodeToString(d[:]) }
