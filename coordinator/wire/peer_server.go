package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// ServedDirs is what a process serves the others.
type ServedDirs struct {
	FS  vfs.FS // of the machine: follow no links (vfs.Beneath)
	Dir string // of the node
	Job string // whose files are served, and no others
	// Whole serves all files of the directory; Job only has to be the same on both sides.
	Whole bool
	// Answer answers PeerClient.Ask, with a head or by filling into; may be nil. Its context ends
	// with the connection.
	Answer func(ctx context.Context, head, data, into []byte) ([]byte, error)
	// Contribute opens what takes the contribution of a name that both sides know; may be nil. It
	// is aborted if its connection ends before it does.
	Contribute func(ctx context.Context, name string) (nodes.Contributor, error)
}

// A Server serves the files and the parity of a node.
type DirServer struct {
	*Port
	served ServedDirs
	cancel context.CancelFunc
}

// ServeDirs serves until it is closed.
func ServeDirs(self Self, served ServedDirs) (*DirServer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &DirServer{served: served, cancel: cancel}
	var err error
	s.Port, err = self.Listen(func(conn net.Conn, _ int) { s.serve(ctx, conn) })
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

func (s *DirServer) Close() {
	s.cancel()
	s.Port.Close()
}

// path returns the file of a name that a client says.
func (s *DirServer) path(op byte, name string) (string, error) {
	job := path.Join("jobs", s.served.Job)
	_, below := strings.CutPrefix(name, job+"/")
	allowed := false
	switch {
	case !filepath.IsLocal(name) || path.Clean(name) != name:
	case name == job || below || s.served.Whole:
		allowed = true
	case name == "format" || name == "format.tmp": // of the store that the directory is
		allowed = true
	case name == "." || name == "jobs":
		allowed = op == opStat || op == opReadDir || op == opMkdir || op == opSyncDir || op == opFree
	}
	if !allowed {
		return "", &fs.PathError{Op: "serve", Path: name, Err: fs.ErrPermission}
	}
	return filepath.Join(s.served.Dir, name), nil
}

// A session is the server's side of a connection.
type session struct {
	*DirServer
	ctx   context.Context
	conn  net.Conn
	slots chan struct{} // of requests that are read or answered
	busy  atomic.Int32  // requests that are being answered
	tasks sync.WaitGroup

	writing sync.Mutex

	mu   sync.Mutex
	open map[uint32]io.Closer
	last uint32
}

// buffers hold the data of requests, maxData each, and units the data of contributions, which are
// most of the requests and would take four times the memory.
var (
	buffers = sync.Pool{New: func() any { b := vfs.Aligned(maxData); return &b }}
	units   = sync.Pool{New: func() any { b := vfs.Aligned(nodes.UnitBytes); return &b }}
)

func poolOf(n int) *sync.Pool {
	if n <= nodes.UnitBytes {
		return &units
	}
	return &buffers
}

func (s *DirServer) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	n := &session{DirServer: s, ctx: ctx, conn: conn, slots: make(chan struct{}, inFlight), open: make(map[uint32]io.Closer)}
	defer func() {
		conn.Close()
		cancel()
		n.tasks.Wait()
		for _, c := range n.open {
			c.Close()
		}
	}()
	r := bufio.NewReaderSize(conn, 64<<10)
	period, err := n.hello(r)
	if err != nil {
		return
	}
	n.tasks.Go(func() { n.beat(period) })
	for n.next(r) == nil {
	}
}

// hello answers the first request: whether this is the job, and how often the client wants a sign
// of life.
func (n *session) hello(r io.Reader) (period time.Duration, err error) {
	var q request
	if err := q.read(r, func(n int) []byte { return make([]byte, n) }); err != nil {
		return 0, err
	}
	silence := time.Duration(q.off) * time.Millisecond
	switch {
	case q.op != opHello || silence <= 0:
		err = fmt.Errorf("no greeting")
	case q.name != n.served.Job:
		err = fmt.Errorf("job %s is served here, not %s", n.served.Job, q.name)
	}
	return max(silence/4, time.Millisecond), errors.Join(err, n.reply(&q, 0, nil, err))
}

// beat gives signs of life while requests are being answered, however long that takes.
func (n *session) beat(period time.Duration) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if n.busy.Load() > 0 && n.send(&answer{}) != nil {
				return
			}
		case <-n.ctx.Done():
			return
		}
	}
}

func (n *session) next(r io.Reader) error {
	n.slots <- struct{}{} // frames of the client wait in the connection until there is one
	q := new(request)
	var data *[]byte
	var pool *sync.Pool
	take := func(n int) []byte {
		pool = poolOf(n)
		data = pool.Get().(*[]byte)
		return (*data)[:n]
	}
	release := func() {
		if data != nil {
			pool.Put(data)
		}
		<-n.slots
	}
	if err := q.read(r, take); err != nil {
		release()
		return err
	}
	n.busy.Add(1)
	n.tasks.Go(func() {
		defer release()
		defer n.busy.Add(-1)
		if n.answer(q) != nil {
			n.conn.Close()
		}
	})
	return nil
}

func (n *session) send(a *answer) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	return a.writeTo(n.conn)
}
