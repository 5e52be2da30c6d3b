package mpi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/coordinator/protocol/channel"
)

// A duo is two ranks in two groups.
type duo struct {
	t     *testing.T
	addrs []string
	logs  []*memLog
	comms []*Comm
}

func newDuo(t *testing.T, kind channel.Kind, config func(*Config)) *duo {
	d := &duo{t: t, addrs: make([]string, 2), comms: make([]*Comm, 2)}
	for range 2 {
		d.logs = append(d.logs, &memLog{rng: rand.New(rand.NewPCG(1, 1)), first: 1})
	}
	for r := range 2 {
		d.join(r, 0, kind, config)
	}
	if err := d.comms[0].PeerMoved(1, d.addrs[1], 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range d.comms {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return d
}

func (d *duo) join(r int, incarnation uint64, kind channel.Kind, config func(*Config)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.addrs[r] = l.Addr().String()
	cfg := Config{Rank: r, Size: 2, NodeOf: []int{0, 0}, Listener: l, Peers: d.addrs, Token: []byte("token"),
		Channels: &Channels{Kind: kind, Log: d.logs[r], Incarnation: incarnation}}
	if config != nil {
		config(&cfg)
	}
	if d.comms[r], err = Join(cfg); err != nil {
		d.t.Fatal(err)
	}
}

func (d *duo) exchange() {
	d.t.Helper()
	for r, c := range d.comms {
		if err := c.Send(1-r, 0, []byte("hello")); err != nil {
			d.t.Fatal(err)
		}
	}
	for r, c := range d.comms {
		if _, err := c.Recv(1-r, 0, make([]byte, 5)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// lostOnce collects what Lost is told.
func lostOnce(lost chan error) func(*Config) {
	return func(c *Config) {
		if c.Rank == 0 {
			c.Lost = func(_ int, err error) {
				select {
				case lost <- err:
				default:
				}
			}
		}
	}
}

func TestChannelWantsTheToken(t *testing.T) {
	lost := make(chan error, 1)
	d := newDuo(t, channel.None, func(c *Config) {
		lostOnce(lost)(c)
		if c.Rank == 1 {
			c.Token = []byte("another")
		}
	})
	if err := d.comms[0].Send(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !errors.Is(err, errRefused) {
		t.Errorf("error %v", err)
	}
}

func TestChannelsOfAnotherKind(t *testing.T) {
	d := newDuo(t, channel.None, func(c *Config) {
		if c.Rank == 1 {
			c.Channels.Kind = channel.Sender
		}
	})
	if err := d.comms[0].Send(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.comms[0].Recv(1, 0, nil); !errors.Is(err, errOtherKind) || !strings.Contains(err.Error(), "pessimistic-sender") {
		t.Errorf("error %v", err)
	}
}

// A process that has been replaced learns it from whoever has met its successor.
func TestReplacedProcessEnds(t *testing.T) {
	d := newDuo(t, channel.None, nil)
	d.exchange()
	if err := flush(context.Background(), d.comms[1]); err != nil {
		t.Fatal(err)
	}
	zombie := d.comms[0]
	d.join(0, 1, channel.None, nil)
	if err := d.comms[1].PeerMoved(0, d.addrs[0], 1); err != nil {
		t.Fatal(err)
	}
	// News of the old one is no news.
	if err := d.comms[1].PeerMoved(0, "127.0.0.1:1", 0); err != nil {
		t.Fatal(err)
	}
	if err := zombie.Send(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := zombie.Recv(1, 0, nil); !errors.Is(err, errReplaced) {
		t.Errorf("error %v", err)
	}
	if err := zombie.Close(); err != nil {
		t.Error(err)
	}
	// Without its state the next incarnation begins at message 1, which rank 1
	// has. Rank 1 continues its numbers, and message 1 is gone.
	if err := d.comms[1].Send(0, 0, nil); err != nil {
		t.Fatal(err)
	}
	var lost *channel.LostError
	if _, err := d.comms[1].Recv(0, 0, nil); !errors.As(err, &lost) || lost.Peer != 0 || lost.Have != 0 || lost.First != 2 {
		t.Errorf("error %v", err)
	}
}

// After a second failure in the middle of a recovery, a survivor is told once more
// that a rank moved whose new address it knows already.
func TestPeerMovedTwice(t *testing.T) {
	d := newDuo(t, channel.None, nil)
	if err := d.comms[1].Close(); err != nil {
		t.Fatal(err)
	}
	d.join(1, 1, channel.None, nil)
	c := d.comms[0]
	if err := c.PeerMoved(1, d.addrs[1], 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.PeerMoved(1, "", 1), c.Unfence(), c.Send(1, 0, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.comms[1].Recv(0, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// A rank that is known to have moved is not waited for where it was.
func TestPeerMovedEndsASilentHandshake(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d := newDuo(t, channel.Sender, func(c *Config) { c.HandshakeTimeout = time.Hour })
	if err := d.comms[0].PeerMoved(1, silent.Addr().String(), 0); err != nil {
		t.Fatal(err)
	}
	if err := d.comms[0].Send(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := d.comms[0].PeerMoved(1, d.addrs[1], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.comms[1].Recv(0, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestStrangersToChannels(t *testing.T) {
	d := newDuo(t, channel.None, nil)
	try := func(name string, f func(conn net.Conn) error) {
		t.Helper()
		conn, err := net.Dial("tcp", d.addrs[1])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := f(conn); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	closed := func(conn net.Conn, hello []byte) error {
		if _, err := conn.Write(hello); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1024))
		return err
	}
	try("nobody", func(conn net.Conn) error { return closed(conn, []byte("GET / HTTP/1.1\r\n"+strings.Repeat("x", 100))) })
	try("for another rank", func(conn net.Conn) error {
		return closed(conn, append([]byte(channelMagic), bytes.Repeat([]byte{9}, channelHello-8)...))
	})
	try("as a member of the group", func(conn net.Conn) error { return DialHandshake(conn, []byte("token"), 0, 1) })
	try("wrong proof", func(conn net.Conn) error {
		hello := append([]byte(channelMagic), make([]byte, channelHello-8)...)
		hello[12] = 1
		if _, err := conn.Write(hello); err != nil {
			return err
		}
		answer := make([]byte, nonceBytes+8+sha256.Size)
		if _, err := io.ReadFull(conn, answer); err != nil {
			return err
		}
		return closed(conn, answer[nonceBytes+8:]) // its own proof sent back
	})
	d.exchange()
}

func TestChannelFrameDamage(t *testing.T) {
	var pool messagePool
	m := channel.Message{Context: 1, Tag: 3, Seq: 7, Depends: []uint64{4, 5}, Data: []byte("data")}
	var head [channelHead]byte
	encodeChannelHead(&head, &m)
	good := append(channel.AppendNumbers(head[:], m.Depends), m.Data...)
	got, err := readChannelFrame(bytes.NewReader(good), &pool, 2, 100)
	if err != nil || got.Context != 1 || got.Tag != 3 || got.Seq != 7 || got.Depends[1] != 5 || string(got.Data) != "data" {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range channelHead {
		b := bytes.Clone(good)
		b[i] ^= 1
		if _, err := readChannelFrame(bytes.NewReader(b), &pool, 2, 100); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for i := 1; i < len(good); i++ {
		if _, err := readChannelFrame(bytes.NewReader(good[:i]), &pool, 2, 100); err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	for name, err := range map[string]error{
		"too long":          second(readChannelFrame(bytes.NewReader(good), &pool, 2, 3)),
		"of another size":   second(readChannelFrame(bytes.NewReader(good), &pool, 3, 100)),
		"an acknowledgment": second(readAck(bytes.NewReader(good))),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var ack [ackBytes]byte
	encodeAck(&ack, 9)
	if seq, err := readAck(bytes.NewReader(ack[:])); seq != 9 || err != nil {
		t.Errorf("%d, %v", seq, err)
	}
}

// A fullLog is one on a disk that stays full.
type fullLog struct{ *memLog }

func (l fullLog) Append(channel.Frame) (uint64, error) { return 0, errDiskFull }
func (l fullLog) Reopen() error                        { return errDiskFull }

// A rank whose log cannot catch up says what it depends on all the same.
func TestFenceOnFullDisk(t *testing.T) {
	d := newDuo(t, channel.Optimistic, func(c *Config) {
		if c.Rank == 1 {
			c.Channels.Log = fullLog{c.Channels.Log.(*memLog)}
		}
	})
	d.exchange()
	c := d.comms[1]
	if v, err := c.Fence(t.Context()); err != nil || v.Received[0] != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	c.Abort(errDead)
	if _, err := c.Fence(t.Context()); !errors.Is(err, errDead) {
		t.Error(err)
	}
}

// Empty messages take memory as well.
func TestSendWaitsForAcknowledgementsOfNothing(t *testing.T) {
	const most = 1000
	d := newDuo(t, channel.Receiver, func(c *Config) { c.Channels.MaxUnacked = most * channel.Overhead })
	d.exchange()
	if err := flush(context.Background(), d.comms[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := d.comms[1].Fence(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range most {
		if err := d.comms[0].Send(1, 1, nil); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- d.comms[0].Send(1, 1, nil) }()
	d.comms[0].comesToRest()
	d.comms[0].Abort(errDead)
	if err := <-failed; !errors.Is(err, errDead) {
		t.Errorf("one message more: %v", err)
	}
}

// A sender waits for a rank that takes nothing, at last, but not for ever.
func TestSendWaitsForAcknowledgements(t *testing.T) {
	var lost atomic.Int64
	d := newDuo(t, channel.Receiver, func(c *Config) {
		c.Channels.MaxUnacked = 10_000
		c.Lost = func(int, error) { lost.Add(1) }
	})
	d.exchange()
	if err := flush(context.Background(), d.comms[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := d.comms[1].Fence(context.Background()); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error)
	go func() {
		for range 5 {
			sent <- d.comms[0].Send(1, 1, make([]byte, 4000))
		}
		close(sent)
	}()
	for range 3 { // the third one is begun below the limit
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	c := d.comms[0].chans
	c.mu.Lock()
	if _, _, unacked := c.ep.Kept(1); unacked != 12_000+3*channel.Overhead {
		t.Errorf("%d bytes are not acknowledged", unacked)
	}
	c.mu.Unlock()
	select {
	case <-sent:
		t.Error("a fourth one was sent")
	default:
	}
	if err := d.comms[1].Unfence(); err != nil {
		t.Fatal(err)
	}
	for err := range sent {
		if err != nil {
			t.Error(err)
		}
	}
	for range 5 {
		if _, err := d.comms[1].Recv(0, 1, make([]byte, 4000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := flush(context.Background(), d.comms[0]); err != nil {
		t.Error(err)
	}
	if messages, _ := kept(d.comms[0]); messages != 0 {
		t.Errorf("%d messages are kept", messages)
	}
	bytes := 0
	for _, f := range d.logs[1].frames {
		bytes += len(f.Message.Data)
	}
	if n := len(d.logs[1].frames); n != 6 || bytes != 20_005 {
		t.Errorf("%d frames of %d bytes are logged", n, bytes)
	}
	if n := lost.Load(); n != 0 { // so that nothing was sent again
		t.Errorf("%d connections were lost", n)
	}
}

// While the log has failed nothing is delivered that it ought to hold; it is
// reported, and everything goes on when it is in order again.
func TestFailingLogLosesNothing(t *testing.T) {
	failed := make(chan error, 100)
	d := newDuo(t, channel.Receiver, func(c *Config) {
		if c.Rank == 1 {
			c.Channels.LogFailed = func(err error) { failed <- err }
		}
	})
	l := d.logs[1]
	l.mu.Lock()
	l.broken = true
	l.mu.Unlock()
	if err := d.comms[0].Send(1, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, errDiskFull) {
		t.Errorf("error %v", err)
	}
	if _, err := d.comms[1].Recv(0, 0, make([]byte, 1)); err != nil { // Reopen succeeds at last
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Errorf("error %v", err)
	}
	if len(failed) != 0 {
		t.Errorf("it failed again: %v", <-failed)
	}
}

// onlyLog is a log that cannot be reopened.
type onlyLog struct{ Log }

func TestLogFailsForGood(t *testing.T) {
	failed := make(chan error, 1)
	d := newDuo(t, channel.Optimistic, func(c *Config) {
		if c.Rank == 1 {
			c.Channels.Log = onlyLog{c.Channels.Log}
			c.Channels.LogFailed = func(err error) { failed <- err }
		}
	})
	d.exchange()
	if _, err := d.comms[1].Snapshot(context.Background()); err != nil {
		t.Fatal(err)
	}
	l := d.logs[1]
	l.mu.Lock()
	l.broken = true
	l.mu.Unlock()
	if err := d.comms[0].Send(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.comms[1].Recv(0, 0, nil); err != nil { // it is optimistic
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, errDiskFull) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errDead)
	if _, err := d.comms[1].Snapshot(ctx); !errors.Is(err, errDead) || !errors.Is(err, errDiskFull) {
		t.Errorf("error %v", err)
	}
	if err := flush(ctx, d.comms[0]); !errors.Is(err, errDead) { // it is not acknowledged
		t.Errorf("error %v", err)
	}
}

// All waits end with the Comm.
func TestAbortWakesChannels(t *testing.T) {
	waits := map[string]func(c *Comm) error{
		"send":        func(c *Comm) error { return sendForEver(c, 1, 1000) },
		"receive":     func(c *Comm) error { _, err := c.Recv(1, 0, nil); return err },
		"receive any": func(c *Comm) error { _, err := c.Recv(AnySource, 0, nil); return err },
		"flush":       func(c *Comm) error { return flush(context.Background(), c) },
		"snapshot":    func(c *Comm) error { _, err := c.Snapshot(context.Background()); return err },
		"match":       func(c *Comm) error { _, err := c.Recv(AnySource, 5, nil); return err },
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			kind := channel.Receiver
			if name == "snapshot" {
				kind = channel.Optimistic
			}
			failed := make(chan error, 10)
			d := newDuo(t, kind, func(c *Config) {
				c.Peers = []string{"", ""} // nobody knows where the other is
				c.Channels.MaxUnacked = 10_000
				if c.Rank == 0 {
					c.Channels.Log = onlyLog{c.Channels.Log}
					c.Channels.LogFailed = func(err error) { failed <- err }
				}
			})
			c := d.comms[0]
			if name == "match" || name == "snapshot" {
				d.logs[0].broken = true
				if err := errors.Join(c.Send(0, 5, nil), c.Send(0, 6, nil)); err != nil {
					t.Fatal(err)
				}
			}
			if name == "snapshot" {
				if _, err := c.Recv(AnySource, 6, nil); err != nil {
					t.Fatal(err)
				}
				<-failed
			}
			if err := c.PeerMoved(1, "", 1); err != nil {
				t.Fatal(err)
			}
			if err := c.Send(1, 0, nil); err != nil {
				t.Fatal(err)
			}
			result := make(chan error)
			go func() { result <- wait(c) }()
			if name == "match" {
				<-failed // it waits for its determinant
			}
			c.comesToRest()
			c.Abort(errDead)
			if err := <-result; !errors.Is(err, errDead) {
				t.Errorf("error %v", err)
			}
			if err := wait(c); !errors.Is(err, errDead) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestBadChannels(t *testing.T) {
	d := newDuo(t, channel.None, nil)
	if err := d.comms[0].PeerMoved(0, "", 0); err == nil {
		t.Error("the own rank can move")
	}
	if err := d.comms[0].Collected(2, 0); err == nil {
		t.Error("rank 2 of 2 can have a checkpoint")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for want, change := range map[string]func(*Config){
		"no log":             func(c *Config) { c.Channels.Kind = channel.Receiver },
		"to be in the group": func(c *Config) { c.Channels.Group = []int{7} },
		"groups of one rank": func(c *Config) {
			c.Channels.Kind, c.Channels.Log, c.Channels.Group = channel.Optimistic, &memLog{}, []int{0, 1}
		},
		"is unknown":               func(c *Config) { c.Channels.Kind, c.Channels.Log = 77, &memLog{} },
		"limit of -1":              func(c *Config) { c.Channels.MaxUnacked = -1 },
		"no listener":              func(c *Config) { c.Listener = nil },
		"no token":                 func(c *Config) { c.Token = nil },
		"state of channels":        func(c *Config) { c.Channels.Restore = &Restored{State: []byte("?")} },
		"pending messages":         func(c *Config) { c.Channels.Restore = &Restored{Pending: []byte("?")} },
		"no address for rank 1":    func(c *Config) { c.Channels.Group, c.Peers = []int{0, 1}, []string{"", ""} },
		"addresses of 1 ranks are": func(c *Config) { c.Peers = c.Peers[:1] },
	} {
		cfg := Config{Rank: 0, Size: 2, NodeOf: []int{0, 0}, Listener: l, Peers: d.addrs, Token: []byte("token"), Channels: &Channels{}}
		change(&cfg)
		if c, err := Join(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
			if err == nil {
				c.Close()
			}
		}
	}
	w := newWorld(t, worldOptions{nodeOf: []int{0}, dir: shmDir(t), implementation: OpenMPI})
	defer w.close()
	if err := flush(context.Background(), w.comms[0]); !errors.Is(err, errNoChannels) {
		t.Errorf("error %v", err)
	}
}
