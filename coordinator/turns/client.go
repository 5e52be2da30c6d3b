package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/iosched"
	"ckpt/internal/vfs"
)

// A Who names the application that a client belongs to.
type Who struct {
	// App is the name of the job or command: a user's clients with this name have their turns
	// together.
	App string
	// User is the user's name. A controller on the same host asks the kernel instead.
	User string
	Rank int
	// Weight compares applications of one user; 0 is 1.
	Weight float64
}

const (
	Checkpoint = "checkpoint"
	Drain      = "drain"
	Restart    = "restart"
	Command    = "command"
)

// A Burst says which bytes an application wants to move at one time.
type Burst struct {
	Kind          string
	File          string
	Offset, Bytes int64 // -1 if unknown
	// Whole is how much the application is about to move in all bursts of the same work, of this
	// process or others; 0 if unknown.
	Whole int64
	// Waited gets each time for which operations of the burst waited; may be nil. Any goroutine
	// may call it. It must return soon.
	Waited func(from, to time.Time)
}

type ClientOptions struct {
	// FS has the directory; vfs.OS if nil.
	FS vfs.FS
	// Patience is how long a client waits for a controller that says nothing; 5 s.
	Patience time.Duration
	// MaxWait is how long one turn is awaited, whatever the controller says; 10 min.
	MaxWait time.Duration
	// OnPass gets the reason, once, when bytes pass without turns although there is a controller,
	// and again after turns were possible. It must return soon.
	OnPass func(why string)
	// dial connects to a controller; tests have their own.
	dial func(context.Context, *Info) (net.Conn, error)
}

const (
	defaultPatience = 5 * time.Second
	defaultMaxWait  = 10 * time.Minute
)

var (
	// errSilent says that a controller does not speak, and may live.
	errSilent = errors.New("the controller of storage turns does not answer")
	errDied   = errors.New("the controller of storage turns has ended")
	errWaited = errors.New("waited too long for a turn")
	errClosed = errors.New("the client of storage turns is closed")
)

// A Client asks a controller for the turns of one process. A nil Client passes everything.
type Client struct {
	dir     string
	who     Who
	o       ClientOptions
	waiting atomic.Int64 // turns that were asked for and are not granted
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// A goroutine that holds mu may lock a Turn, not the other way round.
	mu         sync.Mutex
	last       uint64
	live       map[uint64]*Turn
	session    *session
	connecting bool
	// doubtful: the controller was silent. Until it answers, nothing waits.
	doubtful bool
	why      error // why there is no session
	told     bool
	closed   bool
}

// NewClient returns a client for the storage unit of a directory. It opens nothing before the
// first Begin.
func NewClient(dir string, who Who, o ClientOptions) *Client {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.MaxWait <= 0 {
		o.MaxWait = defaultMaxWait
	}
	if o.dial == nil {
		o.dial = dial
	}
	if who.User == "" {
		who.User = UserName(uint32(os.Getuid())) // on this host the kernel tells
	}
	c := &Client{dir: dir, who: who, o: o, live: map[uint64]*Turn{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// OfJob returns the client of the coordinator of a job, nil if that takes no turns. It counts
// as one application with the ranks.
func OfJob(spec *job.Resolved, j *image.Job) *Client {
	if spec.StorageTurns == job.NoTurns {
		return nil
	}
	return NewClient(j.StoreDir(), Who{App: job.TurnsName(j.StoreDir(), j.Name()), Rank: -1}, ClientOptions{FS: j.FS()})
}

// Move moves the bytes of a burst through the file system of a turn. The end of ctx ends
// the turn, so that nothing waits for it any more.
func (c *Client) Move(ctx context.Context, fsys vfs.FS, b Burst, move func(vfs.FS) error) (Report, error) {
	t := c.Begin(b)
	defer context.AfterFunc(ctx, func() { t.End() })()
	err := move(t.FS(fsys))
	return t.End(), err
}

// Begin asks for a turn. It does not wait.
func (c *Client) Begin(b Burst) *Turn {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	t := &Turn{client: c, id: c.last, burst: b, revoked: make(chan struct{})}
	if c.closed {
		t.passed = errClosed.Error()
		return t
	}
	c.live[t.id] = t
	switch {
	case c.session != nil:
		c.session.ask(t)
	case c.doubtful:
		t.passed = c.why.Error()
	default:
		t.await()
	}
	if c.session == nil && !c.connecting {
		c.connecting = true
		c.workers.Go(c.connect)
	}
	return t
}

// Waits reports whether a burst is asked for and not granted: this process waits for others, and
// is not stuck. Drains do not count, since no operation waits for them.
func (c *Client) Waits() bool { return c != nil && c.waiting.Load() > 0 }

// Close ends the connection. Turns that are still open pass.
func (c *Client) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	s := c.session
	c.mu.Unlock()
	c.cancel()
	if s != nil {
		s.leave()
	}
	c.workers.Wait()
}

func (c *Client) connect() {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Patience)
	defer cancel()
	type result struct {
		s   *session
		err error
	}
	got := make(chan result, 1)
	// A file system may hang: this goroutine is then left behind.
	go func() {
		s, err := c.open(ctx)
		if err == nil && ctx.Err() != nil {
			s.link.end()
			s, err = nil, ctx.Err() // lost lets those pass that have no link yet
		}
		got <- result{s, err}
	}()
	var r result
	select {
	case r = <-got:
	case <-ctx.Done():
		r.err = ctx.Err()
		go func() { // it may have come at the last moment
			if late := <-got; late.s != nil {
				late.s.link.end()
			}
		}()
	}
	if r.err == nil {
		cancel()
		if r.err = c.serve(r.s); r.err == errClosed {
			r.s = nil // it has asked for nothing
		}
	} else if errors.Is(r.err, context.DeadlineExceeded) {
		r.err = errSilent
	}
	c.lost(r.s, r.err)
}

func (c *Client) serve(s *session) error {
	c.mu.Lock()
	c.session, c.connecting, c.doubtful, c.told = s, false, false, false
	if c.closed {
		c.mu.Unlock()
		s.link.end()
		return errClosed
	}
	for _, t := range c.turns() {
		s.ask(t)
	}
	c.mu.Unlock()
	var beats sync.WaitGroup
	beats.Go(s.beat)
	err := s.read()
	close(s.over)
	beats.Wait()
	s.link.end()
	return err
}

// turns lists the turns that are not ended, in their order. The caller holds mu.
func (c *Client) turns() []*Turn {
	var list []*Turn
	for _, t := range c.live {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Turn) int { return int(a.id) - int(b.id) })
	return list
}

// lost lets everything pass that waited for a connection.
func (c *Client) lost(s *session, err error) {
	c.mu.Lock()
	if c.closed {
		err = errClosed
	}
	c.session, c.connecting, c.why = nil, false, err
	c.doubtful = errors.Is(err, errSilent)
	list := c.turns()
	tell := !c.told && !c.closed && !errors.Is(err, ErrNone) && (len(list) > 0 || c.doubtful)
	c.told = c.told || tell
	c.mu.Unlock()
	var of *link
	if s != nil {
		of = s.link
	}
	for _, t := range list {
		t.pass(of, err)
	}
	if tell && c.o.OnPass != nil {
		c.o.OnPass(fmt.Sprintf("%v: I/O in %s goes on without turns", err, c.dir))
	}
}

func (c *Client) find(burst uint64) *Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[burst]
}

const maxSocketPath = 107

// dial connects to a controller: by its socket, or if that does not work, as on another host,
// over the network.
func dial(ctx context.Context, i *Info) (net.Conn, error) {
	err := errors.New("it listens nowhere")
	if i.Socket != "" {
		var conn net.Conn
		err = short(filepath.Join(i.Dir, dirName, i.Socket), func(path string) (err error) {
			conn, err = mpi.Dial(ctx, "unix", path)
			return err
		})
		if err == nil {
			return conn, nil
		}
	}
	if i.Address == "" {
		return nil, fmt.Errorf("process %d on host %s listens on the socket of that host only: %w", i.PID, i.Host, err)
	}
	key, err := wire.NewKey(i.Token)
	if err != nil {
		return nil, err
	}
	return key.Dial(ctx, i.Address)
}

// short calls use with a path of a socket that is short enough: through a descriptor of its
// directory, if need be.
func short(path string, use func(string) error) error {
	if len(path) <= maxSocketPath {
		return use(path)
	}
	dir := filepath.Dir(path)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	return use("/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path))
}

// Status is what a controller knows. Times are in seconds.
type Status struct {
	iosched.Status
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Address is HOST:PORT for other hosts, "" without it.
	Address string `json:"address"`
}

// Ask asks the controller of a directory how it is. The error is ErrNone if there is none, or it
// has died.
func Ask(ctx context.Context, dir string) (*Status, error) {
	info, err := Find(vfs.OS{}, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, defaultPatience)
	defer cancel()
	conn, err := dial(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, silent(ctx, err))
	}
	l, _, err := greet(ctx, conn, info, Who{})
	if err = silent(ctx, err); errors.Is(err, errDied) {
		err = fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	defer l.end()
	stop := context.AfterFunc(ctx, l.Drop)
	defer stop()
	l.send(&status{})
	for {
		m, err := readFrame(l.r, maxReport)
		if err != nil {
			return nil, silent(ctx, fmt.Errorf("%w: %w", errDied, err))
		}
		if m, ok := m.(*report); ok {
			var s Status
			if err := json.Unmarshal([]byte(m.JSON), &s); err != nil {
				return nil, fmt.Errorf("status of the controller of %s: %w", info.Dir, err)
			}
			if s.Unit == "" {
				return nil, fmt.Errorf(
					"the controller of %s is of an earlier ckpt: end it, and start it with this one", info.Dir)
			}
			return &s, nil
		}
	}
}

// silent turns a deadline into errSilent.
func silent(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return err
}
