package msglog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/internal/durable"
)

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
			// Leaders do not wait for their turn, and neither does this.
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
