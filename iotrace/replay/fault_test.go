package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// mixed does everything that a replay can do, with several ranks.
func mixed() *iotrace.Trace {
	t := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/a/shared", "/a/own", "/b/input", "/b/own"}}
	now := int64(0)
	add := func(rank, file int32, op iotrace.Op, off, n int64) {
		t.Events = append(t.Events, iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: off, Bytes: n, Start: now, End: now + 10, Create: op == iotrace.Open && file != 2})
		now += 5
	}
	for rank := range int32(2) {
		add(rank, 2, iotrace.Open, iotrace.None, 0)
		add(rank, 2, iotrace.Read, 0, 1000)
		add(rank, 2, iotrace.Seek, 5000, 0)
		add(rank, 2, iotrace.Read, iotrace.None, 1000)
		add(rank, 2, iotrace.Close, iotrace.None, 0)
		add(rank, 0, iotrace.Open, iotrace.None, 0)
		add(rank, 0, iotrace.Write, int64(rank)*4096, 4096)
		t.Events = append(t.Events, iotrace.Event{Op: iotrace.Barrier, Rank: rank, File: iotrace.None, Peer: iotrace.None, Offset: iotrace.None, Start: 100, End: 200})
		add(rank, 1+2*rank, iotrace.Open, iotrace.None, 0)
		add(rank, 1+2*rank, iotrace.Truncate, iotrace.None, 100)
		add(rank, 1+2*rank, iotrace.Write, 0, 50)
		add(rank, 1+2*rank, iotrace.Sync, iotrace.None, 0)
		add(rank, 1+2*rank, iotrace.Stat, iotrace.None, 0)
		add(rank, 1+2*rank, iotrace.Rename, iotrace.None, 0)
		add(rank, 1+2*rank, iotrace.Close, iotrace.None, 0)
	}
	add(0, 0, iotrace.Unlink, iotrace.None, 0)
	t.Sort()
	return t
}

// TestEveryFault lets operations on the file system, at night each, fail in turn: the replay
// says which, closes everything and removes what it made.
func TestEveryFault(t *testing.T) {
	calls, every := 0, 3
	if testkit.Nightly() {
		every = 1
	}
	for n := 0; n <= calls; n += every {
		m := newMemFS()
		var failed string
		m.fail = func(call int, op, name string) error {
			if call == n {
				failed = op
				return syscall.EIO
			}
			return nil
		}
		_, err := Run(context.Background(), mixed(), Options{Dir: "/new", fs: m})
		if n == 0 {
			if err != nil {
				t.Fatal(err)
			}
			calls = m.calls
			continue
		}
		if failed == "" {
			continue // this time it was one call less
		}
		if !errors.Is(err, syscall.EIO) || !strings.Contains(fmt.Sprint(err), "/new") {
			t.Errorf("call %d, %s: %v", n, failed, err)
		}
		if m.open != 0 {
			t.Errorf("call %d, %s: %d files are open", n, failed, m.open)
		}
		if names := m.names(); len(names) > 0 && !strings.Contains(fmt.Sprint(err), "not all files of the replay were removed") {
			t.Errorf("call %d, %s: %v is left: %v", n, failed, names, err)
		}
	}
	if calls < 40 {
		t.Errorf("only %d calls", calls)
	}
}

// TestOpenBeyondFails: a file that is opened only because a renaming replaces it, and a
// process without an open in the trace uses it later, is the one that the error names.
func TestOpenBeyondFails(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/new", "/old"}}
	add := func(rank int32, op iotrace.Op, file int32) {
		at := int64(2 * len(tr.Events))
		tr.Events = append(tr.Events, iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: 0, Bytes: 10, Start: at, End: at + 1, Create: op == iotrace.Open})
	}
	add(0, iotrace.Open, 1)
	add(0, iotrace.Write, 1)
	add(0, iotrace.Open, 0)
	add(0, iotrace.Close, 0)
	add(0, iotrace.Rename, 0)
	tr.Renames = []iotrace.Renaming{{From: 0, To: 1, At: int64(2*len(tr.Events) - 1)}}
	add(1, iotrace.Read, 1) // by an inherited descriptor
	opens := 0
	m := newMemFS()
	m.fail = func(_ int, op, name string) error {
		if name == "/old" && (op == "open" || op == "create") {
			if opens++; opens == 2 {
				return syscall.EACCES
			}
		}
		return nil
	}
	_, err := Run(context.Background(), tr, Options{Dir: "/", fs: m})
	var e *Error
	if !errors.As(err, &e) || e.Op != "open" || e.Path != "/old" {
		t.Errorf("%d opens: %v", opens, err)
	}
}

// TestDiskFull: the error has file, offset and rank, and a hint; nothing is left.
func TestDiskFull(t *testing.T) {
	tr := iotracetest.PerRank(1, 8, 1)
	var total int64
	for _, e := range tr.Events {
		if e.Op == iotrace.Write {
			total += e.Bytes
		}
	}
	for _, room := range []int64{0, 1, total / 3, total - 1} {
		m := newMemFS()
		m.room = room
		_, err := Run(context.Background(), tr, Options{Dir: "/", fs: m})
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, syscall.ENOSPC) || e.Op != "write" || e.Rank != 0 || e.Path == "" || e.Hint() == "" ||
			!strings.Contains(err.Error(), fmt.Sprintf("bytes at offset %d: no space left on device", e.Offset)) {
			t.Errorf("room for %d: %v", room, err)
		}
		if len(m.names()) != 0 || m.open != 0 {
			t.Errorf("%v is left, %d are open", m, m.open)
		}
	}
	m := newMemFS()
	m.room = total
	if _, err := Run(context.Background(), tr, Options{Dir: "/", fs: m}); err != nil {
		t.Error(err)
	}
}

// TestPreparingFails: before the clock starts.
func TestPreparingFails(t *testing.T) {
	m := newMemFS()
	m.room = 100
	_, err := Run(context.Background(), mixed(), Options{Dir: "/new", fs: m})
	var e *Error
	if !errors.As(err, &e) || e.Op != "prepare" || !errors.Is(err, syscall.ENOSPC) || len(m.names()) != 0 {
		t.Errorf("%v; %v is left", err, m)
	}
}

// TestNotOverwritten: a file that is in the way is not touched.
func TestNotOverwritten(t *testing.T) {
	for _, name := range []string{"/a_own", "/a_own~renamed", "/b_input"} {
		m := newMemFS()
		f, err := m.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		_, err = Run(context.Background(), mixed(), Options{Dir: "/", fs: m})
		var e *Error
		if !errors.Is(err, fs.ErrExist) || !errors.As(err, &e) || !strings.Contains(e.Hint(), "overwrite") || len(m.names()) != 1 {
			t.Errorf("%v; %v is left", err, m)
		}
		if _, err := Run(context.Background(), mixed(), Options{Dir: "/", fs: m, Overwrite: true}); err != nil || len(m.names()) != 0 {
			t.Errorf("%v; %v is left", err, m)
		}
	}
	m := newMemFS()
	if _, err := Run(context.Background(), mixed(), Options{Dir: "/no/such", fs: m}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestInterrupted: the replay ends soon and cleanly.
func TestInterrupted(t *testing.T) {
	for n := 1; n < 60; n += 3 {
		ctx, stop := context.WithCancel(context.Background())
		m := newMemFS()
		m.fail = func(call int, _, _ string) error {
			if call == n {
				stop()
			}
			return nil
		}
		_, err := Run(ctx, mixed(), Options{Dir: "/new", fs: m})
		if err != nil && !errors.Is(err, context.Canceled) || len(m.names()) != 0 || m.open != 0 {
			t.Errorf("call %d: %v; %v is left, %d are open", n, err, m, m.open)
		}
		stop()
	}
}

// TestOptions that make no sense.
func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		t *iotrace.Trace
		o Options
	}{
		"directory":   {mixed(), Options{}},
		"ranks":       {mixed(), Options{Dir: "/", Ranks: -1}},
		"aggregators": {mixed(), Options{Dir: "/", Aggregators: 2}},
		"many":        {mixed(), Options{Dir: "/", Aggregators: 3, Layout: Aggregated}},
		"at a time":   {mixed(), Options{Dir: "/", Ranks: 10000}},
		"nothing":     {&iotrace.Trace{}, Options{Dir: "/"}},
	} {
		c.o.fs = newMemFS()
		_, err := Run(context.Background(), c.t, c.o)
		if _, ok := err.(*OptionError); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseLayout("round"); err == nil {
		t.Error("layout round")
	}
	if _, err := Run(context.Background(), mixed(), Options{Dir: "/", Direct: true, fs: newMemFS()}); !errors.Is(err, ErrDirect) {
		t.Error(err)
	}
}
