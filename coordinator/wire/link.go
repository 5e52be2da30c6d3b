package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/image/container"
	"ckpt/image/filecache"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A Link carries messages over a connection. Sending never blocks: a peer that does not read,
// such as a stopped process, must not hold up the others. A goroutine sends what the kernel does
// not take at once, and then ends: with thousands of ranks, a goroutine for each would cost more
// than the messages.
type Link struct {
	// Limit, if set, is how many bytes may wait for a peer that does not read: then the
	// connection ends.
	Limit int

	conn net.Conn
	raw  syscall.RawConn // nil without a descriptor, and if bytes must be encrypted first
	r    *bufio.Reader

	mu      sync.Mutex
	queue   []byte // frames the kernel has not taken yet
	err     error  // of an earlier write or of encoding
	closing bool
	writer  sync.WaitGroup
}

func NewLink(conn net.Conn, r *bufio.Reader) (*Link, error) {
	l := &Link{conn: conn, r: r}
	_, encrypts := conn.(*SecureConn)
	var err error
	if sc, ok := conn.(syscall.Conn); ok && !encrypts {
		l.raw, err = sc.SyscallConn()
	}
	return l, err
}

// Send sends a message. An error of the connection shows on the reading side.
func (l *Link) Send(m protocol.Message) {
	frame, err := protocol.AppendFrame(nil, m)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail(err)
		return
	}
	l.SendFrame(frame)
}

// SendFrame sends an encoded message; it does not keep frame.
func (l *Link) SendFrame(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil || l.closing:
		return
	case l.Limit > 0 && len(l.queue) > l.Limit:
		l.fail(errors.New("the peer does not read"))
		return
	case len(l.queue) > 0: // its writer takes this along
		l.queue = append(l.queue, frame...)
		return
	}
	rest, err := l.try(frame)
	if err != nil {
		l.fail(err)
		return
	}
	if len(rest) > 0 {
		l.queue = append(l.queue, rest...)
		l.writer.Go(l.drainQueue)
	}
}

// try writes what the kernel takes without waiting and returns the rest.
func (l *Link) try(b []byte) (rest []byte, err error) {
	if l.raw == nil {
		return b, nil // part of an encrypted record is of no use
	}
	werr := l.raw.Write(func(fd uintptr) bool {
		var n int
		n, err = syscall.Write(int(fd), b)
		b = b[max(0, n):]
		return true // whatever happened: do not wait
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return b, errors.Join(err, werr)
}

// drainQueue writes until the queue is empty, waiting for the peer.
func (l *Link) drainQueue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && l.err == nil {
		out := l.queue
		l.mu.Unlock()
		n, err := l.conn.Write(out)
		l.mu.Lock()
		l.queue = l.queue[min(n, len(l.queue)):] // it is empty after fail
		if err != nil {
			l.fail(err)
		}
	}
	l.queue = nil
}

// fail ends the connection, which wakes its reader. The caller holds mu.
func (l *Link) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.queue = nil
	l.conn.Close()
}

// Receive reads the next message; io.EOF when the peer has gone.
func (l *Link) Receive() (protocol.Message, error) {
	m, err := protocol.ReadFrame(l.r)
	if err == nil {
		return m, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return m, l.err
	}
	if errors.Is(err, net.ErrClosed) {
		return m, io.EOF
	}
	return m, err
}

// HangUp tells a rank on another host that the connection ends, without waiting for what is
// queued. The rank then exits; until it has, its messages can be received.
func (l *Link) HangUp() {
	if c, ok := l.conn.(*SecureConn); ok {
		c.HangUp()
	}
}

// SetPatience ends a connection to another host that has acknowledged nothing for so long.
func (l *Link) SetPatience(d time.Duration) error {
	if c, ok := l.conn.(*SecureConn); ok {
		return c.SetPatience(d)
	}
	return nil
}

func (l *Link) Blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// Drop ends the connection at once.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(net.ErrClosed)
}

// Close gives queued messages a moment to leave, then ends the connection.
func (l *Link) Close() {
	l.mu.Lock()
	l.closing = true
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.mu.Unlock()
	l.writer.Wait()
	l.conn.Close()
}

// errorReport carries an error with what callers tell apart.
type errorReport struct {
	Text   string `json:"text"`
	Kind   string `json:"kind"`
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Reason string `json:"reason,omitempty"`
	// OnNodes belongs to what is missing.
	OnNodes bool `json:"on_nodes,omitempty"`
	// Errno is what the kernel said, Cases are the names of common cases that the error is.
	Errno int      `json:"errno,omitempty"`
	Cases []string `json:"cases,omitempty"`
}

// cases are errors that callers compare with, beside the kinds. Errors of a context are left out:
// the other side's would pass for one of this side.
var cases = []struct {
	name string
	err  error
}{
	{"exists", fs.ErrExist},
	{"missing", fs.ErrNotExist},
	{"permission", fs.ErrPermission},
	{"closed", fs.ErrClosed},
	{"locked", vfs.ErrLocked},
	{"unsupported", errors.ErrUnsupported},
	{"newer", durable.ErrNewerVersion},
	{"abandoned", filecache.ErrAbandoned},
	{"unfinished", filecache.ErrUnfinished},
	{"spans nodes", filecache.ErrSpans},
	{"closed file", filecache.ErrClosed},
}

const (
	kindDamage  = "damage"
	kindFull    = "full"
	kindForeign = "foreign" // of another job
	kindRegions = "regions" // the process has others than the checkpoint
	kindMissing = "missing" // from the recovery line; the reason says what, and the text why
	kindOther   = "other"
)

func ReportError(err error) errorReport {
	r := errorReport{Text: err.Error(), Kind: kindOther}
	var damage *durable.DamageError
	var missing *job.MissingError
	switch {
	case errors.As(err, &damage):
		r.Kind, r.File, r.Offset, r.Reason = kindDamage, damage.File, damage.Offset, damage.Reason
	case errors.Is(err, durable.ErrOtherJob):
		r.Kind = kindForeign
	case errors.Is(err, durable.ErrStorageFull):
		r.Kind = kindFull
	case errors.Is(err, container.ErrRegionsDiffer):
		r.Kind = kindRegions
	case errors.As(err, &missing) && missing.Cause != nil:
		r.Kind, r.Reason, r.Text, r.OnNodes = kindMissing, missing.What, missing.Cause.Error(), missing.OnNodes
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	for _, c := range cases {
		if errors.Is(err, c.err) {
			r.Cases = append(r.Cases, c.name)
		}
	}
	return r
}

// error returns an error with the same text that answers to the same cases.
func (r errorReport) error() error {
	is := r.is()
	switch r.Kind {
	case kindDamage:
		damage := &durable.DamageError{File: r.File, Offset: r.Offset, Reason: r.Reason}
		if len(is) > 0 {
			damage.Err = errors.Join(is...)
		}
		return damage
	case kindForeign:
		is = append(is, durable.ErrOtherJob)
	case kindFull:
		is = append(is, durable.ErrStorageFull)
	case kindRegions:
		is = append(is, container.ErrRegionsDiffer)
	case kindMissing:
		return &job.MissingError{What: r.Reason, Cause: errors.New(r.Text), OnNodes: r.OnNodes}
	}
	if len(is) == 0 {
		return errors.New(r.Text)
	}
	return &remoteError{r.Text, is}
}

func (r errorReport) is() (is []error) {
	if r.Errno != 0 {
		is = append(is, syscall.Errno(r.Errno))
	}
	for _, c := range cases {
		if slices.Contains(r.Cases, c.name) {
			is = append(is, c.err)
		}
	}
	return is
}

type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

// DecodeError decodes the error in a body; text stands in for a missing one.
func DecodeError(body []byte, text string) error {
	var r errorReport
	if err := json.Unmarshal(body, &r); err != nil || r.Text == "" {
		return errors.New(text)
	}
	return r.error()
}

// EncodeError is the inverse of DecodeError.
func EncodeError(err error) []byte { return job.Encode(ReportError(err)) }
