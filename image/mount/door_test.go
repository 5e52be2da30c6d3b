package mount

import (
	"fmt"
	"os"
	"testing"
	"time"

	"ckpt/image/iosched"
	"ckpt/image/iosched/live"
)

// A door is a gate of one unit, for tests.
type door struct {
	unit     *live.Unit
	programs Programs
}

func (d *door) Move(r *Request, part func(off, bytes, behind int64) error) error {
	p := d.programs.Of(r)
	q := &iosched.Request{App: p.App, Rank: p.Process, File: r.Name, Offset: r.Offset, Bytes: r.Bytes}
	if r.Op != Read {
		q.Op = iosched.Write
	}
	return d.unit.Move(q, part)
}

// watched counts requests.
type watched struct{}

func (watched) Done(*Request, time.Time, time.Time) {}

// TestMain is also a process of an application.
func TestMain(m *testing.M) {
	if path := os.Getenv("MOUNT_STRIDE"); path != "" {
		if err := stride(path, os.Getenv("MOUNT_HOW")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("MOUNT_COMPUTE") != "" {
		compute()
		return
	}
	os.Exit(m.Run())
}
