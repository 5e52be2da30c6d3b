package mpi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"

	"ckpt/coordinator/protocol/channel"
)

const (
	helloMagic = "CKPTMPI\x01" // the last byte is the version
	nonceBytes = 32
	helloBytes = 8 + 4 + 4 + nonceBytes
	welcome    = 'W'
)

// proof is what shows that one end of a connection knows the token. Both ends chose a nonce, so
// it cannot be replayed; role, "dial" or "accept", keeps an end from being handed its own proof;
// the ranks keep a proof for one rank from being used with another.
func proof(token []byte, role string, hello, nonce []byte) []byte {
	h := hmac.New(sha256.New, token)
	io.WriteString(h, "ckpt/mpi "+role+"\x00") // a hash takes everything
	h.Write(hello)
	h.Write(nonce)
	return h.Sum(nil)
}

// greeting is what a dialler says first.
func greeting(magic string, from, to, length int) []byte {
	hello := make([]byte, length)
	copy(hello, magic)
	binary.LittleEndian.PutUint32(hello[8:], uint32(from))
	binary.LittleEndian.PutUint32(hello[12:], uint32(to))
	rand.Read(hello[16:helloBytes]) // never fails
	return hello
}

// prove proves to the other end of a connection that this one knows the token, and has it prove
// the same. It returns what the other end says beside its nonce.
func prove(conn net.Conn, token []byte, kind string, hello []byte, more int) ([]byte, error) {
	if _, err := conn.Write(hello); err != nil {
		return nil, err
	}
	answer := make([]byte, nonceBytes+more+sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	said, theirs := answer[:nonceBytes+more], answer[nonceBytes+more:]
	if !hmac.Equal(theirs, proof(token, "accept"+kind, hello, said)) {
		return nil, errRefused
	}
	_, err := conn.Write(proof(token, "dial"+kind, hello, said))
	return said[nonceBytes:], err
}

// demand is the other side of prove, behind the greeting.
func demand(conn net.Conn, token []byte, kind string, hello, more []byte) error {
	said := make([]byte, nonceBytes, nonceBytes+len(more)+sha256.Size)
	rand.Read(said)
	said = append(said, more...)
	if _, err := conn.Write(append(said, proof(token, "accept"+kind, hello, said)...)); err != nil {
		return err
	}
	var theirs [sha256.Size]byte
	if _, err := io.ReadFull(conn, theirs[:]); err != nil {
		return err
	}
	if !hmac.Equal(theirs[:], proof(token, "dial"+kind, hello, said)) {
		return errRefused
	}
	return nil
}

// DialHandshake proves to the other end that we are rank from of this job, and that it is rank
// to.
func DialHandshake(conn net.Conn, token []byte, from, to int) error {
	if _, err := prove(conn, token, "", greeting(helloMagic, from, to, helloBytes), 0); err != nil {
		return err
	}
	var last [1]byte
	if _, err := io.ReadFull(conn, last[:]); err != nil {
		return err
	}
	if last[0] != welcome {
		return fmt.Errorf("%w handshake", ErrCorrupt)
	}
	return nil
}

// AcceptHandshake is the other side. It returns the rank that dialled; allowed says whether that
// rank may.
func AcceptHandshake(conn net.Conn, token []byte, me int, allowed func(from int) error) (from int, err error) {
	var hello [helloBytes]byte
	if _, err := io.ReadFull(conn, hello[:]); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if string(hello[:8]) != helloMagic {
		return 0, errors.New("not a rank of this version")
	}
	if to := le.Uint32(hello[12:]); int64(to) != int64(me) {
		return 0, fmt.Errorf("meant for rank %d", to)
	}
	if err := demand(conn, token, "", hello[:], nil); err != nil {
		return 0, err
	}
	from = int(le.Uint32(hello[8:]))
	if err := allowed(from); err != nil {
		return 0, err
	}
	_, err = conn.Write([]byte{welcome})
	return from, err
}

// The handshake and the frames of connections between groups; see the package comment.

const (
	channelMagic = "CKPTMPI\x02" // the last byte is the version
	channelHello = helloBytes + 16
	verdictBytes = 16
	channelHead  = 36
	ackBytes     = 16

	replaced  = 'S'
	otherKind = 'K'

	channelMark = 'C'
	ackMark     = 'A'
)

// errReplaced is what a rank learns whose next incarnation has been met.
var errReplaced = errors.New("this process has been replaced by another incarnation of its rank")

// errOtherKind is about ranks that do not agree how messages are logged.
var errOtherKind = errors.New("the other rank logs messages in another way")

// errShort says that descriptors or memory were short for all the time that a connection may
// take.
var errShort = errors.New("descriptors or memory do not suffice for a connection")

type peerState struct{ incarnation, have uint64 }

// dial connects to a rank outside and proves who we are. The connection is tracked.
func (p *channelPort) dial(ctx context.Context, dst int, addr string) (net.Conn, peerState, error) {
	t := p.comm.tcp
	conn, err := p.comm.cfg.Dial(ctx, addr)
	if err != nil {
		if Shortage(err) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", errShort, err)
		}
		return nil, peerState{}, err
	}
	var met peerState
	err = context.Canceled // what it is if track fails
	if t.track(conn, time.Time{}) {
		cancelStop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
		met, err = p.introduce(conn, dst)
		if !cancelStop() && err == nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		t.drop(conn)
		return nil, peerState{}, fmt.Errorf("connection to %s: %w", addr, err)
	}
	return conn, met, nil
}

// introduce is the dialler's side of the handshake.
func (p *channelPort) introduce(conn net.Conn, dst int) (met peerState, err error) {
	cfg, le := &p.comm.cfg, binary.LittleEndian
	hello := greeting(channelMagic, cfg.Rank, dst, channelHello)
	le.PutUint64(hello[helloBytes:], p.cfg.Incarnation)
	hello[helloBytes+8] = byte(p.cfg.Kind)
	said, err := prove(conn, cfg.Token, " channel", hello, 8)
	if err != nil {
		return met, err
	}
	met.incarnation = le.Uint64(said)
	var verdict [verdictBytes]byte
	if _, err := io.ReadFull(conn, verdict[:]); err != nil {
		return met, err
	}
	switch number := le.Uint64(verdict[8:]); verdict[0] {
	case welcome:
		met.have = number
	case replaced:
		return met, fmt.Errorf("%w: rank %d has met incarnation %d of rank %d, which is %d", errReplaced, dst, number, cfg.Rank, p.cfg.Incarnation)
	case otherKind:
		return met, fmt.Errorf("%w: rank %d: %v, rank %d: %v", errOtherKind, cfg.Rank, p.cfg.Kind, dst, channel.Kind(number))
	default:
		return met, fmt.Errorf("%w handshake", ErrCorrupt)
	}
	return met, nil
}

// accept is the other side, from behind the magic. If the peer may send to us, its connection
// becomes l and replaces the one it had before.
func (p *channelPort) accept(conn net.Conn, l *inLink) (from int, err error) {
	cfg, le := &p.comm.cfg, binary.LittleEndian
	var hello [channelHello]byte
	copy(hello[:], channelMagic)
	if _, err := io.ReadFull(conn, hello[len(channelMagic):]); err != nil {
		return 0, err
	}
	if to := le.Uint32(hello[12:]); int64(to) != int64(cfg.Rank) {
		return 0, fmt.Errorf("meant for rank %d", to)
	}
	own := le.AppendUint64(nil, p.cfg.Incarnation)
	if err := demand(conn, cfg.Token, " channel", hello[:], own); err != nil {
		return 0, err
	}
	sender := le.Uint32(hello[8:])
	incarnation, kind := le.Uint64(hello[helloBytes:]), channel.Kind(hello[helloBytes+8])
	if int64(sender) >= int64(cfg.Size) || p.ep.Inside(int(sender)) {
		return 0, fmt.Errorf("rank %d is in no other group", sender)
	}
	from = int(sender)
	verdict, err := p.judge(from, incarnation, kind, l)
	if _, werr := conn.Write(verdict[:]); err == nil && werr != nil {
		p.mu.Lock()
		if p.in[from] == l {
			p.replace(from, nil)
		}
		p.mu.Unlock()
		err = werr
	}
	return from, err
}

func (p *channelPort) judge(from int, incarnation uint64, kind channel.Kind, l *inLink) (verdict [verdictBytes]byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	say := func(what byte, number uint64) {
		verdict[0] = what
		binary.LittleEndian.PutUint64(verdict[8:], number)
	}
	if kind != p.cfg.Kind {
		say(otherKind, uint64(p.cfg.Kind))
		return verdict, errOtherKind
	}
	if err := p.admit(from, incarnation); err != nil {
		say(replaced, p.ep.Incarnation(from))
		return verdict, err
	}
	p.replace(from, l)
	say(welcome, p.ep.Have(from))
	p.apply(p.ep.Connected(from))
	return verdict, nil
}

func encodeChannelHead(b *[channelHead]byte, m *channel.Message) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = channelMark, m.Context, 0, 0
	le.PutUint32(b[4:], uint32(m.Tag))
	le.PutUint64(b[8:], uint64(len(m.Data)))
	le.PutUint64(b[16:], m.Seq)
	le.PutUint64(b[24:], uint64(len(m.Depends)))
	le.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
}

// readChannelFrame reads one message, with data from pool, in a job of ranks.
func readChannelFrame(r io.Reader, pool *messagePool, ranks, maxMessage int) (m channel.Message, err error) {
	var b [channelHead]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return m, err
	}
	le := binary.LittleEndian
	length, depends := le.Uint64(b[8:]), le.Uint64(b[24:])
	m = channel.Message{Context: b[1], Tag: int32(le.Uint32(b[4:])), Seq: le.Uint64(b[16:])}
	if le.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) || b[0] != channelMark || b[2] != 0 || b[3] != 0 ||
		!validEnvelope(m) || m.Seq == 0 || length > uint64(maxMessage) || depends != 0 && depends != uint64(ranks) {
		return m, fmt.Errorf("%w frame header between groups", ErrCorrupt)
	}
	if depends != 0 {
		numbers := make([]byte, 8*depends)
		if _, err := io.ReadFull(r, numbers); err != nil {
			return m, noEOF(err)
		}
		m.Depends = channel.Numbers(numbers)
	}
	m.Data = pool.get(int(length)).data
	if _, err := io.ReadFull(r, m.Data); err != nil {
		return m, noEOF(err)
	}
	return m, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func encodeAck(b *[ackBytes]byte, seq uint64) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = ackMark, 0, 0, 0
	le.PutUint64(b[4:], seq)
	le.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
}

func readAck(r io.Reader) (uint64, error) {
	var b [ackBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(b[12:]) != crc32.Checksum(b[:12], castagnoli) || b[0] != ackMark || b[1] != 0 || b[2] != 0 || b[3] != 0 {
		return 0, fmt.Errorf("%w acknowledgement", ErrCorrupt)
	}
	return le.Uint64(b[4:]), nil
}

// A prefixed connection gives back what was read from it to see which handshake it is.
type prefixed struct {
	net.Conn
	head []byte
}

func (c *prefixed) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
