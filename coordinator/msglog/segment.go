package msglog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

const (
	magic         = "CKPTLOG\n"
	formatVersion = 2
	headerSize    = 256
	maxJob        = 128
	digestSize    = 32
	digestAt      = 48 + maxJob
	headerCRCAt   = headerSize - 4
	maxNumber     = 1 << 62 // of segments and frames: they never get there

	suffix    = ".seg"
	tmpSuffix = ".tmp"
	lockName  = "lock"
	touchName = "touch" + suffix + tmpSuffix // swept with the others
)

type ID struct {
	Job  string
	Rank int
	// Digest is the digest of the job's description, in hex; empty in logs of earlier versions.
	Digest string
}

// is reports whether two may name one log.
func (id ID) is(other ID) bool {
	if id.Digest == "" {
		other.Digest = ""
	}
	if other.Digest == "" {
		id.Digest = ""
	}
	return id == other
}

// otherThan says whose log is there in place of another one.
func (id ID) otherThan(want ID) error {
	if id.Job == want.Job && id.Rank == want.Rank {
		return fmt.Errorf("%w, which had this name, too", durable.ErrOtherJob)
	}
	return fmt.Errorf("%w: it is of rank %d of job %s, not of rank %d of job %s", durable.ErrOtherJob, id.Rank, id.Job, want.Rank, want.Job)
}

func (id ID) check() error {
	switch {
	case id.Job == "" || len(id.Job) > maxJob || strings.ContainsRune(id.Job, 0):
		return fmt.Errorf("job name %q is not valid", id.Job)
	case id.Rank < 0 || id.Rank > math.MaxInt32:
		return fmt.Errorf("rank %d is out of range", id.Rank)
	case id.Digest != "" && (len(id.Digest) != 2*digestSize || strings.Trim(id.Digest, "0123456789abcdef") != ""):
		return fmt.Errorf("digest %.80q is none", id.Digest)
	}
	return nil
}

type header struct {
	id      ID
	number  uint64
	first   LSN
	prevEnd int64 // bytes of the previous segment that count
}

func (h *header) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, headerSize)
	copy(b, magic)
	le.PutUint32(b[8:], 1)
	if h.id.Digest != "" {
		le.PutUint32(b[8:], formatVersion)
		_, _ = hex.Decode(b[digestAt:], []byte(h.id.Digest)) // check has seen it
	}
	le.PutUint32(b[12:], headerSize)
	le.PutUint64(b[16:], h.number)
	le.PutUint64(b[24:], uint64(h.first))
	le.PutUint64(b[32:], uint64(h.prevEnd))
	le.PutUint32(b[40:], uint32(h.id.Rank))
	le.PutUint16(b[44:], uint16(len(h.id.Job)))
	copy(b[48:48+maxJob], h.id.Job)
	le.PutUint32(b[headerCRCAt:], durable.Sum(b[:headerCRCAt]))
	return b
}

func decodeHeader(path string, b []byte) (header, error) {
	le := binary.LittleEndian
	var h header
	if len(b) < headerSize || string(b[:8]) != magic {
		return h, durable.Damaged(path, 0, "no header of a message log")
	}
	if le.Uint32(b[headerCRCAt:]) != durable.Sum(b[:headerCRCAt]) {
		return h, durable.Damaged(path, 0, "checksum of the header does not match")
	}
	if v := le.Uint32(b[8:]); v > formatVersion {
		return h, durable.Op("read", path, 0, fmt.Errorf("message log format %d: %w", v, durable.ErrNewerVersion))
	}
	nameLen, prevEnd := int(le.Uint16(b[44:])), le.Uint64(b[32:])
	if nameLen > maxJob || prevEnd > math.MaxInt64 {
		return h, durable.Damaged(path, 0, "field of the header is out of range")
	}
	h = header{
		id:      ID{Job: string(b[48 : 48+nameLen]), Rank: int(int32(le.Uint32(b[40:])))},
		number:  le.Uint64(b[16:]),
		first:   LSN(le.Uint64(b[24:])),
		prevEnd: int64(prevEnd),
	}
	if le.Uint32(b[8:]) == formatVersion {
		h.id.Digest = hex.EncodeToString(b[digestAt : digestAt+digestSize])
	}
	// One header has one encoding: unused bytes are zero.
	follows := h.prevEnd >= headerSize
	if h.id.check() != nil || h.number-1 >= maxNumber || h.first-1 >= maxNumber || follows != (h.number > 1) || !follows && h.prevEnd != 0 || string(h.encode()) != string(b[:headerSize]) {
		return h, durable.Damaged(path, 0, "field of the header is out of range")
	}
	return h, nil
}

// A segment is one file of a log.
type segment struct {
	header
	salt uint32 // the checksum of the header, which the frames' checksums continue
	path string
	end  int64 // bytes that count; -1 as long as that is not known
}

func newSegment(dir string, h header, end int64) segment {
	return segment{header: h, salt: binary.LittleEndian.Uint32(h.encode()[headerCRCAt:]), path: segmentPath(dir, h.number), end: end}
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", number, suffix))
}

// list returns the segments of a log, oldest first, and the remains of a crash. The end of the
// last segment is not known yet.
func list(fsys vfs.FS, dir string, id ID) (segs []segment, debris []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, durable.Op("open", dir, -1, err)
	}
	var numbers []uint64
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix+tmpSuffix) {
			debris = append(debris, filepath.Join(dir, e.Name()))
			continue
		}
		base, ok := strings.CutSuffix(e.Name(), suffix)
		n, err := strconv.ParseUint(base, 10, 64)
		if ok && err == nil && filepath.Base(segmentPath(dir, n)) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		path := segmentPath(dir, n)
		if i > 0 && n != numbers[i-1]+1 {
			return nil, nil, durable.Damaged(segmentPath(dir, numbers[i-1]+1), 0, "the segment is missing, %d is there", n)
		}
		h, err := readHeader(fsys, path)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case !h.id.is(id):
			return nil, nil, durable.Op("open", path, -1, h.id.otherThan(id))
		case h.number != n:
			return nil, nil, durable.Damaged(path, 0, "it is segment %d", h.number)
		}
		if i > 0 {
			prev := &segs[i-1]
			if h.first < prev.first {
				return nil, nil, durable.Damaged(path, 0, "it begins with frame %d, the segment before with %d", h.first, prev.first)
			}
			prev.end = h.prevEnd
		}
		segs = append(segs, newSegment(dir, h, -1))
	}
	return segs, debris, nil
}

func readHeader(fsys vfs.FS, path string) (header, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return header{}, durable.Op("open", path, -1, err)
	}
	defer f.Close()
	var b [headerSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return header{}, durable.Op("read", path, 0, err)
	}
	return decodeHeader(path, b[:n])
}

// createSegment makes a segment durable, header, frames and name. It replaces one of the same
// number, which must not hold a frame that counts. fill, unless nil, writes the frames behind the
// header.
func (l *Log) createSegment(h header, fill func(f vfs.File, s *segment) error) (segment, vfs.File, error) {
	s := newSegment(l.dir, h, headerSize)
	tmp := s.path + tmpSuffix
	if err := l.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, nil, durable.Op("remove", tmp, -1, err)
	}
	f, err := l.fs.Create(tmp)
	if err != nil {
		return s, nil, durable.Op("create", tmp, -1, err)
	}
	err = durable.WriteAt(f, tmp, h.encode(), 0)
	if err == nil && fill != nil {
		err = fill(f, &s)
	}
	if err == nil {
		err = durable.Op("sync", tmp, -1, l.sync(f.Sync))
	}
	if err == nil {
		err = l.readBack(tmp, s, 0, s.first)
	}
	if err == nil {
		err = durable.Op("rename", s.path, -1, l.fs.Rename(tmp, s.path))
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		f.Close()
		// Best effort: it is swept when the log is opened.
		_ = l.fs.Remove(tmp)
		return s, nil, err
	}
	return s, f, nil
}
