package rank

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// TestBeatOfWhoWaits: a rank that waits for its log before it is ready makes progress
// as long as the disk is full, so that nobody takes it for stuck, and only then.
func TestBeatOfWhoWaits(t *testing.T) {
	r := newProcess(vfs.OS{}, "")
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
		if m, ok := next().(protocol.LogState); !ok {
			t.Fatalf("told %+v", m)
		}
		r.beat(once, time.Hour)
		before, _ := next().(protocol.Beat)
		r.beat(once, time.Hour)
		if after, ok := next().(protocol.Beat); !ok || (after.Progress > before.Progress) != c.moves {
			t.Errorf("%+v: progress %d, then %d", c, before.Progress, after.Progress)
		}
	}
}

// TestLostPeer loses connections of a rank: it ends for the one within its group.
func TestLostPeer(t *testing.T) {
	r := &process{failed: make(chan error, 1), group: []int{0, 1}, cfg: wire.Welcome{Silence: time.Millisecond}}
	lost := r.lostPeer(t.Context())
	lost(2, syscall.ECONNREFUSED)
	lost(1, syscall.ENOMEM)
	lost(1, syscall.ENOMEM)
	if err := <-r.failed; !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("it ends with %v", err)
	}
}

// connect connects a rank with what stands for its coordinator.
func connect(t *testing.T, r *process) (coordinator net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	coordinator, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(conn.Close(), coordinator.Close()) })
	if r.link, err = wire.NewLink(conn, bufio.NewReader(conn)); err != nil {
		t.Fatal(err)
	}
	return coordinator
}

// TestBrokenLog has the message log of a rank fail: the rank ends, unless it only waits for
// free space or the log is in order again.
func TestBrokenLog(t *testing.T) {
	full := &durable.OpError{Op: "write", Path: "log", Offset: -1, Err: syscall.ENOSPC}
	broken := &durable.OpError{Op: "write", Path: "log", Offset: -1, Err: syscall.EIO}
	r := &process{failed: make(chan error, 1), cfg: wire.Welcome{Silence: time.Hour}}
	connect(t, r)
	r.tellLog(full)
	if r.logTimer != nil {
		t.Error("it does not wait for free space")
	}
	r.tellLog(broken)
	if r.tellLog(nil); r.logTimer.Stop() {
		t.Error("it ends although the log is in order again")
	}
	r.cfg.Silence = time.Millisecond
	r.tellLog(broken)
	if err := <-r.failed; !errors.Is(err, syscall.EIO) {
		t.Errorf("it ends with %v", err)
	}
}

// TestUnread: bytes in the pipe that a process prints into are seen until somebody reads them.
func TestUnread(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("sleep", "60")
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if unread(cmd.Process.Pid) {
		t.Error("an empty pipe holds bytes")
	}
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", cmd.Process.Pid), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := pipe.WriteString("a line"); err != nil || !unread(cmd.Process.Pid) {
		t.Errorf("a line in the pipe is not seen, %v", err)
	}
	if _, err := io.ReadFull(r, make([]byte, 6)); err != nil || unread(cmd.Process.Pid) {
		t.Errorf("a line that was read is seen, %v", err)
	}
}
