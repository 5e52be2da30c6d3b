package msglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

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

// The errors that callers tell apart with errors.Is, besides those of package durable: a
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
