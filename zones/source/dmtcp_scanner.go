package source

import (
	"fmt"
	"io"

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
