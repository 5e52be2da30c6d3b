package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

var errDead = errors.New("rank 7 is dead")

// blocked are operations of rank 0 that cannot end by themselves while rank 1,
// on the same node, and rank 2, on another one, do nothing.
var blocked = map[string]func(c *Comm) error{
	"receive":         func(c *Comm) error { _, err := c.Recv(1, 0, nil); return err },
	"receive any":     func(c *Comm) error { _, err := c.Recv(AnySource, AnyTag, nil); return err },
	"receive floats":  func(c *Comm) error { _, err := c.RecvFloat64s(2, 0, nil); return err },
	"barrier":         (*Comm).Barrier,
	"allreduce":       func(c *Comm) error { return c.AllreduceSum([]float64{1}) },
	"drain":           func(c *Comm) error { return c.Drain(context.Background(), []Count{{Peer: 1, N: 1}}) },
	"send inline":     func(c *Comm) error { return sendForEver(c, 1, 4000) },
	"send cells":      func(c *Comm) error { return sendForEver(c, 1, 8<<20) },
	"send over TCP":   func(c *Comm) error { return sendForEver(c, 2, 1<<20) },
	"dial in silence": func(c *Comm) error { return sendForEver(c, 3, 1) },
}

func sendForEver(c *Comm, dst, n int) error {
	for {
		if err := c.Send(dst, 0, make([]byte, n)); err != nil {
			return err
		}
	}
}

// alone returns a Comm of rank 0 whose peers are there but do not move: a ring
// that nobody empties, a connection that nobody reads, a listener that nobody
// serves.
func alone(t *testing.T) (c *Comm, end func()) {
	t.Helper()
	seg, err := OpenSegment(filepath.Join(shmDir(t), "segment"), OpenMPI, 2)
	if err != nil {
		t.Fatal(err)
	}
	token := []byte("token")
	var ls [3]net.Listener
	for i := range ls {
		if ls[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { // rank 2 shakes hands and then reads nothing
		conn, err := ls[1].Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := AcceptHandshake(conn, token, 2, func(int) error { return nil }); err != nil {
			return
		}
		ls[1].Accept() // until the test ends
	})
	c, err = Join(Config{Rank: 0, Size: 4, NodeOf: []int{0, 0, 1, 1}, Segment: seg, Listener: ls[0],
		Peers: []string{"", "", ls[1].Addr().String(), ls[2].Addr().String()}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := errors.Join(c.Close(), c.Close(), ls[1].Close(), ls[2].Close(), seg.Close()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

func TestAbortWakesEverybody(t *testing.T) {
	for name, op := range blocked {
		t.Run(name, func(t *testing.T) {
			c, end := alone(t)
			defer end()
			result := make(chan error)
			go func() { result <- op(c) }()
			// Wait until it is blocked, or about to be: either is right.
			if strings.HasPrefix(name, "receive") {
				for waiting := 0; waiting == 0; {
					c.in.mu.Lock()
					waiting = len(c.in.waiting)
					c.in.mu.Unlock()
				}
			} else {
				c.comesToRest()
			}
			c.Abort(errDead)
			c.Abort(errors.New("a second reason"))
			var e *Error
			if err := <-result; !errors.Is(err, errDead) || !errors.As(err, &e) || e.Rank != 0 {
				t.Errorf("error %v", err)
			}
			for name, op := range blocked {
				if err := op(c); !errors.Is(err, errDead) {
					t.Errorf("%s afterwards: %v", name, err)
				}
			}
			if err := c.RestorePending(samplePending()); !errors.Is(err, errDead) {
				t.Errorf("restore afterwards: %v", err)
			}
		})
	}
}

// comesToRest gives the goroutines of an operation the processor until the
// bytes they have sent stop to change.
func (c *Comm) comesToRest() {
	before := make([]uint64, len(c.peers))
	for same := 0; same < 50; {
		now := make([]uint64, len(c.peers))
		for r := range now {
			now[r] = c.peers[r].sent.Load()
		}
		if slices.Equal(now, before) {
			same++
		} else {
			same = 0
		}
		before = now
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

func TestCloseWakesEverybody(t *testing.T) {
	for name, op := range blocked {
		t.Run(name, func(t *testing.T) {
			c, end := alone(t)
			result := make(chan error)
			go func() { result <- op(c) }()
			c.comesToRest()
			closed := make(chan struct{})
			go func() { end(); close(closed) }()
			if err := <-result; !errors.Is(err, ErrClosed) {
				t.Errorf("error %v", err)
			}
			<-closed
			c.Abort(errDead) // must not touch the segment, which is gone
		})
	}
}

func TestDrainNamesWhoIsBehind(t *testing.T) {
	w := newWorld(t, worldOptions{nodeOf: []int{0, 0, 0}, dir: shmDir(t), implementation: OpenMPI})
	defer w.close()
	w.must(t, func(c *Comm) error {
		if c.Rank() == 1 {
			return c.Send(0, 0, nil)
		}
		return nil
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := w.comms[0].Drain(ctx, []Count{{Peer: 1, N: 1}}); err != nil {
		t.Fatal(err)
	}
	cancel(errDead)
	err := w.comms[0].Drain(ctx, []Count{{Peer: 1, N: 3}, {Peer: 2, N: 1}})
	var e *DrainError
	if !errors.As(err, &e) || !errors.Is(err, errDead) || e.Peer != 1 || e.Want != 3 || e.Got != 1 || e.Others != 1 {
		t.Errorf("error %v", err)
	}
	if err := w.comms[0].Drain(ctx, []Count{{Peer: 3, N: 1}}); err == nil {
		t.Error("a rank that is not there can be waited for")
	}
}

// Ranks that wait do so asleep. The receiver's naps are counted, not time: a
// rank that polls, by whatever means, naps without end.
func TestWaitingRanksSleep(t *testing.T) {
	const ranks = 64
	w := newWorld(t, worldOptions{nodeOf: make([]int, ranks), dir: shmDir(t), implementation: OpenMPI})
	defer w.close()
	var wg sync.WaitGroup
	for _, c := range w.comms {
		wg.Go(func() {
			if _, err := c.Recv(AnySource, AnyTag, nil); !errors.Is(err, errDead) {
				t.Errorf("rank %d: %v", c.Rank(), err)
			}
		})
	}
	naps := func() (n uint64) {
		for _, c := range w.comms {
			n += c.shm.naps.Load()
		}
		return n
	}
	for _, c := range w.comms { // wait until all are in place
		for !c.shm.asleep() || func() bool { c.in.mu.Lock(); defer c.in.mu.Unlock(); return len(c.in.waiting) == 0 }() {
			unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
	before := naps()
	// Give them ample opportunity: as many turns of the processors as it
	// takes to make a few thousand system calls here.
	for range 20_000 {
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	if after := naps(); after > before+ranks { // a signal may wake one
		t.Errorf("the receivers of %d waiting ranks went to sleep %d times", ranks, after-before)
	}
	for _, c := range w.comms {
		c.Abort(errDead)
	}
	wg.Wait()
}

const childEnv = "CKPT_MPI_TEST_CHILD"

// childMain is rank 1 of three, on the node of rank 0, in a process of its
// own. It answers a number of messages, or, if that is 0, sends messages of all
// sizes to all others until it is killed.
func childMain() int {
	parts := strings.Split(os.Getenv(childEnv), ",")
	seg, err := OpenSegment(parts[0], MPICH, 2)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, err := Join(Config{Rank: 1, Size: 3, NodeOf: []int{0, 0, 1}, Segment: seg, Listener: l,
		Peers: []string{"", "", parts[1]}, Token: []byte("token")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pingPong, _ := strconv.Atoi(parts[2])
	buf := make([]byte, 5<<20)
	for i := 0; ; i++ {
		if pingPong > 0 {
			if i == pingPong {
				break
			}
			st, err := c.Recv(0, 0, buf)
			if err == nil {
				err = c.Send(0, 0, buf[:st.Bytes])
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			continue
		}
		n := sizes[i%len(sizes)]
		for j := range buf[:n] {
			buf[j] = byte(i)
		}
		if err := errors.Join(c.Send(0, i%100, buf[:n]), c.Send(2, i%100, buf[:n])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	c.Close()
	seg.Close()
	return 0
}

// startChild starts rank 1 as a process. The listener becomes rank 2's.
func startChild(t testing.TB, path string, l net.Listener, pingPong int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%s,%d", childEnv, path, l.Addr(), pingPong))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A rank is killed at some instant while it sends through both transports. The
// survivors see whole messages only, then silence, then the abort.
func TestKilledWhileSending(t *testing.T) {
	for round := range 4 {
		path := filepath.Join(shmDir(t), "segment")
		seg, err := OpenSegment(path, MPICH, 2)
		if err != nil {
			t.Fatal(err)
		}
		l0, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l2, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cmd := startChild(t, path, l2, 0)
		lost := make(chan error, 1)
		join := func(rank int, seg *Segment, l net.Listener) *Comm {
			c, err := Join(Config{Rank: rank, Size: 3, NodeOf: []int{0, 0, 1}, Segment: seg, Listener: l, Token: []byte("token"),
				Peers: []string{l0.Addr().String(), "127.0.0.1:1", l2.Addr().String()},
				Lost:  func(peer int, err error) { lost <- fmt.Errorf("%d %w", peer, err) }})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		survivors := []*Comm{join(0, seg, l0), join(2, nil, l2)}
		var wg sync.WaitGroup
		enough := make(chan struct{}, len(survivors))
		for _, c := range survivors {
			wg.Go(func() {
				buf := make([]byte, 5<<20)
				for i := 0; ; i++ {
					st, err := c.Recv(1, AnyTag, buf)
					if err != nil {
						if !errors.Is(err, errDead) {
							t.Errorf("rank %d: %v", c.Rank(), err)
						}
						return
					}
					if n := sizes[i%len(sizes)]; st.Tag != i%100 || st.Bytes != n || len(bytes.Trim(buf[:n], string([]byte{byte(i)}))) != 0 {
						t.Errorf("rank %d: message %d is %+v", c.Rank(), i, st)
						c.Abort(errDead)
					}
					if i == 20+7*round {
						enough <- struct{}{}
					}
				}
			})
		}
		for range survivors {
			<-enough
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed
		if err := <-lost; !strings.HasPrefix(err.Error(), "1 ") || !(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)) {
			t.Errorf("lost: %v", err)
		}
		// The dead rank's ring fills and then blocks; so does a barrier.
		wg.Go(func() {
			if err := sendForEver(survivors[0], 1, 100_000); !errors.Is(err, errDead) {
				t.Errorf("send: %v", err)
			}
		})
		wg.Go(func() {
			if err := survivors[1].Send(1, 0, nil); !errors.Is(err, errDead) {
				t.Errorf("send: %v", err)
			}
		})
		survivors[0].comesToRest()
		for _, c := range survivors {
			c.Abort(errDead)
		}
		wg.Wait()
		for _, c := range survivors {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(seg.Unlink(), seg.Close()); err != nil {
			t.Error(err)
		}
	}
}
