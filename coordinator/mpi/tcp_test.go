package mpi

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// twoNodes are two ranks on two nodes whose tokens may differ.
func twoNodes(t *testing.T, tokens ...string) *world {
	return newWorld(t, worldOptions{nodeOf: []int{0, 1}, dir: shmDir(t), implementation: OpenMPI,
		config: func(c *Config) { c.Token = []byte(tokens[c.Rank]) }})
}

func TestWrongTokenIsRefused(t *testing.T) {
	w := twoNodes(t, "one", "another")
	defer w.close()
	for range 2 { // it is no better the second time
		err := w.comms[0].Send(1, 0, []byte("secret"))
		if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "rank 0: send to rank 1: ") {
			t.Errorf("error %v", err)
		}
	}
	if got := w.comms[0].Sent(); got != nil {
		t.Errorf("counted as sent: %v", got)
	}
}

// Strangers get nothing but a closed connection, and ranks are none the worse.
func TestStrangersAreRefused(t *testing.T) {
	w := twoNodes(t, "token", "token")
	defer w.close()
	addr := w.comms[0].cfg.Peers[1]
	try := func(name string, f func(conn net.Conn) error) {
		t.Helper()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := f(conn); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	try("no rank of ours", func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: nobody\r\n\r\n"); err != nil {
			return err
		}
		_, err := io.ReadAll(io.LimitReader(conn, 1))
		if err == nil {
			err = io.EOF // closed without an answer
		}
		return err
	})
	try("wrong proof", func(conn net.Conn) error { return DialHandshake(conn, []byte("guess"), 0, 1) })
	try("meant for another", func(conn net.Conn) error { return DialHandshake(conn, []byte("token"), 0, 0) })
	try("rank of the same node", func(conn net.Conn) error { return DialHandshake(conn, []byte("token"), 1, 1) })
	try("rank that is not there", func(conn net.Conn) error { return DialHandshake(conn, []byte("token"), 9, 1) })
	try("own proof sent back", func(conn net.Conn) error {
		hello := append([]byte(helloMagic), make([]byte, helloBytes-8)...)
		hello[12] = 1
		if _, err := conn.Write(hello); err != nil {
			return err
		}
		var answer [64]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil {
			return err
		}
		if _, err := conn.Write(answer[32:]); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, answer[:1])
		return err
	})

	w.must(t, func(c *Comm) error { return c.Barrier() })
	try("connected already", func(conn net.Conn) error { return DialHandshake(conn, []byte("token"), 0, 1) })
	w.must(t, func(c *Comm) error { return c.Barrier() })
}

// Messages of a rank arrive even if it closes at once.
func TestCloseDeliversWhatWasSent(t *testing.T) {
	w := twoNodes(t, "token", "token")
	defer w.close()
	data := make([]byte, 3<<20)
	done := make(chan error)
	go func() { done <- w.comms[0].Send(1, 0, data) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := w.comms[0].Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := w.comms[1].Recv(0, 0, data); err != nil || st.Bytes != len(data) {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestDamagedFrameEndsTheComm(t *testing.T) {
	w := twoNodes(t, "token", "token")
	defer w.close()
	conn, err := net.Dial("tcp", w.comms[0].cfg.Peers[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := DialHandshake(conn, []byte("token"), 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, frameHead)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.comms[1].Recv(AnySource, AnyTag, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "from rank 0") {
		t.Errorf("error %v", err)
	}
}
