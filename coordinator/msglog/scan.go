package msglog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// readAhead is the length of a read, and of a step in the search for frames behind a bad one.
const readAhead = 64 << 10

// A scanner reads the frames of one segment.
type scanner struct {
	seg     *segment
	f       vfs.File
	in      *bufio.Reader
	off     int64           // of the next frame
	end     int64           // of what there is to read
	next    LSN             // of the next frame
	group   int64           // where the group of the last frame began
	head    [frameHead]byte // of the last frame
	payload []byte          // of the last frame, with its padding
	cut     error           // why the tail was cut, once it was
}

// newScanner opens a segment. If its end is known, everything up to there must be in order; else
// it ends where the file does or where a torn tail begins.
func newScanner(fsys vfs.FS, seg *segment) (*scanner, error) {
	f, err := fsys.Open(seg.path)
	if err != nil {
		return nil, durable.Op("open", seg.path, -1, err)
	}
	size, err := f.Size()
	switch {
	case err != nil:
		err = durable.Op("read", seg.path, -1, err)
	case size < seg.end:
		err = durable.Damaged(seg.path, size, "file is %d bytes long and should be %d", size, seg.end)
	case size < headerSize: // it has been cut since its header was read
		err = durable.Damaged(seg.path, size, "file is %d bytes long", size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if seg.end >= 0 {
		size = seg.end
	}
	return scanPart(f, seg, headerSize, size, seg.first), nil
}

// scanPart returns the scanner of a part of a segment, which begins with a group.
func scanPart(f vfs.File, seg *segment, from, to int64, first LSN) *scanner {
	in := bufio.NewReaderSize(io.NewSectionReader(f, from, to-from), int(min(to-from, readAhead)))
	return &scanner{seg: seg, f: f, in: in, off: from, end: to, next: first, group: -1}
}

func (s *scanner) close() error { return s.f.Close() }

// A badFrame is the reason why a frame is not accepted.
type badFrame string

func (e badFrame) Error() string { return string(e) }

// A wrongFrame is a head whose checksum is right and whose fields are not, or not of this place
// in the segment: no write that was cut short leaves one there.
type wrongFrame string

func (e wrongFrame) Error() string { return string(e) }

// read returns the next frame, io.EOF at the end. Its payload is valid until the next call.
func (s *scanner) read() (head, error) {
	if s.off == s.end || s.cut != nil {
		return head{}, io.EOF
	}
	h, err := s.frame()
	if err == nil {
		s.off += h.size()
		s.next++
		s.group = h.durableUpTo
		return h, nil
	}
	if wrong, ok := err.(wrongFrame); ok {
		return head{}, durable.Damaged(s.seg.path, s.off, "%s", wrong)
	}
	bad, ok := err.(badFrame)
	if !ok {
		return head{}, durable.Op("read", s.seg.path, s.off, err)
	}
	if s.seg.end >= 0 {
		return head{}, durable.Damaged(s.seg.path, s.off, "%s", bad)
	}
	if err := s.proof(bad); err != nil {
		return head{}, err
	}
	s.cut = bad
	return head{}, io.EOF
}

func (s *scanner) frame() (head, error) {
	b := s.head[:]
	if s.end-s.off < frameHead {
		return head{}, badFrame("head of the frame is cut short")
	}
	if _, err := io.ReadFull(s.in, b); err != nil {
		return head{}, s.short(err)
	}
	h, reason := decodeHead(b, s.seg.salt)
	switch {
	case reason == badChecksum:
		return h, badFrame(reason)
	case reason != "":
		return h, wrongFrame(reason)
	case h.lsn != s.next:
		return h, wrongFrame(fmt.Sprintf("it is frame %d, not %d", h.lsn, s.next))
	case h.durableUpTo != s.off && h.durableUpTo != s.group:
		return h, wrongFrame(fmt.Sprintf("its group begins at %d, not here and not where the last one did", h.durableUpTo))
	case h.size() > s.end-s.off:
		return h, badFrame(fmt.Sprintf("its payload of %d bytes is cut short", h.payload))
	}
	room := int(padded(h.payload))
	if cap(s.payload) < room {
		s.payload = make([]byte, room)
	}
	s.payload = s.payload[:room]
	if _, err := io.ReadFull(s.in, s.payload); err != nil {
		return h, s.short(err)
	}
	if durable.Sum(s.payload[:h.payload]) != h.payloadCRC {
		return h, badFrame("checksum of the payload does not match")
	}
	for _, z := range s.payload[h.payload:] {
		if z != 0 {
			return h, badFrame("bytes behind the payload are not zero")
		}
	}
	h.fill(s.payload[:h.payload:h.payload])
	return h, nil
}

// short turns the end of a file in the middle of a frame into a bad frame.
func (s *scanner) short(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return badFrame("the file has become shorter")
	}
	return err
}

// proof looks behind a bad frame for one that says that the bad one was durable, which makes it
// damage. It looks at heads only, so that no length has to be trusted.
func (s *scanner) proof(bad badFrame) error {
	buf := make([]byte, min(readAhead+frameHead, s.end-s.off))
	for at := s.off + 8; at+frameHead <= s.end; at += readAhead {
		b := buf[:min(int64(len(buf)), s.end-at)]
		if n, err := s.f.ReadAt(b, at); n < len(b) {
			if err == io.EOF {
				return nil
			}
			return durable.Op("read", s.seg.path, at, err)
		}
		for i := 0; i+frameHead <= len(b) && i < readAhead; i += 8 {
			h, reason := decodeHead(b[i:i+frameHead], s.seg.salt)
			if reason == "" && h.lsn >= s.next && h.durableUpTo > s.off && h.durableUpTo <= at+int64(i) {
				return durable.Damaged(s.seg.path, s.off, "%s; frame %d at offset %d shows that it was durable", bad, h.lsn, at+int64(i))
			}
		}
	}
	return nil
}

// A Reader returns the frames of a log in order. It is for one goroutine.
type Reader struct {
	fs   vfs.FS
	segs []segment // still to be read
	scan *scanner  // nil before the first segment and after the last
	from LSN
	err  error
}

// OpenReader reads the log in dir from a frame on, 0 for the oldest that is there, up to the end
// that Open would find; it changes nothing. If the log is being written to, NewReader of its Log
// is the one to use.
func OpenReader(fsys vfs.FS, dir string, id ID, from LSN) (*Reader, Recovery, error) {
	segs, _, err := list(fsys, dir, id)
	if err != nil {
		return nil, Recovery{}, err
	}
	if len(segs) == 0 {
		return nil, Recovery{}, durable.Op("read", dir, -1, fmt.Errorf("no message log: %w", fs.ErrNotExist))
	}
	rec, err := settle(fsys, segs, nil)
	if err != nil {
		return nil, Recovery{}, err
	}
	r, err := newReader(fsys, dir, segs, from)
	return r, rec, err
}

// NewReader reads the log from a frame on, 0 for the oldest that is there, up to what is durable
// now. Frames that are lost are left out.
func (l *Log) NewReader(from LSN) (*Reader, error) {
	l.mu.Lock()
	closed, segs := l.closed, slices.Clone(l.segs)
	l.mu.Unlock()
	if closed {
		return nil, durable.Op("read", l.dir, -1, ErrClosed)
	}
	return newReader(l.fs, l.dir, segs, from)
}

func newReader(fsys vfs.FS, dir string, segs []segment, from LSN) (*Reader, error) {
	if from != 0 && from < segs[0].first {
		return nil, durable.Op("read", dir, -1, fmt.Errorf("frame %d is %w, which begins with frame %d", from, ErrTruncated, segs[0].first))
	}
	for len(segs) > 1 && segs[1].first <= from {
		segs = segs[1:]
	}
	return &Reader{fs: fsys, segs: segs, from: from}, nil
}

// Next returns the next frame; io.EOF at the end. Its data is the caller's. Marks and outputs,
// which this version does not write, are passed over. Errors stay.
func (r *Reader) Next() (channel.Frame, error) {
	for {
		h, err := r.next()
		if err != nil || h.Kind != 0 {
			return h.Frame, err
		}
	}
}

func (r *Reader) next() (head, error) {
	for r.err == nil {
		h, err := r.read()
		switch {
		case err != nil:
			r.err = err
			// The caller wants to know why reading failed, not closing.
			_ = r.Close()
		case h.lsn >= r.from:
			r.scan.payload = nil // it is the caller's now
			return h, nil
		}
	}
	return head{}, r.err
}

func (r *Reader) read() (head, error) {
	for {
		if r.scan == nil {
			if len(r.segs) == 0 {
				return head{}, io.EOF
			}
			s, err := newScanner(r.fs, &r.segs[0])
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("segment is %w: %w", ErrTruncated, err)
			}
			if err != nil {
				return head{}, err
			}
			r.scan = s
		}
		h, err := r.scan.read()
		if err != io.EOF {
			return h, err
		}
		if err := r.Close(); err != nil {
			return head{}, err
		}
		r.segs = r.segs[1:]
	}
}

// Close closes the file that is being read. After an error or the end it is closed.
func (r *Reader) Close() error {
	s := r.scan
	if s == nil {
		return nil
	}
	r.scan = nil
	return durable.Op("close", s.seg.path, -1, s.close())
}

// Callers tell these errors apart with errors.Is. Package durable has two more: a
// *DamageError, and ErrStorageFull of a full disk.
var (
	// ErrInUse says that another process has the log open for writing.
	ErrInUse = errors.New("message log is in use")
	// ErrTruncated says that frames that were asked for have been removed by Truncate.
	ErrTruncated = errors.New("removed from the message log")
	// ErrLost says that the commit of a frame has failed. The cause is in the error as well.
	ErrLost = errors.New("lost from the message log")
	// ErrClosed says that the log has been closed.
	ErrClosed = errors.New("message log is closed")
)
