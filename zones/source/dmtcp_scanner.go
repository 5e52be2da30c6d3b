package source

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"ckpt/zones"
)

// A RecordKind is the kind of a record.
type RecordKind uint8

// The records of an image: one FileHeader, an AreaHeader for each area, followed by
// RunHeaders if it is cut into runs, and one EndMarker.
const (
	FileHeader RecordKind = iota
	AreaHeader
	RunHeader
	EndMarker
)

// A ImageRecord is a header of an image. All records, each followed by its data, are the
// image.
type ImageRecord struct {
	Kind   RecordKind
	Raw    []byte     // the header, until the next call of Next; both copies of the file header
	Offset int64      // of Raw in the decompressed file
	Area   AreaRecord // of an AreaHeader or RunHeader
	Data   int64      // bytes that follow, for Scanner.Read
	Zero   bool       // zeros after a restart, without stored bytes
}

// A ImageScanner reads an image record by record. It allocates memory for names only.
type ImageScanner struct {
	in     *stream
	head   [2 * headerSize]byte
	header ImageHeader
	raw    [headerSize]byte

	begun  bool
	marked bool       // the end marker has been read
	err    error      // returned by every further call of Next
	left   int64      // unread data of the record
	of     AreaRecord // the record
	area   AreaRecord // the last area
	next   uint64     // start of its next run; its end behind the last
}

// NewImageScanner begins to read an image and checks its file header. The name is for
// errors. size is the length of the file, or -1 if unknown; it serves to refuse
// impossible lengths before their data is read. If r is an io.Seeker, the scanner
// finds the length itself and skips data by seeking. It decompresses gzip.
func NewImageScanner(name string, r io.Reader, size int64) (*ImageScanner, error) {
	in, err := openStream(name, r, size)
	if err != nil {
		return nil, err
	}
	s := &ImageScanner{in: in}
	n, err := in.fill(s.head[:])
	if err != nil && !cutOff(err) {
		return nil, err
	}
	if n < len(s.head) {
		if f := checkSignature(s.head[:n]); f != nil {
			return nil, s.bad(0, f)
		}
		return nil, in.endsEarly("in the file header", int64(len(s.head)-n))
	}
	if f := checkHeader(s.head[:]); f != nil {
		return nil, s.bad(0, f)
	}
	s.header = decodeHeader(s.head[:headerSize])
	return s, nil
}

// ImageHeader returns the file header.
func (s *ImageScanner) Header() ImageHeader { return s.header }

// Consumed returns how many bytes of the decompressed file were read or skipped.
func (s *ImageScanner) Consumed() int64 { return s.in.pos }

// Next skips the rest of a record's data and returns the next record. It returns
// io.EOF after it has checked that nothing follows the end marker.
func (s *ImageScanner) Next() (ImageRecord, error) {
	if s.err != nil {
		return ImageRecord{}, s.err
	}
	rec, err := s.advance()
	if err != nil {
		s.err, s.left = err, 0
		return ImageRecord{}, err
	}
	return rec, nil
}

func (s *ImageScanner) advance() (ImageRecord, error) {
	if !s.begun {
		s.begun = true
		return ImageRecord{Kind: FileHeader, Raw: s.head[:]}, nil
	}
	if err := s.discard(s.left); err != nil {
		return ImageRecord{}, err
	}
	if s.marked {
		return ImageRecord{}, s.end()
	}
	rec := ImageRecord{Offset: s.in.pos, Raw: s.raw[:]}
	n, err := s.in.fill(s.raw[:])
	switch {
	case err == nil:
	case !cutOff(err):
		return ImageRecord{}, err
	case n == 0:
		return ImageRecord{}, s.in.endsEarly("without its end marker", 0)
	default:
		return ImageRecord{}, s.in.endsEarly("in an area header", int64(headerSize-n))
	}
	if isMarker(s.raw[:]) {
		if s.next != s.area.End {
			return ImageRecord{}, s.bad(rec.Offset, flawed(0, "the end marker comes before the runs of area %#x-%#x from %#x on", s.area.Start, s.area.End, s.next))
		}
		s.marked = true
		rec.Kind = EndMarker
		return rec, nil
	}
	var f *flaw
	if rec.Area, f = decodeArea(s.raw[:], s.area.Name); f == nil {
		rec.Kind, f = s.place(&rec.Area)
	}
	if f != nil {
		return ImageRecord{}, s.bad(rec.Offset, f)
	}
	rec.Zero = rec.Area.Properties&zeroPage != 0
	rec.Data = rec.Area.data()
	s.of, s.left = rec.Area, rec.Data
	if s.in.size >= 0 && s.left > s.in.size-s.in.pos {
		missing := s.left - (s.in.size - s.in.pos)
		s.in.pos = s.in.size
		return ImageRecord{}, s.cut(missing)
	}
	return rec, nil
}

// place checks that an area or run may come here, and sets what may follow.
func (s *ImageScanner) place(a *AreaRecord) (RecordKind, *flaw) {
	if s.next != s.area.End {
		if f := checkRun(&s.area, a, s.next); f != nil {
			return 0, f
		}
		s.next = a.End
		return RunHeader, nil
	}
	switch {
	case a.Properties&childHeader != 0:
		return 0, flawed(atProperties, "a run %#x-%#x is part of no area", a.Start, a.End)
	case a.Start < s.area.End:
		return 0, flawed(atStart, "area %#x-%#x is not above the one before it, which ends at %#x", a.Start, a.End, s.area.End)
	}
	s.area, s.next = *a, a.End
	if a.Properties == parentHeader {
		s.next = a.Start
	}
	return AreaHeader, nil
}

// end checks that nothing follows the end marker. It also verifies the checksum of
// gzip.
func (s *ImageScanner) end() error {
	at := s.in.pos
	n, err := s.in.fill(make([]byte, 1))
	switch {
	case n > 0:
		return &zones.FormatError{File: s.in.name, Offset: at, Reason: "bytes follow the end marker"}
	case err == io.EOF:
		return io.EOF
	case cutOff(err):
		return s.in.endsEarly("before the checksum of gzip", 0)
	}
	return err
}

// ReadImage reads data of the current record, and returns io.EOF at its end. Without gzip
// it reads directly into p.
func (s *ImageScanner) Read(p []byte) (int, error) {
	switch {
	case s.err != nil && s.err != io.EOF:
		return 0, s.err
	case s.left == 0:
		return 0, io.EOF
	}
	n, err := s.in.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err != nil && s.left > 0 {
		if cutOff(err) {
			err = s.cut(s.left)
		}
		s.err, s.left = err, 0
		return n, err
	}
	return n, nil
}

// discard skips n bytes of the current record's data.
func (s *ImageScanner) discard(n int64) error {
	missing, err := s.in.skip(n)
	s.left -= n - missing
	if err != nil && cutOff(err) {
		return s.cut(missing)
	}
	return err
}

// cut returns the error of an image that ends in the data of the current record.
func (s *ImageScanner) cut(missing int64) error {
	return s.in.endsEarly(fmt.Sprintf("in the data of %#x-%#x", s.of.Start, s.of.End), missing)
}

func (s *ImageScanner) bad(record int64, f *flaw) error {
	return &zones.FormatError{File: s.in.name, Offset: record + int64(f.at), Reason: f.reason, Unsupported: f.unsupported}
}

// maxNames bounds the names of an image, in bytes; repeating the last name is free.
const maxNames = 64 << 20

// ReadImage reads an image and returns its process. name, r and size are as for NewScanner.
// Stored of an area counts its header, the headers of its runs, and data; with
// Overhead they add up to Unpacked.
//
// Rank comes from the environment on the stack, or is -1. Occupied is known for areas
// that are cut into runs; Resident and Dirty are unknown.
func ReadImage(ctx context.Context, name string, r io.Reader, size int64) (*zones.Process, error) {
	s, err := NewImageScanner(name, r, size)
	if err != nil {
		return nil, err
	}
	s.in.stop = ctx.Err
	h := s.Header()
	b := builder{p: &zones.Process{
		Source: name,
		Format: zones.FormatDMTCP,
		Name:   h.Name,
		Exe:    h.Exe,
		PID:    int(h.ID.PID),
		Host:   strconv.FormatUint(h.ID.Host, 16),
		Group:  fmt.Sprintf("%v#%d", h.Group, h.Group.Generation),
		Peers:  h.Peers,
		Rank:   -1,
	}}
	for {
		rec, err := s.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = b.add(s, rec)
		}
		if err != nil {
			return nil, err
		}
	}
	if b.stack != nil {
		b.p.Rank = zones.RankOnStack(b.stack.mem)
		b.p.JobRanks, b.p.NodeRanks = zones.JobOnStack(b.stack.mem)
	}
	b.p.Unpacked, b.p.FileBytes = s.in.pos, s.in.file.n
	return b.p, nil
}

// A builder turns records into a process.
type builder struct {
	p     *zones.Process
	last  AreaRecord
	names int    // bytes
	run   uint64 // end of the last occupied run
	stack *stackTop
}

func (b *builder) add(s *ImageScanner, rec ImageRecord) error {
	switch rec.Kind {
	case FileHeader, EndMarker:
		b.p.Overhead += int64(len(rec.Raw))
		return nil
	case AreaHeader:
		if f := b.area(&rec.Area); f != nil {
			return s.bad(rec.Offset, f)
		}
	}
	a := &b.p.Areas[len(b.p.Areas)-1]
	a.Stored += int64(len(rec.Raw)) + rec.Data
	if rec.Kind == AreaHeader || rec.Zero {
		return nil
	}
	a.Occupied += rec.Data
	if rec.Area.Start != b.run || a.Runs == 0 {
		a.Runs++ // two adjacent runs are one range
	}
	b.run = rec.Area.End
	if a.Name == "[stack]" {
		if b.stack == nil {
			b.stack = newStackTop(&b.last)
		}
		return b.stack.read(s, &rec.Area)
	}
	return nil
}

func (b *builder) area(r *AreaRecord) *flaw {
	if r.Name != b.last.Name {
		b.names += len(r.Name)
	}
	if len(b.p.Areas) == maxAreas || b.names > maxNames {
		return flawed(0, "there are more areas, or longer names, than a process can have")
	}
	b.last = *r
	occupied := int64(0)
	if r.Properties == 0 {
		occupied = -1
	}
	b.p.Areas = append(b.p.Areas, zones.Area{
		Start:    r.Start,
		End:      r.End,
		Prot:     r.Prot,
		Shared:   r.Flags&mapShared != 0,
		Name:     r.Name,
		Offset:   r.Offset,
		Device:   r.Device,
		Inode:    r.Inode,
		Resident: -1,
		Dirty:    -1,
		Occupied: occupied,
	})
	return nil
}

// A stackTop is the end of a stack's memory, with zeros where nothing is stored.
type stackTop struct {
	area AreaRecord
	base uint64 // address of mem[0]
	mem  []byte
}

func newStackTop(area *AreaRecord) *stackTop {
	n := min(area.End-area.Start, zones.StackTop)
	return &stackTop{area: *area, base: area.End - n, mem: make([]byte, n)}
}

// read reads the data of a run that lies in the window. It ignores runs of other areas
// with the name of a stack.
func (t *stackTop) read(s *ImageScanner, run *AreaRecord) error {
	if run.Start < t.area.Start || run.End > t.area.End || run.End <= t.base {
		return nil
	}
	from := max(run.Start, t.base)
	if err := s.discard(int64(from - run.Start)); err != nil {
		return err
	}
	_, err := io.ReadFull(s, t.mem[from-t.base:run.End-t.base])
	return err
}
