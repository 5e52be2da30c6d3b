package turns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/image/iosched"
	"ckpt/internal/testkit"
)

// TestDoor has three doors of one directory share a controller: the first is it, and when it goes
// another one takes over. Each byte moves once, and parts of two doors do not move at one time.
func TestDoor(t *testing.T) {
	dir := t.TempDir()
	var doors []*Door
	var mu sync.Mutex
	var lines []string
	for range 3 {
		d, err := NewDoor(dir, DoorOptions{Policy: "mlf", Told: func(line string) {
			mu.Lock()
			lines = append(lines, line)
			mu.Unlock()
		}})
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
		err := doors[d].Move(r, func(off, n, _ int64) error {
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
	d, err := NewDoor(dir, DoorOptions{Policy: "fifo", Told: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if d.other == nil || d.own != nil {
		t.Error("the door has not found the controller")
	}
	moved := int64(0)
	err = d.Move(&iosched.Request{App: "a", File: "f", Bytes: 10}, func(_, n, _ int64) error { moved += n; return nil })
	if err != nil || moved != 10 {
		t.Errorf("%d bytes moved, %v", moved, err)
	}
	d.Close()
	end()
	work.Wait()
}

// TestDoorElsewhere has doors of other hosts reach a door that is the controller over TLS, as one of
// their user; the socket is of the controller's host.
func TestDoorElsewhere(t *testing.T) {
	dir := t.TempDir()
	door := func() *Door {
		d, err := NewDoor(dir, DoorOptions{Policy: "wsjf", Listen: "127.0.0.1", Told: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	}
	first := door()
	if err := os.Remove(filepath.Join(dir, dirName, socketName)); err != nil {
		t.Fatal(err)
	}
	list := []*Door{first, door(), door()}
	if own := mayServe(list); len(own) != 1 || own[0] != first || list[1].other == nil || list[2].other == nil {
		t.Fatalf("%d of the doors are the controller", len(own))
	}
	var moving, moved atomic.Int32
	var all sync.WaitGroup
	for i, d := range list {
		all.Go(func() {
			for n := range 50 {
				err := d.Move(&iosched.Request{App: fmt.Sprint(i), User: "u", File: "f", Offset: int64(n) * 10, Bytes: 10}, func(_, bytes, _ int64) error {
					if moving.Add(1) > 1 {
						t.Error("two parts move")
					}
					moved.Add(int32(bytes))
					moving.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := moved.Load(); n != 3*50*10 {
		t.Errorf("%d bytes moved", n)
	}
	if _, err := NewDoor(dir, DoorOptions{Policy: "mlf", Listen: "0.0.0.0"}); !errors.Is(err, ErrManyAddresses) {
		t.Errorf("an address of all interfaces: %v", err)
	}
}

// TestDoorKilled kills a controller at drawn moments while doors move the bytes of files: each byte is
// written once, in its place, and a door becomes the controller.
func TestDoorKilled(t *testing.T) {
	rounds := testkit.Some(4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
	for _, seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			p := act(t, "serve", dir)
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			const block, blocks = 1 << 10, 400
			last := rng.Int64N(3 * blocks) // the block before which it is killed
			var doors []*Door
			var files []*os.File
			for i := range 3 {
				d, err := NewDoor(dir, DoorOptions{Policy: "mlf", Told: func(string) {}})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				doors, files = append(doors, d), append(files, f)
			}
			var done atomic.Int64
			var all sync.WaitGroup
			for i, d := range doors {
				want := make([]byte, block*blocks)
				_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(want)
				all.Go(func() {
					for n := range int64(blocks) {
						if done.Add(1) == last {
							p.kill()
						}
						r := &iosched.Request{App: fmt.Sprint(i), User: "u", File: fmt.Sprint(i), Op: iosched.Write, Offset: n * block, Bytes: block}
						err := d.Move(r, func(off, bytes, _ int64) error {
							_, err := files[i].Write(want[off : off+bytes]) // it goes behind the last one
							return err
						})
						if err != nil {
							t.Error(err)
						}
					}
					if got, err := os.ReadFile(files[i].Name()); err != nil || !bytes.Equal(got, want) {
						t.Errorf("file %d is wrong, %v", i, err)
					}
				})
			}
			all.Wait()
			p.kill()
			for len(mayServe(doors)) == 0 { // a request looks for a controller once a second
				if err := doors[0].Move(&iosched.Request{App: "a", File: "f", Bytes: 1}, func(_, _, _ int64) error { return nil }); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}
