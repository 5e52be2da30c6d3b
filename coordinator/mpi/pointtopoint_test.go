package mpi

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestSelfSend(t *testing.T) {
	w := newWorld(t, worldOptions{nodeOf: []int{0}, dir: shmDir(t), implementation: OpenMPI})
	defer w.close()
	c := w.comms[0]
	data := []byte("to myself")
	if err := c.Send(0, 3, data); err != nil {
		t.Fatal(err)
	}
	clear(data)
	var buf [20]byte
	st, err := c.Recv(AnySource, AnyTag, buf[:])
	if err != nil || st != (Status{0, 3, 9}) || string(buf[:9]) != "to myself" {
		t.Errorf("%+v %q %v", st, buf, err)
	}
	if err := errors.Join(c.Barrier(), c.AllreduceSum([]float64{1})); err != nil {
		t.Error(err)
	}
}

// A message of the wrong length is refused and stays, for those who waited
// before it came and for those who come later.
func TestWrongLengthStays(t *testing.T) {
	for _, early := range []bool{true, false} {
		w := newWorld(t, worldOptions{nodeOf: []int{0, 0}, dir: shmDir(t), implementation: OpenMPI})
		w.must(t, func(c *Comm) error {
			if c.Rank() == 0 {
				if early {
					for waiting := 0; waiting == 0; {
						in := &w.comms[1].in
						in.mu.Lock()
						waiting = len(in.waiting)
						in.mu.Unlock()
					}
				}
				return errors.Join(c.SendFloat64s(1, 0, []float64{1, 2, 3}), c.Send(1, 1, nil))
			}
			if !early {
				if _, err := c.Recv(0, 1, nil); err != nil {
					return err
				}
			}
			var le *LengthError
			if _, err := c.RecvFloat64s(0, AnyTag, make([]float64, 1)); !errors.As(err, &le) || *le != (LengthError{0, 0, 24, 8}) {
				return fmt.Errorf("short buffer: %v", err)
			}
			if _, err := c.RecvFloat64s(0, 0, make([]float64, 4)); !errors.As(err, &le) || *le != (LengthError{0, 0, 24, 32}) {
				return fmt.Errorf("long buffer: %v", err)
			}
			x := make([]float64, 3)
			if from, err := c.RecvFloat64s(AnySource, 0, x); err != nil || from != 0 || x[2] != 3 {
				return fmt.Errorf("%v from %d: %v", x, from, err)
			}
			return nil
		})
		w.close()
	}
}

func TestBadArguments(t *testing.T) {
	w := newWorld(t, worldOptions{nodeOf: []int{0, 0}, dir: shmDir(t), implementation: OpenMPI,
		config: func(c *Config) { c.MaxMessage = 100 }})
	defer w.close()
	c := w.comms[0]
	for _, test := range []struct {
		want string
		err  error
	}{
		{"send to rank 2: there is no such rank", c.Send(2, 0, nil)},
		{"there is no such rank", c.Send(-1, 0, nil)},
		{"tag -1 is out of range", c.Send(1, -1, nil)},
		{"out of range", c.Send(1, math.MaxInt32+1, nil)},
		{"101 bytes is longer than the limit of 100", c.Send(1, 0, make([]byte, 101))},
		{"receive from rank 2: there is no such rank", second(c.RecvFloat64s(2, 0, nil))},
		{"tag -2 is out of range", second(c.RecvFloat64s(1, -2, nil))},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("error %v does not say %q", test.err, test.want)
		}
	}
}

func TestRestorePendingOnlyFirst(t *testing.T) {
	w := newWorld(t, worldOptions{nodeOf: []int{0, 0, 0}, dir: shmDir(t), implementation: OpenMPI})
	defer w.close()
	c := w.comms[0]
	saved := samplePending()
	damaged := append([]byte(nil), saved...)
	damaged[30]++
	if err := c.RestorePending(damaged); !errors.Is(err, ErrCorrupt) || c.Pending() != nil {
		t.Errorf("damaged: %v, %d bytes pending", err, len(c.Pending()))
	}
	if err := errors.Join(c.RestorePending(nil), c.RestorePending(saved)); err != nil {
		t.Error(err)
	}
	if err := c.RestorePending(saved); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("twice: %v", err)
	}
	if err := w.comms[1].Send(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.comms[1].Recv(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.comms[1].RestorePending(saved); err == nil || !strings.Contains(err.Error(), "receiving already") {
		t.Errorf("late: %v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	seg, err := OpenSegment(filepath.Join(shmDir(t), "segment"), OpenMPI, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer seg.Close()
	for _, test := range []struct {
		want string
		cfg  Config
	}{
		{"size is out of range", Config{}},
		{"rank is out of range", Config{Rank: 2, Size: 2, NodeOf: []int{0, 0}}},
		{"nodes of 1 ranks", Config{Size: 2, NodeOf: []int{0}}},
		{"no segment", Config{Size: 2, NodeOf: []int{0, 0}}},
		{"made for 2 ranks; the node has 1", Config{Size: 2, NodeOf: []int{0, 1}, Segment: seg}},
		{"no listener", Config{Size: 2, NodeOf: []int{0, 1}}},
	} {
		if c, err := Join(test.cfg); err == nil {
			c.Close()
			t.Errorf("no error that says %q", test.want)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v does not say %q", err, test.want)
		}
	}
	// A restore that wrote the segment of another job over this one.
	copy(seg.Region().Mem, make([]byte, HeaderBytes))
	if c, err := Join(Config{Size: 2, NodeOf: []int{0, 0}, Segment: seg}); err == nil {
		c.Close()
		t.Error("joined over a segment without header")
	}
}
