package turns

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckpt/image/iosched"
	"ckpt/internal/vfs/memfs"
)

// seeds returns how many schedules a test runs: a number from the environment, or few.
func seeds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("CKPT_TURNS_SEEDS")); err == nil {
		return n
	}
	if os.Getenv("CKPT_NIGHTLY") != "" {
		return 1000
	}
	return few
}

// TestSchedules runs seeded schedules in virtual time. Controllers die, fall silent and
// come back, clients die in their bursts and are stopped. All bytes of the others move,
// and none of them waits for ever.
func TestSchedules(t *testing.T) {
	for seed := range seeds(150) {
		if ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runSchedule(t, uint64(seed)) })
		}); !ok {
			return
		}
	}
}

func runSchedule(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 19))
	policy := iosched.TurnPolicies()[rng.IntN(len(iosched.TurnPolicies()))]
	u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: policy, MaxWait: 5 * second}})
	over := make(chan struct{})
	var trouble sync.WaitGroup
	trouble.Go(func() { troubleUnit(u, rand.New(rand.NewPCG(seed, 20)), over) })
	var clients sync.WaitGroup
	for n := range 2 + rng.IntN(10) {
		rng := rand.New(rand.NewPCG(seed, uint64(100+n)))
		clients.Go(func() { runClient(t, u, n, rng) })
	}
	began := time.Now()
	clients.Wait()
	// 12 clients with 4 bursts of 8 operations of at most 0.1 s, one after the other, take
	// 40 s; each burst may wait for a silent controller and for stopped clients, too.
	if took := time.Since(began); took > 10*time.Minute {
		t.Errorf("seed %d: took %v", seed, took)
	}
	close(over)
	trouble.Wait()
}

// troubleUnit kills and silences the controller now and then.
func troubleUnit(u *unit, rng *rand.Rand, over chan struct{}) {
	for {
		select {
		case <-over:
			u.hush(false)
			return
		case <-time.After(time.Duration(rng.IntN(4000)) * time.Millisecond):
		}
		switch rng.IntN(4) {
		case 0:
			u.kill()
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			u.start()
		case 1:
			u.hush(true)
			time.Sleep(time.Duration(rng.IntN(12000)) * time.Millisecond)
			u.hush(false)
		}
	}
}

// runClient moves some bursts of one rank.
func runClient(t *testing.T, u *unit, n int, rng *rand.Rand) {
	c := u.client(fmt.Sprint("app", n%4), ClientOptions{})
	defer c.Close()
	for range 1 + rng.IntN(4) {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		parts := 1 + rng.IntN(8)
		b := Burst{Kind: Checkpoint, Bytes: int64(parts) * part, File: "f"}
		if rng.IntN(3) == 0 {
			b.Bytes = -1
		}
		turn := c.Begin(b)
		for range parts {
			if rng.IntN(50) == 0 {
				return // it dies in its burst
			}
			move(t, turn, part, time.Duration(rng.IntN(100))*time.Millisecond)
			if rng.IntN(50) == 0 {
				time.Sleep(7 * second) // it computes, or is stopped
			}
		}
		if r := turn.End(); r.Bytes != int64(parts)*part {
			t.Errorf("client %d: %d bytes moved, want %d parts", n, r.Bytes, parts)
		}
	}
}

// A frail connection can be cut, as by the death of its process, and stopped.
type frail struct {
	net.Conn
	mu sync.Mutex // held while it is stopped
}

func (f *frail) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
}

func (f *frail) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.wait()
	return n, err
}

func (f *frail) Write(b []byte) (int, error) {
	f.wait()
	return f.Conn.Write(b)
}

// TestCrowd has hundreds of clients take turns over real sockets, while connections are
// cut and stopped and the process of the controller is killed and started again. All
// bytes arrive in the files.
func TestCrowd(t *testing.T) {
	const ranks, apps, bursts, parts = 240, 12, 3, 4
	dir := t.TempDir()
	p := act(t, "serve", dir)
	var clients, dying sync.WaitGroup
	over := make(chan struct{})
	dying.Go(func() {
		rng := rand.New(rand.NewPCG(19, 1))
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(300+rng.IntN(700)) * time.Millisecond):
			}
			p.kill()
			p = act(t, "serve", dir)
		}
	})
	var mu sync.Mutex
	turns, waited := 0, 0
	for n := range ranks {
		rng := rand.New(rand.NewPCG(19, uint64(100+n)))
		c := NewClient(dir, Who{App: fmt.Sprint("app", n%apps), Rank: n}, ClientOptions{Patience: second, dial: frailDial(rand.New(rand.NewPCG(20, uint64(n))))})
		clients.Go(func() {
			defer c.Close()
			disk := memfs.New()
			for b := range bursts {
				turn := c.Begin(Burst{Kind: Checkpoint, Bytes: parts * Threshold})
				name := fmt.Sprint("/", b)
				f, err := turn.FS(disk).Create(name)
				if err != nil {
					t.Error(err)
					return
				}
				for p := range parts {
					if _, err := f.WriteAt(make([]byte, Threshold), int64(p)*Threshold); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
				}
				r := turn.End()
				if size, err := f.Size(); size != parts*Threshold || err != nil || r.Bytes != size {
					t.Errorf("rank %d: file of %d bytes, %v, report %+v", n, size, err, r)
				}
				f.Close()
				mu.Lock()
				if r.Passed == "" {
					turns++
				}
				waited += r.Times
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	close(over)
	dying.Wait()
	t.Logf("%d of %d bursts had turns only, operations waited %d times", turns, ranks*bursts, waited)
	if turns == 0 || waited == 0 {
		t.Error("nobody took turns")
	}
}

// frailDial makes connections that are cut or stopped after a random time, some of them.
func frailDial(rng *rand.Rand) func(context.Context, *Info) (net.Conn, error) {
	var mu sync.Mutex
	return func(ctx context.Context, i *Info) (net.Conn, error) {
		conn, err := dial(ctx, i)
		if err != nil {
			return nil, err
		}
		f := &frail{Conn: conn}
		mu.Lock()
		fate, after := rng.IntN(6), time.Duration(rng.IntN(50))*time.Millisecond
		mu.Unlock()
		switch fate {
		case 0:
			time.AfterFunc(after, func() { conn.Close() })
		case 1:
			time.AfterFunc(after, func() {
				f.mu.Lock()
				time.AfterFunc(10*after, f.mu.Unlock)
			})
		}
		return f, nil
	}
}
