package coordinator

import (
	"bufio"
	"context"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator/protocol"
)

// TestBeatOfWhoWaits: a rank that waits for its log before it is ready makes progress
// as long as the disk is full, so that nobody takes it for stuck, and only then.
func TestBeatOfWhoWaits(t *testing.T) {
	r := &rank{}
	other := connect(t, r)
	once, cancel := context.WithCancel(context.Background())
	cancel()
	in := bufio.NewReader(other)
	next := func() protocol.Message {
		m, err := protocol.ReadFrame(in)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		early bool
		err   error
		moves bool
	}{{true, syscall.ENOSPC, true}, {true, nil, false}, {false, syscall.ENOSPC, false}} {
		r.early.Store(c.early)
		r.tellLog(c.err)
		if m := next(); m.Kind != protocol.LogState {
			t.Fatalf("told %+v", m)
		}
		r.beat(once, time.Hour)
		before := next()
		r.beat(once, time.Hour)
		if after := next(); before.Kind != protocol.Beat || (after.Progress > before.Progress) != c.moves {
			t.Errorf("%+v: progress %d, then %d", c, before.Progress, after.Progress)
		}
	}
}
