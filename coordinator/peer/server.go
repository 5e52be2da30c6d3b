// Package peer is what the processes of a run serve each other directly, past the coordinator:
// the files of a node's directory of the tier, and the parity that a node holds for others.
//
//	s, err := peer.Serve(self, peer.Served{FS: fsys, Dir: "/nvme/0", Job: "a"})
//	…
//	c := peer.NewClient(self, peer.Peer{Rank: 0, Host: "h0", Address: s.Address(), Dir: "/nvme/0", Job: "a"})
//	f, err := c.FS(ctx).Create("/nvme/0/jobs/a/0001/rank-3.img")
//
// A connection begins with the handshake of package mpi, on several hosts within TLS. Then it
// carries requests, several at a time, and answers in any order (see frame.go).
//
// # Promises
//
//   - A process that does not know the token of the run is served nothing.
//   - No name leads out of the directory of the job.
//   - Errors of the other side are what they were there: errors.Is and errors.As agree.
//   - A request ends when the peer dies, when it gives no sign of life for the silence limit,
//     or when its context does.
//   - A connection takes at most 16 MiB on either side.
package peer

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

// Served is what a process serves the others.
type Served struct {
	FS  vfs.FS // of the machine: follow no links (vfs.Beneath)
	Dir string // of the node
	Job string // whose files are served, and no others
	// Contribute opens what takes the contribution of a name that both sides know; may be nil. It
	// is aborted if its connection ends before it does.
	Contribute func(ctx context.Context, name string) (nodes.Contributor, error)
}

// A Server serves the files and the parity of a node.
type Server struct {
	*Port
	served Served
	cancel context.CancelFunc
}

// Serve serves until it is closed.
func Serve(self Self, served Served) (*Server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{served: served, cancel: cancel}
	var err error
	s.Port, err = self.Listen(func(conn net.Conn, _ int) { s.serve(ctx, conn) })
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

func (s *Server) Close() {
	s.cancel()
	s.Port.Close()
}

// path returns the file of a name that a client says.
func (s *Server) path(op byte, name string) (string, error) {
	job := path.Join("jobs", s.served.Job)
	_, below := strings.CutPrefix(name, job+"/")
	allowed := false
	switch {
	case !filepath.IsLocal(name) || path.Clean(name) != name:
	case name == job || below:
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
	*Server
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

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	n := &session{Server: s, ctx: ctx, conn: conn, slots: make(chan struct{}, inFlight), open: make(map[uint32]io.Closer)}
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
