package turns

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ckpt/image/iosched"
)

const (
	second = time.Second
	part   = 1 << 20
)

// busy counts the applications that move bytes at the same time.
type busy struct {
	now, most atomic.Int64
}

func (b *busy) move(t testing.TB, turn *Turn, n int64, takes time.Duration) {
	t.Helper()
	if err := turn.Enter(context.Background()); err != nil {
		t.Error(err)
	}
	now := b.now.Add(1)
	for {
		most := b.most.Load()
		if now <= most || b.most.CompareAndSwap(most, now) {
			break
		}
	}
	time.Sleep(takes)
	b.now.Add(-1)
	turn.Leave(n)
}

// TestOneAfterTheOther has two jobs take turns: never do both move bytes, and with fifo
// the first is over before the second begins.
func TestOneAfterTheOther(t *testing.T) {
	for _, policy := range iosched.TurnPolicies() {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: policy}})
				var unit busy
				var jobs sync.WaitGroup
				var ended [2]time.Duration
				began := time.Now()
				for job := range 2 {
					jobs.Go(func() {
						c := u.client(string(rune('a'+job)), ClientOptions{})
						time.Sleep(time.Duration(job) * 10 * time.Millisecond)
						turn := c.Begin(Burst{Kind: Checkpoint, Bytes: 100 * part})
						for range 100 {
							unit.move(t, turn, part, 20*time.Millisecond)
						}
						r := turn.End()
						if r.Passed != "" || r.Bytes != 100*part {
							t.Errorf("job %d: %+v", job, r)
						}
						ended[job] = time.Since(began)
					})
				}
				jobs.Wait()
				want := int64(1)
				if policy == "none" {
					want = 2
				}
				if most := unit.most.Load(); most != want {
					t.Errorf("%d jobs at one time, want %d", most, want)
				}
				if policy == "fifo" || policy == "srpt" || policy == "wsjf" {
					if ended[0] > 2100*time.Millisecond {
						t.Errorf("jobs ended after %v, want 2 s for one", ended)
					}
				}
				if last := max(ended[0], ended[1]); policy != "none" && (last < 4*second || last > 4200*time.Millisecond) {
					t.Errorf("both ended after %v, want 4 s", last)
				}
			})
		})
	}
}

// hold has a burst move something for as long as it has the turn.
func hold(t *testing.T, turn *Turn) {
	t.Helper()
	if err := turn.Await(t.Context(), part); err != nil {
		t.Error(err)
	}
}

// TestWaits checks what a client says of its waiting.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "fifo"}})
		a, b := u.client("a", ClientOptions{}), u.client("b", ClientOptions{})
		first := a.Begin(Burst{Bytes: part})
		if err := first.Await(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		if a.Waits() {
			t.Error("a waits, though it was granted")
		}
		var told []Span
		second1 := b.Begin(Burst{Bytes: part, Waited: func(from, to time.Time) { told = append(told, Span{from, to}) }})
		time.AfterFunc(3*second, func() { first.End() })
		time.Sleep(second)
		if !b.Waits() {
			t.Error("b does not wait")
		}
		// A wait that is cancelled counts, too.
		ctx, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		if err := second1.Await(ctx, part); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await: %v", err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { move(t, second1, part, 0) })
		}
		both.Wait()
		synctest.Wait()
		r := second1.End()
		if r.Waited != 2*second || r.Times != 2 || len(r.Waits) != 2 || len(told) != 2 || r.Bytes != 2*part || b.Waits() {
			t.Errorf("report %+v, told %v", r, told)
		}
		if again := second1.End(); again.Waited != r.Waited {
			t.Errorf("second end: %+v", again)
		}
		move(t, second1, part, 0) // passes
	})
}

// TestNobodyServes lets everything pass without a controller, with one that has died, and
// for nil.
func TestNobodyServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Client
		turn := none.Begin(Burst{})
		move(t, turn, part, 0)
		turn.Rest()
		turn.Progress(1)
		if turn.Await(t.Context(), part) != nil || turn.End().Passed != "" || none.Waits() || turn.Revoked() != nil {
			t.Error("nil does not pass")
		}
		none.Close()

		u := newUnit(t, ServeOptions{})
		u.kill()
		var why []string
		c := u.client("a", ClientOptions{OnPass: func(w string) { why = append(why, w) }})
		for range 3 {
			turn := c.Begin(Burst{Bytes: -1})
			move(t, turn, part, 0)
			if r := turn.End(); !strings.Contains(r.Passed, "has ended") || r.Waited != 0 {
				t.Errorf("report %+v", r)
			}
		}
		if len(why) != 1 {
			t.Errorf("told %q, want once", why)
		}
		c.Close()
		if r := c.Begin(Burst{}).End(); !strings.Contains(r.Passed, "closed") {
			t.Errorf("report %+v of a closed client", r)
		}
	})
}

// TestControllerDies kills the controller while one job has the turn and one waits: both
// go on. At the next burst they take turns under the new one.
func TestControllerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "fifo"}})
		a, b := u.client("a", ClientOptions{}), u.client("b", ClientOptions{})
		first, next := a.Begin(Burst{Bytes: part}), (*Turn)(nil)
		hold(t, first)
		next = b.Begin(Burst{Bytes: part})
		time.Sleep(second)
		if !b.Waits() {
			t.Fatal("b does not wait")
		}
		u.kill()
		move(t, next, part, 0)
		move(t, first, part, 0)
		synctest.Wait()
		if r := next.End(); !strings.Contains(r.Passed, "has ended") {
			t.Errorf("report %+v", r)
		}
		u.start()
		next = b.Begin(Burst{Bytes: part})
		move(t, next, part, 0)
		if r := next.End(); r.Passed != "" {
			t.Errorf("report %+v with the new controller", r)
		}
		first.End()
	})
}

// TestRejoin has a burst that passes take turns again as soon as the client is connected.
func TestRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "fifo"}})
		a, b := u.client("a", ClientOptions{}), u.client("b", ClientOptions{})
		drain := a.Begin(Burst{Kind: Drain, Bytes: 10 * part})
		move(t, drain, part, 0)
		u.kill()
		synctest.Wait()
		move(t, drain, part, 0)
		u.start()
		hold(t, b.Begin(Burst{Bytes: part}))
		wanted := drain.Revoked()
		other := a.Begin(Burst{Bytes: part})
		<-wanted
		time.Sleep(second)
		if !a.Waits() || *u.status("a").Remaining != 8*part+part {
			t.Errorf("a waits %v, status %+v", a.Waits(), u.status("a"))
		}
		other.End()
		drain.End()
	})
}

// TestSilent has the controller say nothing more. A client waits
// for Patience, and then not at all until the controller answers again.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "fifo"}})
		var why []string
		a := u.client("a", ClientOptions{})
		b := u.client("b", ClientOptions{OnPass: func(w string) { why = append(why, w) }})
		first := a.Begin(Burst{Bytes: part})
		hold(t, first)
		next := b.Begin(Burst{Bytes: part})
		time.Sleep(8 * second) // signs of life keep b waiting
		if !b.Waits() {
			t.Fatal("b does not wait")
		}
		u.hush(true)
		began := time.Now()
		move(t, next, part, 0)
		if took := time.Since(began); took < 3*second || took > 5*second+beatTime {
			t.Errorf("waited %v for a silent controller, want about 5 s", took)
		}
		next.End()
		for range 3 {
			began = time.Now()
			next = b.Begin(Burst{Bytes: part})
			move(t, next, part, 0)
			if r := next.End(); time.Since(began) > 0 || !strings.Contains(r.Passed, "does not answer") {
				t.Errorf("a later burst took %v: %+v", time.Since(began), r)
			}
			time.Sleep(20 * second)
		}
		if len(why) != 1 {
			t.Errorf("told %q, want once", why)
		}
		u.hush(false)
		b.Begin(Burst{Bytes: part}).End() // connects
		time.Sleep(second)
		first.End()
		next = b.Begin(Burst{Bytes: part})
		move(t, next, part, 0)
		if r := next.End(); r.Passed != "" {
			t.Errorf("report %+v after it answered", r)
		}
	})
}

// TestSilentFromTheStart waits at most Patience for a controller that never answers.
func TestSilentFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{})
		u.hush(true)
		c := u.client("a", ClientOptions{Patience: 2 * second})
		began := time.Now()
		turn := c.Begin(Burst{Bytes: part})
		move(t, turn, part, 0)
		if took, r := time.Since(began), turn.End(); took != 2*second || !strings.Contains(r.Passed, "does not answer") {
			t.Errorf("took %v: %+v", took, r)
		}
	})
}

// TestRevoke gives a turn back at once if nothing is under way, and else after the
// operation.
func TestRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "rr"}})
		a, b := u.client("a", ClientOptions{}), u.client("b", ClientOptions{})
		first := a.Begin(Burst{Bytes: 100 * part})
		move(t, first, part, 0)
		began := time.Now()
		next := b.Begin(Burst{Bytes: 100 * part})
		move(t, next, part, 3*second) // through the end of the window of b
		if got := time.Since(began); got > 4*second {
			t.Errorf("an idle holder kept the turn for %v", got)
		}
		wanted := next.Revoked()
		if err := next.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		var moved atomic.Bool
		time.AfterFunc(2*second, func() { moved.Store(true); next.Leave(part) })
		move(t, first, part, 0)
		if !moved.Load() {
			t.Error("a got the turn while b was moving")
		}
		<-wanted
		first.End()
		next.End()
	})
}

// TestMaxWait ends a wait that a controller does not end, though it lives.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "fifo", Grace: 24 * time.Hour}})
		a, b := u.client("a", ClientOptions{}), u.client("b", ClientOptions{MaxWait: time.Minute})
		first := a.Begin(Burst{Bytes: part})
		if err := first.Enter(t.Context()); err != nil { // and never leaves
			t.Fatal(err)
		}
		began := time.Now()
		next := b.Begin(Burst{Bytes: part})
		move(t, next, part, 0)
		took, r := time.Since(began), next.End()
		if took < time.Minute || took > time.Minute+second || !strings.Contains(r.Passed, "too long") {
			t.Errorf("waited %v: %+v", took, r)
		}
		synctest.Wait()
		if n := u.status("b").Waiting; n != 0 {
			t.Errorf("the controller still has %d bursts of b", n)
		}
	})
}
