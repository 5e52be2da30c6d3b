package msglog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// DefaultSegment is the size from which a segment takes no more groups.
const DefaultSegment = 8 << 20

// Options are the settings of a log.
type Options struct {
	// SegmentBytes is the size from which a segment takes no more groups; 0 means DefaultSegment.
	// A group is never divided, so that segments get longer by up to one group.
	SegmentBytes int64
}

// Recovery is what opening a log has found.
type Recovery struct {
	// The log holds frames from First up to but not including Next; with First equal to Next it
	// is empty. Numbers of frames whose commit had failed may be missing in between.
	First, Next LSN
	Segments    int
	// CutBytes is the length of the torn tail that was cut from CutFile at CutOffset; 0 if there
	// was none. CutReason says what was wrong there.
	CutBytes, CutOffset int64
	CutFile, CutReason  string
}

type Stats struct {
	Frames   int64         // made durable
	Bytes    int64         // of these frames, heads and padding included
	Commits  int64         // groups made durable
	Fsyncs   int64         // of files and directories
	SyncTime time.Duration // spent in them
	Segments int64         // made
	Lost     int64         // frames whose commit has failed
}

// A Log is a log that is open for writing.
type Log struct {
	fs   vfs.FS
	dir  string
	id   ID
	opt  Options
	lock io.Closer

	mu      sync.Mutex
	queue   []byte // frames appended since the last commit began
	spare   []byte // the other buffer
	next    LSN    // of the next frame
	settled LSN    // all before are durable or lost
	lost    []lostFrames
	done    chan struct{} // closed when the commit under way ends; may be nil
	err     error         // why the log has failed; nil after Reopen
	closed  bool
	segs    []segment // the last one is being written to
	stats   Stats

	// A sync has failed since the last segment began: what the disk has of it is unknown.
	doubted bool

	// The file of the last segment belongs to whoever has set done. After a sync that failed,
	// what is written to it is read back.
	file vfs.File
	wary bool

	truncating sync.Mutex
	removed    bool // a segment, and not durably; for who is truncating
	unsynced   bool // the sync that should have made it durable has failed
}

type lostFrames struct {
	from, to LSN
	err      error
}

// Open opens the log in dir for writing, and makes it if it is not there; the parent of dir must
// be. It cuts a torn tail and begins a new segment. Damage to the last segment is found here, to
// earlier ones when they are read. If Open fails it has changed nothing that counts. If only the
// room for the new segment is missing, the log is there to be read and has failed, as if a commit
// had: Truncate and Reopen are the way on.
func Open(fsys vfs.FS, dir string, id ID, opt Options) (*Log, Recovery, error) {
	l, err := lockLog(fsys, dir, id, opt)
	if err != nil {
		return nil, Recovery{}, err
	}
	rec, err := l.recover()
	if err != nil {
		l.lock.Close()
		return nil, Recovery{}, err
	}
	return l, rec, nil
}

// Reset makes the log in dir an empty one whose first frame will have the number given, whatever
// is there: it may be damaged. After a crash the old log may be there in part.
func Reset(fsys vfs.FS, dir string, id ID, first LSN) error {
	l, err := lockLog(fsys, dir, id, Options{})
	if err != nil {
		return err
	}
	err = l.reset(first)
	if cerr := l.lock.Close(); err == nil {
		err = durable.Op("unlock", dir, -1, cerr)
	}
	return err
}

func (l *Log) reset(first LSN) error {
	files, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return durable.Op("reset", l.dir, -1, err)
	}
	for _, f := range files {
		path := filepath.Join(l.dir, f.Name())
		if f.Name() == lockName {
			continue
		}
		if err := l.fs.Remove(path); err != nil {
			return durable.Op("remove", path, -1, err)
		}
	}
	_, f, err := l.createSegment(header{id: l.id, number: 1, first: first}, nil)
	if err != nil {
		return err
	}
	return durable.Op("close", l.dir, -1, f.Close())
}

// lockLog returns a locked log, without its segments.
func lockLog(fsys vfs.FS, dir string, id ID, opt Options) (*Log, error) {
	if opt.SegmentBytes <= 0 {
		opt.SegmentBytes = DefaultSegment
	}
	if err := id.check(); err != nil {
		return nil, durable.Op("open", dir, -1, err)
	}
	if err := makeDir(fsys, dir); err != nil {
		return nil, durable.Op("open", dir, -1, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			err = fmt.Errorf("%w: %w", ErrInUse, err)
		}
		return nil, durable.Op("open", dir, -1, err)
	}
	return &Log{fs: fsys, dir: dir, id: id, opt: opt, lock: lock}, nil
}

func makeDir(fsys vfs.FS, dir string) error {
	made := fsys.Mkdir(dir)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	// It may be there without being durable.
	err := fsys.SyncDir(filepath.Dir(dir))
	if err != nil && made == nil {
		// Best effort: the next sync proves nothing, unless it is made again.
		_ = fsys.Remove(dir)
	}
	return err
}

// recover brings the log into order and makes the segment that it goes on in.
func (l *Log) recover() (Recovery, error) {
	segs, debris, err := list(l.fs, l.dir, l.id)
	if err != nil {
		return Recovery{}, err
	}
	for _, path := range debris {
		if err := l.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Recovery{}, durable.Op("remove", path, -1, err)
		}
	}
	rec := Recovery{First: 1, Next: 1}
	if len(segs) > 0 {
		if rec, err = settle(l.fs, segs, l.sync); err != nil {
			return Recovery{}, err
		}
	}
	l.segs = segs
	l.next, l.settled = rec.Next, rec.Next
	if err := l.renew(); errors.Is(err, durable.ErrStorageFull) && len(segs) > 0 {
		l.err = err
	} else if err != nil {
		return Recovery{}, err
	}
	rec.Segments = len(l.segs)
	return rec, nil
}

// settle finds the end of the last segment and, given sync, makes durable what it holds: it may
// come from a process that died before it could, or whose fsync had failed, after which another
// one succeeds and proves nothing (Rebello et al.) until the bytes are written again. It is only
// the last group, of which no frame behind says that it is durable.
func settle(fsys vfs.FS, segs []segment, sync func(func() error) error) (Recovery, error) {
	last := &segs[len(segs)-1]
	s, err := newScanner(fsys, last)
	if err != nil {
		return Recovery{}, err
	}
	defer s.close()
	for {
		_, err := s.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Recovery{}, err
		}
	}
	if sync != nil {
		if err := rewrite(fsys, last.path, s.group, s.off, sync); err != nil {
			return Recovery{}, err
		}
	}
	last.end = s.off
	rec := Recovery{First: segs[0].first, Next: s.next, Segments: len(segs)}
	if s.cut != nil {
		rec.CutBytes, rec.CutOffset, rec.CutFile, rec.CutReason = s.end-s.off, s.off, last.path, s.cut.Error()
	}
	return rec, nil
}

// rewrite writes a part of a file once more, as it is, and syncs the file. Power may fail in the
// middle: old and new are the same. A negative from is an empty part.
func rewrite(fsys vfs.FS, path string, from, to int64, sync func(func() error) error) (err error) {
	f, err := fsys.OpenWrite(path)
	if err != nil {
		return durable.Op("open", path, -1, err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = durable.Op("close", path, -1, cerr)
		}
	}()
	if from >= 0 {
		buf := make([]byte, min(to-from, readAhead))
		for at := from; at < to; at += int64(len(buf)) {
			buf = buf[:min(to-at, int64(len(buf)))]
			if n, err := f.ReadAt(buf, at); n < len(buf) {
				return durable.Op("read", path, at, err)
			}
			if err := durable.WriteAt(f, path, buf, at); err != nil {
				return err
			}
		}
	}
	return durable.Op("sync", path, -1, sync(f.Sync))
}

// sync syncs and counts it. One that fails throws doubt on the last segment.
func (l *Log) sync(sync func() error) error {
	start := time.Now()
	err := sync()
	took := time.Since(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Fsyncs++
	l.stats.SyncTime += took
	l.doubted = l.doubted || err != nil
	return err
}

// syncDir makes the names of the segments durable.
func (l *Log) syncDir() error {
	return durable.Op("sync", l.dir, -1, l.sync(func() error { return l.fs.SyncDir(l.dir) }))
}

// extend makes the segment in which the log goes on. It takes the place of a last segment without
// frames, so that these do not pile up. The caller owns the file.
func (l *Log) extend() error {
	l.mu.Lock()
	h := header{id: l.id, number: 1, first: l.settled}
	replace := false
	if n := len(l.segs); n > 0 {
		last := &l.segs[n-1]
		h.number, h.prevEnd = last.number+1, last.end
		if replace = last.end == headerSize; replace {
			h.number, h.prevEnd = last.number, last.prevEnd
		}
	}
	l.mu.Unlock()
	seg, f, err := l.createSegment(h, nil)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if replace {
		l.segs = l.segs[:len(l.segs)-1]
	}
	l.goOnIn(seg, f)
	return nil
}

// goOnIn makes a segment the last one. The caller owns the file and holds the lock.
func (l *Log) goOnIn(seg segment, f vfs.File) {
	if l.file != nil {
		// All that counts in it is durable.
		_ = l.file.Close()
	}
	l.file = f
	l.segs = append(l.segs, seg)
	l.stats.Segments++
}

// Append puts a frame at the end of the log and returns its number. It is durable, or can be
// lost, only when Wait says so. The message is copied. Memory holds all that has been appended
// and not committed.
func (l *Log) Append(f channel.Frame) (LSN, error) {
	if err := check(&f); err != nil {
		return 0, durable.Op("append to", l.dir, -1, err)
	}
	sum := payloadCRC(&f)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	lsn := l.next
	l.next++
	l.queue = appendFrame(l.queue, &f, lsn, sum)
	return lsn, nil
}

func (l *Log) usable() error {
	if l.closed {
		return durable.Op("append to", l.dir, -1, ErrClosed)
	}
	return l.err
}

// Next returns the number that the next frame will have.
func (l *Log) Next() LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Close commits what has been appended and closes the log. Only Stats may be called afterwards.
// If the commit fails the log is closed all the same.
func (l *Log) Close() error {
	err := l.Commit(context.Background())
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return durable.Op("close", l.dir, -1, ErrClosed)
	}
	l.closed = true // from here on there is no new leader
	done := l.done
	l.mu.Unlock()
	if done != nil {
		<-done
	}
	l.truncating.Lock()
	defer l.truncating.Unlock()
	if l.file != nil {
		if cerr := l.file.Close(); err == nil {
			err = durable.Op("close", l.dir, -1, cerr)
		}
	}
	if cerr := l.lock.Close(); err == nil {
		err = durable.Op("unlock", l.dir, -1, cerr)
	}
	return err
}
