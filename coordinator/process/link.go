package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrEnded is the error of everything that needs the process after its link has ended.
var ErrEnded = errors.New("the link to the process has ended")

// A link is the socket to the client. One goroutine receives; any may send.
type link struct {
	conn *net.UnixConn
	buf  []byte
	oob  []byte

	mu sync.Mutex // messages go out one after the other
}

func newLink(fd int) (*link, error) {
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "link")
	if file == nil {
		return nil, fmt.Errorf("descriptor %d is not valid", fd)
	}
	defer file.Close() // FileConn makes a copy
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %d is not a Unix socket", fd)
	}
	return &link{conn: conn, buf: make([]byte, maxMessage+1), oob: make([]byte, unix.CmsgSpace(4*8))}, nil
}

func (l *link) close() error { return l.conn.Close() }

// peer returns the process that made the socket pair, by the kernel's word, not the client's.
func (l *link) peer() (pid int, err error) {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(cred.Pid), nil
}

func (l *link) send(m message, file *os.File) error {
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _, err := l.conn.WriteMsgUnix(m.encode(), oob, nil)
	if err != nil {
		return fmt.Errorf("send to the process: %w", errors.Join(ErrEnded, err))
	}
	return nil
}

// receive returns the next message and its descriptors. The payload is valid until the next
// receive. The end of the link is io.EOF.
func (l *link) receive() (m message, files []*os.File, err error) {
	n, oobn, flags, _, err := l.conn.ReadMsgUnix(l.buf, l.oob)
	files = received(l.oob[:oobn])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("message is too long")
	}
	if err == nil {
		m, err = decode(l.buf[:n])
	}
	if err != nil {
		closeAll(files)
		return message{}, nil, err
	}
	return m, files, nil
}

func received(oob []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Version is the version of the link, which a client sends in its first message. A client of
// OldestVersion tells of no arrays of all ranks, and is served like any other.
const (
	Version       = 4
	OldestVersion = 1
	forkVersion   = 4 // of the first client, in C, that can fork
)

// Messages from the client.
const (
	kindHello    = 1
	kindProtect  = 2
	kindForget   = 3
	kindCopied   = 9
	kindTracked  = 10
	kindForked   = 11
	saveBit      = 1 // in the value of a Boundary
	listValue    = 1 // of a Query by number
	maxMessage   = 64 << 10
	headerLength = 32
	rangeLength  = 24
)

// Messages to the client.
const (
	kindWelcome = 100
	kindGo      = 101
	kindMap     = 102
	kindUnmap   = 103
	kindOut     = 104
	kindIn      = 105
	kindTrack   = 106
	kindTracer  = 107
	kindFork    = 108
)

// A message is one datagram of the link: a header of 32 bytes and a payload.
type message struct {
	kind    uint32
	value   uint32
	a, b, c int64
	payload []byte
}

func (m *message) encode() []byte {
	b := make([]byte, headerLength, headerLength+len(m.payload))
	binary.LittleEndian.PutUint32(b, m.kind)
	binary.LittleEndian.PutUint32(b[4:], m.value)
	binary.LittleEndian.PutUint64(b[8:], uint64(m.a))
	binary.LittleEndian.PutUint64(b[16:], uint64(m.b))
	binary.LittleEndian.PutUint64(b[24:], uint64(m.c))
	return append(b, m.payload...)
}

func decode(b []byte) (message, error) {
	if len(b) < headerLength {
		return message{}, fmt.Errorf("message of %d bytes has no header", len(b))
	}
	if len(b) > maxMessage {
		return message{}, errors.New("message is longer than 64 KiB")
	}
	return message{
		kind: binary.LittleEndian.Uint32(b), value: binary.LittleEndian.Uint32(b[4:]),
		a: int64(binary.LittleEndian.Uint64(b[8:])), b: int64(binary.LittleEndian.Uint64(b[16:])),
		c: int64(binary.LittleEndian.Uint64(b[24:])), payload: b[headerLength:],
	}, nil
}

// A copyRange says that bytes at address lie at offset of a window.
type copyRange struct {
	address, offset, bytes uint64
}

const maxRanges = (maxMessage - headerLength) / rangeLength

// A forkPiece is a range of a region that a child copies to a window.
type forkPiece struct {
	copyRange
	window uint32
}

const maxPieces = (maxMessage - headerLength) / (rangeLength + 8)

func encodePieces(pieces []forkPiece) []byte {
	b := make([]byte, 0, len(pieces)*(rangeLength+8))
	for _, p := range pieces {
		b = append(b, encodeRanges([]copyRange{p.copyRange})...)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.window))
	}
	return b
}

func encodeRanges(ranges []copyRange) []byte {
	b := make([]byte, 0, len(ranges)*rangeLength)
	for _, r := range ranges {
		b = binary.LittleEndian.AppendUint64(b, r.address)
		b = binary.LittleEndian.AppendUint64(b, r.offset)
		b = binary.LittleEndian.AppendUint64(b, r.bytes)
	}
	return b
}
