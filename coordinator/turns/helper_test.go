package turns

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ckpt/image/iosched"
	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

func TestMain(m *testing.M) {
	if act := os.Getenv("TURNS_TEST_ACT"); act != "" {
		os.Exit(actAs(act))
	}
	goleak.VerifyTestMain(m)
}

// A unit is a storage unit in memory whose controller can be killed, made silent and
// started again.
type unit struct {
	t  testing.TB
	fs *memfs.FS
	o  ServeOptions

	mu     sync.Mutex
	serves *serving
	silent bool
	dials  int
}

// A serving is one life of the controller of a unit.
type serving struct {
	c        *controller
	listener *pipeListener
	cancel   context.CancelFunc
	over     chan struct{}
}

func newUnit(t testing.TB, o ServeOptions) *unit {
	u := &unit{t: t, fs: memfs.New(), o: o.withDefaults()}
	for _, dir := range []string{"/unit", "/unit/" + dirName} {
		if err := u.fs.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	u.start()
	t.Cleanup(u.kill)
	return u
}

// start starts the controller.
func (u *unit) start() {
	u.t.Helper()
	c, err := newController("/unit", u.o)
	if err != nil {
		u.t.Fatal(err)
	}
	c.info = Info{Dir: "/unit", Version: version, PID: 1, Host: "here", Socket: socketName, Policy: "test"}
	b, err := c.info.encode()
	if err == nil {
		err = durable.Replace(u.fs, "/unit/"+dirName+"/"+infoName, b)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{c, &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}, cancel, make(chan struct{})}
	go func() {
		defer close(s.over)
		_ = c.serve(ctx, []net.Listener{s.listener})
	}()
	u.mu.Lock()
	u.serves = s
	u.mu.Unlock()
}

// kill ends the controller as a SIGKILL does: its file stays.
func (u *unit) kill() {
	u.mu.Lock()
	s := u.serves
	u.serves = nil
	u.mu.Unlock()
	if s != nil {
		s.cancel()
		<-s.over
	}
}

// hush makes the controller silent, or lets it speak again. Connections stay.
func (u *unit) hush(silent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.silent = silent
}

// dial connects a client by pipes through a relay that can be silent.
func (u *unit) dial(ctx context.Context, _ *Info) (net.Conn, error) {
	u.mu.Lock()
	s := u.serves
	u.dials++
	u.mu.Unlock()
	if s == nil {
		return nil, net.ErrClosed
	}
	near, far := net.Pipe()
	in, out := net.Pipe()
	select {
	case s.listener.conns <- out:
	case <-s.listener.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	go u.relay(far, in, false)
	go u.relay(in, far, true)
	return near, nil
}

// relay passes bytes on. Those of a silent controller are lost.
func (u *unit) relay(to, from net.Conn, mayHush bool) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		u.mu.Lock()
		silent := u.silent
		u.mu.Unlock()
		if silent {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// client returns a client of an application.
func (u *unit) client(app string, o ClientOptions) *Client {
	o.FS, o.dial = u.fs, u.dial
	c := NewClient("/unit", Who{App: app, User: "user-" + app}, o)
	u.t.Cleanup(c.Close)
	return c
}

// status returns what the controller knows of an application.
func (u *unit) status(app string) iosched.AppStatus {
	c := u.serves.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.arbiter.Status(c.clock.now()).Apps {
		if a.App == app {
			return a
		}
	}
	return iosched.AppStatus{}
}

// pipeListener gives out the ends of pipes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// move moves bytes in a turn that take a time.
func move(t testing.TB, turn *Turn, n int64, takes time.Duration) {
	t.Helper()
	if err := turn.Enter(context.Background()); err != nil {
		t.Error(err)
	}
	time.Sleep(takes)
	turn.Leave(n)
}
