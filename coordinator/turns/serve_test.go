package turns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/image/iosched"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// An eventLog keeps the events of a controller, and says when it serves.
type eventLog struct {
	serving chan struct{}
	mu      sync.Mutex
	events  []Event
}

func (e *eventLog) Observe(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
	if ev.What == Serving {
		close(e.serving)
	}
}

func (e *eventLog) of(what string) (list []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.events {
		if ev.What == what {
			list = append(list, ev)
		}
	}
	return list
}

// serving serves a directory with real sockets until stop is called, or the test ends.
func serve(t testing.TB, dir string, o ServeOptions) (log *eventLog, stop func() error) {
	t.Helper()
	log = &eventLog{serving: make(chan struct{})}
	o.Observer = log
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- Serve(ctx, dir, o) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-over
	})
	t.Cleanup(func() { stop() })
	select {
	case <-log.serving:
	case err := <-over:
		over <- err
		t.Fatalf("serve: %v", err)
	}
	return log, stop
}

// works has a client take a turn.
func works(t *testing.T, dir string) {
	t.Helper()
	c := NewClient(dir, Who{App: "job", User: "somebody"}, ClientOptions{})
	defer c.Close()
	turn := c.Begin(Burst{Kind: Checkpoint, Bytes: part})
	move(t, turn, part, 0)
	if r := turn.End(); r.Passed != "" {
		t.Errorf("report %+v", r)
	}
}

// TestServe serves a directory, from its start to its end, and finds it from below.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "store", "job", "not there yet")
	if err := os.MkdirAll(filepath.Dir(deep), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(vfs.OS{}, deep); !errors.Is(err, ErrNone) {
		t.Errorf("find before: %v", err)
	}
	if _, err := Ask(t.Context(), dir); !errors.Is(err, ErrNone) {
		t.Errorf("ask before: %v", err)
	}
	log, stop := serve(t, dir, ServeOptions{})
	i, err := Find(vfs.OS{}, deep)
	if err != nil || i.Dir != dir || i.PID != os.Getpid() || i.Policy != iosched.DefaultPolicy || i.Address != "" {
		t.Errorf("found %+v, %v", i, err)
	}
	works(t, deep)
	for len(log.of(Left)) == 0 { // what a client sends last is read a little later
		time.Sleep(time.Millisecond)
	}
	s, err := Ask(t.Context(), deep)
	if err != nil || s.Unit != dir || s.PID != os.Getpid() || len(s.Apps) != 1 || s.Apps[0].App != "job" || s.Apps[0].Bytes != part {
		t.Errorf("status %+v, %v", s, err)
	}
	// The kernel says who the user is, whatever the client says.
	if me := UserName(uint32(os.Getuid())); len(s.Apps) == 1 && s.Apps[0].User != me {
		t.Errorf("user %q, want %q", s.Apps[0].User, me)
	}
	if err := Serve(t.Context(), dir, ServeOptions{}); !errors.Is(err, ErrServed) {
		t.Errorf("a second controller: %v", err)
	}
	works(t, dir)
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, what := range []string{Serving, Joined, Granted, Left, Ending} {
		if len(log.of(what)) == 0 {
			t.Errorf("no event %q", what)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, dirName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// TestIdleExit ends a controller that nobody uses, and not before.
func TestIdleExit(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan error, 1)
	log := &eventLog{serving: make(chan struct{})}
	go func() {
		ended <- Serve(context.Background(), dir, ServeOptions{IdleExit: 50 * time.Millisecond, Observer: log})
	}()
	<-log.serving
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if e := log.of(Ending); len(e) != 1 || !strings.Contains(e[0].Text, "idle") {
		t.Errorf("ending: %+v", e)
	}
}

// TestLongPath uses a directory whose name is longer than that of a socket may be.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, stop := serve(t, dir, ServeOptions{})
	works(t, dir)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestNetwork has a client without access to the socket come over the network.
func TestNetwork(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, ServeOptions{Listen: "127.0.0.1"})
	if err := os.Remove(filepath.Join(dir, dirName, socketName)); err != nil { // as on another host
		t.Fatal(err)
	}
	works(t, dir)
	s, err := Ask(t.Context(), dir)
	if err != nil || len(s.Apps) != 1 || s.Apps[0].User != "somebody" || s.Address == "" {
		t.Errorf("status %+v, %v", s, err)
	}
	i, err := Find(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	i.Socket, i.Token = "", strings.Repeat("0", 64)
	if conn, err := dial(t.Context(), i); err == nil {
		conn.Close()
		t.Error("connected with another token")
	}
	for _, bad := range []string{"0.0.0.0", ":7000", "[::]:1"} {
		if err := Serve(t.Context(), t.TempDir(), ServeOptions{Listen: bad}); err == nil || !strings.Contains(err.Error(), "{listen}") {
			t.Errorf("listen on %q: %v", bad, err)
		}
	}
}

// TestModes looks at who may read and connect.
func TestModes(t *testing.T) {
	for _, c := range []struct{ dir, sub, info, socket fs.FileMode }{
		{0o700, 0o700, 0o600, 0o600},
		{0o750, 0o750, 0o640, 0o660},
		{0o770, 0o770, 0o640, 0o660},
		{0o777, 0o770, 0o640, 0o660},
	} {
		dir := filepath.Join(t.TempDir(), "unit")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, c.dir)); err != nil {
			t.Fatal(err)
		}
		_, stop := serve(t, dir, ServeOptions{})
		for name, want := range map[string]fs.FileMode{"": c.sub, infoName: c.info, socketName: c.socket} {
			fi, err := os.Stat(filepath.Join(dir, dirName, name))
			if err != nil || fi.Mode().Perm() != want {
				t.Errorf("directory %v: %s is %v, %v, want %v", c.dir, name, fi.Mode(), err, want)
			}
		}
		stop()
	}
}

// TestStale finds the files that a killed controller left: clients pass at once, and the
// next controller replaces them.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	_, stop := serve(t, dir, ServeOptions{})
	keep := t.TempDir()
	for _, name := range []string{infoName, socketName} {
		if err := os.Link(filepath.Join(dir, dirName, name), filepath.Join(keep, name)); err != nil {
			testkit.Skip(t, fmt.Sprintf("hard links: %v", err))
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, dirName), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{infoName, socketName} {
		if err := os.Rename(filepath.Join(keep, name), filepath.Join(dir, dirName, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Ask(t.Context(), dir); !errors.Is(err, ErrNone) {
		t.Errorf("ask a dead controller: %v", err)
	}
	c := NewClient(dir, Who{App: "a"}, ClientOptions{})
	defer c.Close()
	turn := c.Begin(Burst{Bytes: part})
	move(t, turn, part, 0)
	if r := turn.End(); !strings.Contains(r.Passed, "has ended") {
		t.Errorf("report %+v", r)
	}
	serve(t, dir, ServeOptions{})
	works(t, dir)
}

// TestDamagedInfo has every change of the file noticed: nobody connects anywhere else.
func TestDamagedInfo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, dirName, infoName)
	if err := os.Mkdir(filepath.Join(dir, dirName), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"torn": `{"version":1,"pid":`, "no checksum": `{"version":1,"pid":1,"socket":"socket"}`,
		"outside":   string(mustEncode(t, Info{Version: version, Socket: "../socket"})),
		"newer":     string(mustEncode(t, Info{Version: version + 1})),
		"too large": strings.Repeat(" ", maxInfo+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if i, err := Find(vfs.OS{}, dir); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("%s: found %+v, %v", name, i, err)
		}
		c := NewClient(dir, Who{App: "a"}, ClientOptions{})
		turn := c.Begin(Burst{Bytes: part})
		move(t, turn, part, 0)
		if turn.End().Passed == "" {
			t.Errorf("%s: passed as if there were nothing", name)
		}
		c.Close()
	}
}

func mustEncode(t *testing.T, i Info) []byte {
	t.Helper()
	b, err := i.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTrusted decides whose files may lead to a controller.
func TestTrusted(t *testing.T) {
	const owner, member, stranger, group = 4002, 4003, 4004, 500
	for _, c := range []struct {
		mode     fs.FileMode
		uid, gid uint32
		want     bool
	}{
		{0o755, owner, group, true},
		{0o755, 0, 0, true},
		{0o755, uint32(os.Getuid()), 0, true},
		{0o755, member, group, false},
		{0o775, member, group, true},
		{0o775, stranger, group + 1, false},
		{0o777, member, group, false},
		{0o777, stranger, stranger, false},
	} {
		unit := statInfo{&syscall.Stat_t{Mode: uint32(c.mode), Uid: owner, Gid: group}}
		file := statInfo{&syscall.Stat_t{Uid: c.uid, Gid: c.gid}}
		if err := trusted("/unit/.ckpt-turns/controller.json", unit, file); (err == nil) != c.want || err != nil && !errors.Is(err, ErrNone) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	a := access{owner: owner, group: group, open: true}
	for _, c := range []struct {
		uid    uint32
		groups []uint32
		open   bool
		want   bool
	}{
		{0, nil, true, true}, {owner, nil, true, true}, {uint32(os.Getuid()), nil, false, true},
		{member, []uint32{1, group}, true, true}, {member, []uint32{group}, false, false}, {stranger, []uint32{1}, true, false},
	} {
		a.open = c.open
		if a.admits(c.uid, c.groups) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

type statInfo struct{ st *syscall.Stat_t }

func (statInfo) Name() string       { return "" }
func (statInfo) Size() int64        { return 0 }
func (statInfo) Mode() fs.FileMode  { return 0 }
func (statInfo) ModTime() time.Time { return time.Time{} }
func (statInfo) IsDir() bool        { return false }
func (s statInfo) Sys() any         { return s.st }

// TestServeErrors fails each operation on the files of a controller: Serve returns, and
// leaves no lock behind.
func TestServeErrors(t *testing.T) {
	for at := 1; ; at++ {
		dir := t.TempDir()
		faulty := memfs.WithFault(vfs.OS{}, memfs.Fault{At: at, Err: syscall.EIO})
		ctx, cancel := context.WithCancel(context.Background())
		log := &eventLog{serving: make(chan struct{})}
		over := make(chan error, 1)
		go func() { over <- Serve(ctx, dir, ServeOptions{FS: faulty, Observer: log}) }()
		var err error
		select {
		case <-log.serving:
			cancel()
			err = <-over
		case err = <-over:
		}
		cancel()
		if len(faulty.Ops()) < at {
			if err != nil {
				t.Errorf("without a fault: %v", err)
			}
			if at < 8 {
				t.Errorf("only %d operations", at-1)
			}
			return
		}
		serve(t, dir, ServeOptions{})
		works(t, dir)
	}
}
