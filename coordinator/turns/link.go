package turns

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// maxQueue bounds the bytes that wait for a peer that does not read.
const maxQueue = 64 << 10

// A link carries messages over a connection. Sending never blocks: a goroutine writes,
// and a peer that lets too much pile up loses the connection.
type link struct {
	conn net.Conn
	r    *bufio.Reader

	mu     sync.Mutex
	more   sync.Cond
	queue  []byte
	sends  bool // the writer has bytes that the peer has not taken
	last   bool // close when the queue is empty
	closed bool
	done   sync.WaitGroup
}

func newLink(conn net.Conn) *link {
	l := &link{conn: conn, r: bufio.NewReaderSize(conn, maxRequest)}
	l.more.L = &l.mu
	l.done.Go(l.write)
	return l
}

// send queues a message. The reader notices if the connection ends.
func (l *link) send(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.last {
		return
	}
	if len(l.queue) > maxQueue {
		l.close()
		return
	}
	l.queue = appendFrame(l.queue, m)
	l.more.Signal()
}

// blocked reports whether the peer has not taken what was sent before.
func (l *link) blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sends || len(l.queue) > 0
}

// write sends what is queued until the link is closed.
func (l *link) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.queue) == 0 && !l.closed && !l.last {
			l.more.Wait()
		}
		if l.closed || len(l.queue) == 0 {
			l.close()
			return
		}
		out := l.queue
		l.queue, l.sends = nil, true
		l.mu.Unlock()
		_, err := l.conn.Write(out)
		l.mu.Lock()
		l.sends = false
		if err != nil {
			l.close()
		}
	}
}

// partingTime is how long a peer may take to read what is queued at the end.
const partingTime = time.Second

// finish closes the link after what is queued.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = true
	_ = l.conn.SetWriteDeadline(time.Now().Add(partingTime))
	l.more.Signal()
}

// drop ends the connection, which its reader notices.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

// close ends the connection. The caller holds mu.
func (l *link) close() {
	l.closed, l.queue = true, nil
	l.conn.Close()
	l.more.Signal()
}

// end ends the connection, and returns when the writer has ended.
func (l *link) end() {
	l.drop()
	l.done.Wait()
}
