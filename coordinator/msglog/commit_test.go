package msglog

import (
	"context"
	"errors"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestDurableBetweenLost: a frame between two that were lost for the same reason is
// not lost.
func TestDurableBetweenLost(t *testing.T) {
	disk := &faulty{Buffered: vfs.Through(memfs.New())}
	l, _, err := Open(disk, testDir, testID, Options{})
	must(t, err)
	for n, lost := range []bool{true, false, true} {
		disk.write = lost
		lsn, err := l.Append(frameOf(n))
		must(t, err)
		if err := l.Wait(context.Background(), lsn); errors.Is(err, ErrLost) != lost {
			t.Fatalf("frame %d: %v", lsn, err)
		}
		disk.write = false
		must(t, l.Reopen())
	}
	if err := l.Wait(context.Background(), 2); err != nil {
		t.Errorf("the frame between: %v", err)
	}
	must(t, l.Close())
}

// TestLargeGroupIsNotKept: a log does not hold on to the memory of a large message
// for ever.
func TestLargeGroupIsNotKept(t *testing.T) {
	l, _, err := Open(memfs.New(), testDir, testID, Options{})
	must(t, err)
	_, err = l.Append(channel.Frame{Kind: channel.Received, Message: channel.Message{Data: make([]byte, 8*readAhead)}})
	must(t, err)
	must(t, l.Commit(context.Background()))
	if n := cap(l.spare) + cap(l.queue); n > 4*readAhead {
		t.Errorf("%d bytes are kept", n)
	}
	must(t, l.Close())
}
