package msglog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
)

// An LSN is the number of a frame in its log, from 1. An LSN is not used twice while a log is
// open, even if its frame is lost.
type LSN = uint64

// MaxPayload is the longest payload in bytes, as of a message of MPI.
const MaxPayload = math.MaxInt32

const (
	frameHead     = 56
	anySourceFlag = 1
	lastContext   = 1
	lastKind      = 4
	cutSeq        = math.MaxUint64 // of a mark that is a cut
)

func check(f *channel.Frame) error {
	switch n := payloadSize(f); {
	case f.Kind < channel.Received || f.Kind > channel.Cut:
		return fmt.Errorf("kind %d of a frame is unknown", f.Kind)
	case f.Peer < -1 || f.Peer > math.MaxInt32:
		return fmt.Errorf("peer %d of a frame is no rank", f.Peer)
	case f.Message.Context > lastContext:
		return fmt.Errorf("context %d of a frame is unknown", f.Message.Context)
	case f.Message.Tag < 0:
		return fmt.Errorf("tag %d of a frame is out of range", f.Message.Tag)
	case n > MaxPayload:
		return fmt.Errorf("payload of %d bytes is longer than %d", n, MaxPayload)
	}
	return nil
}

func payloadSize(f *channel.Frame) int { return 8*len(f.Message.Depends) + len(f.Message.Data) }

func payloadCRC(f *channel.Frame) uint32 {
	depends := durable.Sum(channel.AppendNumbers(nil, f.Message.Depends))
	return durable.AddSum(depends, f.Message.Data)
}

// A head is a frame as it is read. Its message has no data yet.
type head struct {
	channel.Frame // of kind 0 if this version does not write it
	order         uint64
	payload       int    // bytes
	payloadCRC    uint32 // of the payload
	lsn           LSN
	durableUpTo   int64 // offset in the segment
}

// padded is the room that a payload takes.
func padded(n int) int64 { return (int64(n) + 7) &^ 7 }

// size is the length of the whole frame.
func (h *head) size() int64 { return frameHead + padded(h.payload) }

// appendFrame appends a frame to a group. Fields that depend on its segment are left to seal.
func appendFrame(b []byte, f *channel.Frame, lsn LSN, payloadCRC uint32) []byte {
	le, m := binary.LittleEndian, &f.Message
	seq, order, flags := m.Seq, uint64(len(m.Depends)), byte(0)
	switch f.Kind {
	case channel.Determined:
		order, flags = f.Number, anySourceFlag
	case channel.Cut:
		seq = cutSeq
	}
	n := payloadSize(f)
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, payloadCRC)
	b = le.AppendUint64(b, lsn)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, seq)
	b = le.AppendUint64(b, order)
	b = le.AppendUint32(b, uint32(n))
	b = le.AppendUint32(b, uint32(f.Peer))
	b = le.AppendUint32(b, uint32(m.Tag))
	b = append(b, byte(f.Kind), flags, m.Context, 0)
	b = channel.AppendNumbers(b, m.Depends)
	b = append(b, m.Data...)
	return append(b, make([]byte, padded(n)-int64(n))...)
}

// seal makes a group of frames fit for its place in a segment.
func seal(group []byte, offset int64, salt uint32) {
	le := binary.LittleEndian
	for len(group) > 0 {
		le.PutUint64(group[16:], uint64(offset))
		le.PutUint32(group, headCRC(group, salt))
		group = group[frameHead+padded(int(le.Uint32(group[40:]))):]
	}
}

func headCRC(b []byte, salt uint32) uint32 {
	return durable.AddSum(salt, b[4:frameHead])
}

const badChecksum = "checksum of the frame's head does not match"

// decodeHead reads a head, whose checksum it checks, and which has exactly one encoding. The
// caller looks for the payload.
func decodeHead(b []byte, salt uint32) (head, string) {
	le := binary.LittleEndian
	if le.Uint32(b) != headCRC(b, salt) {
		return head{}, badChecksum
	}
	h := head{
		Frame: channel.Frame{
			Kind:    channel.FrameKind(b[52]),
			Peer:    int(int32(le.Uint32(b[44:]))),
			Message: channel.Message{Context: b[54], Tag: int32(le.Uint32(b[48:])), Seq: le.Uint64(b[24:])},
		},
		order:      le.Uint64(b[32:]),
		payloadCRC: le.Uint32(b[4:]),
		lsn:        le.Uint64(b[8:]),
	}
	length, durable := le.Uint32(b[40:]), le.Uint64(b[16:])
	switch {
	case h.Kind == lastKind, h.Kind == channel.Cut && h.Message.Seq != cutSeq:
		h.Kind = 0
	case h.Kind == channel.Cut:
		h.Message.Seq = 0
	}
	if err := check(&h.Frame); err != nil && h.Kind != 0 {
		return h, err.Error()
	}
	if length > MaxPayload || durable > math.MaxInt64 || b[53]&^anySourceFlag != 0 || b[55] != 0 || h.Kind == channel.Received && h.order > uint64(length)/8 {
		return h, "field of the frame's head is out of range"
	}
	h.payload, h.durableUpTo = int(length), int64(durable)
	return h, ""
}

func (h *head) fill(payload []byte) {
	switch h.Kind {
	case channel.Received:
		h.Message.Depends = channel.Numbers(payload[:8*h.order])
		h.Message.Data = payload[8*h.order:]
	case channel.Determined:
		h.Number = h.order
	case channel.Cut:
		h.Message.Data = payload
	}
}

// Commit makes all frames durable that have been appended. When ctx is done it returns without
// knowing; the frames stay in the log. The leader of a commit waits for the disk all the same, as
// in Wait.
func (l *Log) Commit(ctx context.Context) error {
	l.mu.Lock()
	err, last, all := l.usable(), l.next-1, l.settled == l.next
	l.mu.Unlock()
	if err != nil || all {
		return err
	}
	return l.Wait(ctx, last)
}

// Wait returns nil when the frame and all before it are durable, except those that were lost
// before. It is where the group commit takes place: the first one to wait becomes the leader, who
// writes and syncs all that has been appended, and the others wait for the leader. If the commit
// fails the error is ErrLost, now and later.
func (l *Log) Wait(ctx context.Context, lsn LSN) error {
	for {
		l.mu.Lock()
		switch {
		case lsn == 0 || lsn >= l.next:
			l.mu.Unlock()
			return durable.Op("wait for", l.dir, -1, fmt.Errorf("frame %d has not been appended", lsn))
		case lsn < l.settled:
			err := l.lostError(lsn)
			l.mu.Unlock()
			return err
		case l.closed:
			l.mu.Unlock()
			return durable.Op("wait for", l.dir, -1, ErrClosed)
		case ctx.Err() != nil:
			l.mu.Unlock()
			return durable.Op("wait for", l.dir, -1, context.Cause(ctx))
		case l.done != nil:
			done := l.done
			l.mu.Unlock()
			select {
			case <-done:
			case <-ctx.Done():
			}
		default:
			l.lead()
		}
	}
}

func (l *Log) lostError(lsn LSN) error {
	for _, f := range l.lost {
		if f.from <= lsn && lsn < f.to {
			return fmt.Errorf("frame %d is %w: %w", lsn, ErrLost, f.err)
		}
	}
	return nil
}

// lead commits all that is queued. It is called with the lock held, which it releases.
func (l *Log) lead() {
	l.done = make(chan struct{})
	group, upTo := l.queue, l.next
	l.queue = l.spare[:0]
	l.mu.Unlock()

	err := l.commit(group)

	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(group) <= 4*readAhead {
		l.spare = group
	} else {
		l.spare = nil // a large message is no reason to keep so much for ever
	}
	if err == nil {
		l.stats.Commits++
		l.stats.Frames += int64(upTo - l.settled)
		l.stats.Bytes += int64(len(group))
		l.settled = upTo
		l.segs[len(l.segs)-1].end += int64(len(group))
	} else {
		l.fail(err)
	}
	close(l.done)
	l.done = nil
}

// commit writes a group and makes it durable. The file is ours.
func (l *Log) commit(group []byte) error {
	l.mu.Lock()
	seg := l.segs[len(l.segs)-1]
	l.mu.Unlock()
	if seg.end >= l.opt.SegmentBytes && seg.end > headerSize {
		if err := l.extend(); err != nil {
			return err
		}
		l.wary = false // a whole segment was read back
		l.mu.Lock()
		seg = l.segs[len(l.segs)-1]
		l.mu.Unlock()
	}
	seal(group, seg.end, seg.salt)
	if err := durable.WriteAt(l.file, seg.path, group, seg.end); err != nil {
		return err
	}
	if err := l.sync(l.file.Sync); err != nil {
		return durable.Op("sync", seg.path, -1, err)
	}
	from := seg.end
	seg.end += int64(len(group))
	return l.readBack(seg.path, seg, from, firstOf(group))
}

// fail loses all frames that are not durable, in the group that failed and behind it.
func (l *Log) fail(err error) {
	l.err = err
	if l.settled < l.next {
		// a disk that stays full is one entry, whatever the number of tries
		if n := len(l.lost); n > 0 && l.lost[n-1].to == l.settled && l.lost[n-1].err.Error() == err.Error() {
			l.lost[n-1].to = l.next
		} else {
			l.lost = append(l.lost, lostFrames{l.settled, l.next, err})
		}
		l.stats.Lost += int64(l.next - l.settled)
	}
	l.settled = l.next
	l.queue = l.queue[:0]
}

// disown gives the file up.
func (l *Log) disown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.done)
	l.done = nil
}

// Reopen makes a log usable again whose commit has failed. The frames that were lost are cut away
// durably, and new ones go into a new segment. If a sync was what failed, the segment that it
// concerned is written once more, as another file, and until the next segment is full every
// commit is read back around the page cache: the next fsync that succeeds proves nothing. If
// Reopen fails the log stays as it is. On a log that has not failed it does nothing.
func (l *Log) Reopen() error {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return durable.Op("reopen", l.dir, -1, ErrClosed)
		case l.err == nil:
			// Leaders do not wait for their turn: Reopen returns as well.
			l.mu.Unlock()
			return nil
		case l.done == nil:
			return l.reopen()
		}
		done := l.done
		l.mu.Unlock()
		<-done
	}
}

// reopen is called with the lock held, which it releases.
func (l *Log) reopen() error {
	l.done = make(chan struct{})
	end := l.segs[len(l.segs)-1].end
	l.mu.Unlock()
	defer l.disown()
	// Best effort, to give back room on a disk that may be full. It is the header of the next
	// segment that makes the end.
	if l.file != nil {
		_ = l.file.Truncate(end)
	}
	if err := l.renew(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = nil
	return nil
}

// Truncate removes the segments that hold only frames before the one given, and returns how many
// frames that were, numbers of lost ones included, and how many bytes. It works on a log that has
// failed too.
func (l *Log) Truncate(before LSN) (removed int, freed int64, err error) {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	for {
		// One after the other, each durably, or a crash might bring back an older one and leave a
		// gap.
		if l.removed {
			if err := l.syncRemoval(); err != nil {
				return removed, freed, err
			}
		}
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return removed, freed, durable.Op("truncate", l.dir, -1, ErrClosed)
		}
		if len(l.segs) < 2 || l.segs[1].first > before {
			l.mu.Unlock()
			return removed, freed, nil
		}
		seg, next := l.segs[0], l.segs[1]
		l.mu.Unlock()
		if err := l.fs.Remove(seg.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, freed, durable.Op("remove", seg.path, -1, err)
		}
		l.removed = true
		removed += int(next.first - seg.first)
		freed += seg.end
		l.mu.Lock()
		l.segs = append([]segment(nil), l.segs[1:]...)
		l.mu.Unlock()
	}
}

// syncRemoval makes a removal durable. If a sync of the directory has failed before, the next one
// may do nothing for want of a change.
func (l *Log) syncRemoval() error {
	if l.unsynced {
		touch := filepath.Join(l.dir, touchName)
		f, err := l.fs.Create(touch)
		if err == nil {
			err = f.Close()
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = l.fs.Remove(touch)
		}
		if err != nil {
			return durable.Op("truncate", touch, -1, err)
		}
	}
	err := l.syncDir()
	l.unsynced, l.removed = err != nil, err != nil
	return err
}
