package msglog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// renew makes the segment in which the log goes on. If a sync has failed, what counts of the last
// one is written elsewhere first: groups that were reported durable may be lost with the one that
// failed, since a device may notice late what it did not write. The caller owns the file.
func (l *Log) renew() error {
	l.mu.Lock()
	doubted := l.doubted
	l.mu.Unlock()
	if doubted {
		l.wary = true
		if err := l.rewriteLast(); err != nil {
			return err
		}
	}
	return l.extend()
}

// rewriteLast copies the last segment into a new one, whose header says that nothing of the old
// one counts. The frames keep their places and numbers. An old one that cannot be read stays what
// it is.
func (l *Log) rewriteLast() error {
	l.mu.Lock()
	l.doubted = false // unless a sync fails again
	old := l.segs[len(l.segs)-1]
	l.mu.Unlock()
	if old.end == headerSize {
		return nil // the next one takes its place
	}
	h := header{id: l.id, number: old.number + 1, first: old.first, prevEnd: headerSize}
	seg, f, err := l.createSegment(h, func(f vfs.File, s *segment) error { return copyFrames(l.fs, &old, f, s) })
	var damage *durable.DamageError
	if errors.As(err, &damage) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.doubted = true
		return err
	}
	l.segs[len(l.segs)-1].end = headerSize
	l.goOnIn(seg, f)
	return nil
}

// copyFrames writes the frames of a segment to the file of another.
func copyFrames(fsys vfs.FS, from *segment, f vfs.File, to *segment) (err error) {
	s, err := newScanner(fsys, from)
	if err != nil {
		return err
	}
	defer s.close()
	var b []byte
	for err == nil {
		var h head
		if h, err = s.read(); err == nil {
			at := len(b)
			b = append(append(b, s.head[:]...), s.payload...)
			seal(b[at:], h.durableUpTo, to.salt)
		}
		if err == nil && len(b) < readAhead {
			continue
		}
		if werr := durable.WriteAt(f, to.path, b, to.end); werr != nil {
			return werr
		}
		to.end += int64(len(b))
		b = b[:0]
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// readBack reads what was synced to the file of a segment, from an offset and a frame on, around
// the page cache, which holds it in any case. It does so only after a sync has failed. A file
// system that cannot be read in this way is believed.
func (l *Log) readBack(path string, seg segment, from int64, first LSN) error {
	if !l.wary {
		return nil
	}
	f, err := l.fs.OpenDirect(path)
	if err == nil {
		err = compareOnDisk(directFile{f, vfs.Aligned(readAhead)}, seg, from, first)
		f.Close()
	}
	if err == nil || vfs.NotDirect(err) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted = true
	var damage *durable.DamageError
	if errors.As(err, &damage) {
		// Not the log's damage: these frames were not reported durable yet.
		err = fmt.Errorf("the disk does not hold what was synced: %v", damage)
	}
	return durable.Op("read back", path, -1, err)
}

// compareOnDisk reads a part of a segment.
func compareOnDisk(f vfs.File, seg segment, from int64, first LSN) error {
	if from == 0 {
		b := make([]byte, headerSize)
		if _, err := f.ReadAt(b, 0); err != nil {
			return err
		}
		if !bytes.Equal(b, seg.encode()) {
			return errors.New("the header is another one")
		}
		from = headerSize
	}
	s := scanPart(f, &seg, from, seg.end, first)
	for {
		if _, err := s.read(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func firstOf(group []byte) LSN { return binary.LittleEndian.Uint64(group[8:]) }

// A directFile reads anything by direct I/O.
type directFile struct {
	vfs.File
	buf []byte // aligned, a multiple of vfs.DirectUnit long
}

func (d directFile) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		skip := int((off + int64(done)) % vfs.DirectUnit)
		want := min(len(d.buf), (skip+len(b)-done+vfs.DirectUnit-1)&^(vfs.DirectUnit-1))
		n, err := d.File.ReadAt(d.buf[:want], off+int64(done)-int64(skip))
		if n > skip {
			done += copy(b[done:], d.buf[skip:n])
		}
		if done < len(b) && (err != nil || n < want) {
			return done, errors.Join(err, io.EOF)
		}
	}
	return done, nil
}
