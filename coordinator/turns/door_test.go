package turns

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/image/iosched"
)

// TestDoor has three doors of one directory share a controller: the first is it, and when it goes
// another one takes over. Each byte moves once, and parts of two doors do not move at one time.
func TestDoor(t *testing.T) {
	dir := t.TempDir()
	var doors []*Door
	var mu sync.Mutex
	var lines []string
	for range 3 {
		d, err := NewDoor(dir, "mlf", func(line string) {
			mu.Lock()
			lines = append(lines, line)
			mu.Unlock()
		})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		doors = append(doors, d)
	}
	mu.Lock()
	if text := strings.Join(lines, "\n"); strings.Count(text, "this process orders requests, by policy mlf") != 1 || strings.Count(text, "on host") != 2 {
		t.Fatalf("the doors tell:\n%s", text)
	}
	mu.Unlock()
	var moving, twice atomic.Int32
	move := func(d, i int) {
		r := &iosched.Request{App: fmt.Sprint(d), User: "u", File: "f", Op: iosched.Op(i % 2), Offset: int64(i) * 100, Bytes: 250}
		at := r.Offset
		err := doors[d].Move(r, func(off, n int64) error {
			if moving.Add(1) > 1 {
				twice.Add(1)
			}
			if off != at {
				t.Errorf("part at %d, want %d", off, at)
			}
			at += n
			moving.Add(-1)
			return nil
		})
		if err != nil || at != int64(i)*100+250 {
			t.Errorf("moved up to %d, %v", at, err)
		}
	}
	round := func(from int) {
		var all sync.WaitGroup
		for d := from; d < len(doors); d++ {
			all.Go(func() {
				for i := range 100 {
					move(d, i)
				}
			})
		}
		all.Wait()
	}
	round(0)
	if n := twice.Load(); n > 0 {
		t.Errorf("%d times two parts moved", n)
	}
	doors[0].Close()
	for len(mayServe(doors[1:])) == 0 { // a request looks for a controller once a second
		round(1)
		time.Sleep(10 * time.Millisecond)
	}
}

// mayServe returns the doors that are the controller.
func mayServe(doors []*Door) (own []*Door) {
	for _, d := range doors {
		d.mu.Lock()
		if d.own != nil {
			own = append(own, d)
		}
		d.mu.Unlock()
	}
	return own
}

// TestDoorOfServe has a door find a controller that a user has started.
func TestDoorOfServe(t *testing.T) {
	dir := t.TempDir()
	ready := make(chan struct{})
	ctx, end := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if err := Serve(ctx, dir, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "none"}, Observer: herald{ready}}); err != nil {
			t.Error(err)
		}
	})
	<-ready
	d, err := NewDoor(dir, "fifo", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if d.other == nil || d.own != nil {
		t.Error("the door has not found the controller")
	}
	moved := int64(0)
	err = d.Move(&iosched.Request{App: "a", File: "f", Bytes: 10}, func(_, n int64) error { moved += n; return nil })
	if err != nil || moved != 10 {
		t.Errorf("%d bytes moved, %v", moved, err)
	}
	d.Close()
	end()
	work.Wait()
}
