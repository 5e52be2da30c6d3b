package iosched_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"ckpt/image/iosched"
)

func askFile(c iosched.Conn, b uint64, file string) iosched.Event {
	return iosched.Ask{Conn: c, Burst: b, File: file, Bytes: 1 << 20}
}

func release(c iosched.Conn, b, turn uint64) iosched.Event {
	return iosched.Release{Conn: c, Burst: b, Turn: turn}
}

func progress(c iosched.Conn, b uint64, n int64) iosched.Event {
	return iosched.Progress{Conn: c, Burst: b, Bytes: n}
}

func alive(c ...iosched.Conn) (events []iosched.Event) {
	for _, c := range c {
		events = append(events, iosched.Alive{Conn: c})
	}
	return events
}

// tick is a Tick at the time that Wake names, which it checks.
func (x *table) tick(when int, want string) {
	x.t.Helper()
	at, ok := x.a.Wake()
	if !ok || at != time.Duration(when)*ms {
		x.t.Fatalf("Wake: %v, %t, want %d ms", at, ok, when)
	}
	x.at(when, want, iosched.Tick{})
}

func three(x *table) {
	x.t.Helper()
	x.at(0, "", join(1, "a", "u"), join(2, "b", "u"), join(3, "c", "u"))
}

func TestRRGivesWindowsInTurn(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr"})
	three(x)
	x.at(1, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(2, "", ask(2, 1, 1000), ask(3, 1, 1000))
	x.tick(501, "revoke 1.1 #1")
	x.at(503, "grant 2.1 #2", release(1, 1, 1))
	x.tick(1003, "revoke 2.1 #2")
	x.at(1004, "grant 3.1 #3", release(2, 1, 2))
	x.at(1100, "grant 1.1 #4", end(3, 1))
}

func TestShorterBurstPreempts(t *testing.T) {
	for _, policy := range []string{"srpt", "wsjf"} {
		x := newTable(t, iosched.TurnOptions{Policy: policy})
		three(x)
		x.at(0, "grant 1.1 #1", ask(1, 1, 8<<30))
		x.at(10, "revoke 1.1 #1", ask(2, 1, 1<<20))
		x.at(11, "", ask(3, 1, 4<<30)) // waits for the answer
		x.at(12, "grant 2.1 #2", release(1, 1, 1))
		x.at(20, "grant 3.1 #3", end(2, 1))
		x.at(30, "", progress(3, 1, 3<<30), ask(2, 2, 1<<30-1)) // hardly shorter
		x.tick(520, "")                                         // another window
		x.at(600, "grant 2.2 #4", end(3, 1))
	}
}

func TestFIFOKeepsTheTurnOverWindows(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 8<<30))
	x.at(1, "", ask(2, 1, 1))
	x.tick(500, "")
	x.tick(1000, "")
	if s := x.a.Status(1001 * ms); s.Windows != 3 || s.Turns != 1 {
		t.Errorf("%d windows in %d turns, want 3 in 1", s.Windows, s.Turns)
	}
	// A burst that comes after others in a later window does not prolong it.
	x.at(1100, "grant 1.2 #1", ask(1, 2, 1))
	x.at(1200, "", end(1, 1))
	x.tick(1500, "revoke 1.2 #1")
	x.at(1501, "grant 2.1 #2", release(1, 2, 1))
}

// A rank that asks in the first window has the place in line of its application.
func TestFIFOCountsLateRanksWithTheFirst(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
	x.at(0, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(1, "", ask(3, 1, 1000))
	x.at(2, "grant 2.1 #1", ask(2, 1, 1000))
	x.at(100, "", end(1, 1))
	x.tick(500, "")
}

func TestMLFPutsNewApplicationsFirst(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "mlf", Window: 800 * ms})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, -1))
	x.at(10, "", ask(2, 1, -1))
	x.tick(50, "revoke 1.1 #1") // the first window is a sixteenth
	x.at(50, "grant 2.1 #2", release(1, 1, 1))
	x.tick(100, "revoke 2.1 #2")
	x.at(100, "grant 1.1 #3", release(2, 1, 2))
	x.at(110, "", ask(3, 1, -1)) // does not preempt
	x.tick(200, "revoke 1.1 #3") // twice as long
	x.at(200, "grant 3.1 #4", release(1, 1, 3))
	x.at(210, "grant 2.1 #5", end(3, 1))
}

func TestNoneGrantsAll(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "none"})
	three(x)
	x.at(0, "grant 1.1 #1, grant 2.1 #2", ask(1, 1, 1), ask(2, 1, 1))
	x.at(100000, "grant 3.1 #3", ask(3, 1, 1))
	if _, ok := x.a.Wake(); ok {
		t.Error("policy none wants to wake")
	}
}

func TestLatecomersJoinTheirApplication(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr"})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"), join(4, "a", "v"))
	x.at(0, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(10, "", ask(3, 1, 1000))
	x.at(20, "", ask(4, 1, 1000)) // the same name, of another user
	x.at(400, "grant 2.1 #1", ask(2, 1, 1000))
	x.at(500, "revoke 1.1 #1, revoke 2.1 #1", iosched.Tick{})
	x.at(501, "", ask(1, 2, 1000)) // after the window
	x.at(502, "", release(1, 1, 1))
	x.at(503, "grant 3.1 #2", release(2, 1, 1))
	x.at(600, "grant 4.1 #3", end(3, 1))
	x.at(700, "grant 1.1 #4, grant 2.1 #4, grant 1.2 #4", end(4, 1))
}

func TestNobodyJoinsATurnThatEnds(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr"})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
	x.at(0, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(1, "", ask(3, 1, 1000))
	x.at(500, "revoke 1.1 #1", ask(2, 1, 1000))
}

func TestSilentHolderIsEvictedForOthers(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	three(x)
	x.at(1000, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(9000, "", join(4, "d", "u"))
	if _, ok := x.a.Wake(); ok {
		t.Error("a lease ends while nobody waits")
	}
	x.at(9000, "evict 1.1 #1, grant 2.1 #2", ask(2, 1, 1000))
	x.at(9400, "", alive(2)...)
	x.at(10000, "", ask(3, 1, 1000))
	// It comes back, answers, and has its turn before younger bursts.
	x.at(10400, "", release(1, 1, 1))
	x.at(10401, "grant 1.1 #3", end(2, 1))
	if s := x.a.Status(10402 * ms); s.Evictions != 1 || s.Stragglers != 0 {
		t.Errorf("%d evictions, %d stragglers, want 1 and 0", s.Evictions, s.Stragglers)
	}
}

func TestLeaseEndsAfterTheLastSign(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo", Window: time.Hour, MaxWait: time.Hour})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(1000, "", ask(2, 1, 1000))
	x.at(3000, "", alive(1, 2)...)
	x.at(7999, "", alive(2)...)
	x.tick(8000, "evict 1.1 #1, grant 2.1 #2")
	x.at(8001, "", ask(3, 1, 1))
	// An evicted burst that stays silent is not granted before others, and
	// not at all while they hold the unit.
	x.at(9000, "grant 3.1 #3", end(2, 1))
	x.at(9001, "grant 1.1 #4", end(3, 1))
}

func TestRevocationWithoutAnswer(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr", Lease: 5 * second, Grace: 10 * second})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(1, "", ask(2, 1, 1000))
	x.tick(500, "revoke 1.1 #1")
	for i := 1000; i < 10500; i += 1000 {
		x.at(i, "", alive(1, 2)...)
	}
	x.tick(10500, "evict 1.1 #1, grant 2.1 #2")
	x.at(10501, "", release(1, 1, 1), alive(2)[0])
}

func TestReleaseOfAnOlderTurnIsIgnored(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr"})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1000))
	x.at(1, "", ask(2, 1, 1000))
	x.at(500, "revoke 1.1 #1", iosched.Tick{})
	x.at(501, "grant 2.1 #2", release(1, 1, 1))
	x.at(600, "grant 1.1 #3", end(2, 1))
	x.at(700, "", ask(2, 2, 1), release(1, 1, 1), release(1, 1, 2))
	if s := x.a.Status(701 * ms); s.Holder != "a" {
		t.Errorf("%q has the turn, want a", s.Holder)
	}
}

func TestIdleHolderGivesTheTurnToTheNext(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "wsjf"})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1<<20))
	x.at(1, "", ask(2, 1, 1<<30))
	x.at(2, "", progress(1, 1, 1))
	x.at(5, "revoke 1.1 #1", iosched.Idle{Conn: 1, Burst: 1})
	// It is shorter, and still the other one goes.
	x.at(6, "grant 2.1 #2", release(1, 1, 1))
	x.tick(506, "revoke 2.1 #2")
	x.at(507, "grant 1.1 #3", release(2, 1, 2))
}

// Progress ends what Idle said.
func TestIdleUntilTheNextProgress(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1<<20))
	x.at(5, "", iosched.Idle{Conn: 1, Burst: 1}, progress(1, 1, 1))
	x.at(6, "", ask(2, 1, 1<<30))
}

func TestStalledHolderGivesTheTurnToTheNext(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo", Window: 10 * second, Stall: second})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1<<30))
	x.at(1, "", ask(2, 1, 1<<30))
	x.at(600, "", progress(1, 1, 1<<20)) // an operation of 0.6 s: 2.4 s are allowed
	x.at(700, "", progress(1, 1, 1<<20))
	x.tick(3100, "revoke 1.1 #1")
	x.at(3101, "grant 2.1 #2", release(1, 1, 1))
}

func TestUnitLingersForExpectedConnections(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
	x.at(0, "grant 1.1 #1", ask(1, 1, 1))
	x.at(1, "", ask(3, 1, 1))
	x.at(10, "", end(1, 1))
	x.at(11, "grant 2.1 #1", ask(2, 1, 1))
	x.at(12, "grant 3.1 #2", end(2, 1)) // both have come
	x.at(20, "", end(3, 1))             // its connection is alone
	x.at(30, "grant 1.2 #3", ask(1, 2, 1))
	x.at(31, "", ask(3, 2, 1))
	x.at(40, "", end(1, 2))
	x.tick(42, "grant 3.2 #4")
}

func TestConnectionsThatNeverAskAreNotWaitedForLong(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
	x.at(0, "grant 1.1 #1", ask(1, 1, 1))
	lingers := 0
	for i := range uint64(5) {
		now := 100 * int(i+1)
		x.at(now, "", ask(3, i+1, 1))
		actions, err := x.a.Step(time.Duration(now+1)*ms, end(1, i+1))
		if err != nil {
			t.Fatal(err)
		}
		if len(actions) == 0 {
			lingers++
			x.at(now+10, fmt.Sprintf("grant 3.%d #%d", i+1, 2*i+2), iosched.Tick{})
		}
		x.at(now+20, "", end(3, i+1))
		x.at(now+30, fmt.Sprintf("grant 1.%d #%d", i+2, 2*i+3), ask(1, i+2, 1))
	}
	if lingers != 1 {
		t.Errorf("the unit lingered %d times, want 1", lingers)
	}
}

// A later burst does not overtake an evicted one on the same file whose client
// lives and has not answered.
func TestBurstsOnAFileKeepTheirOrder(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr", Grace: second})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
	x.at(0, "grant 1.1 #1", askFile(1, 1, "f"))
	x.at(1, "", askFile(3, 1, "h"))
	x.tick(500, "revoke 1.1 #1")
	x.at(600, "", askFile(2, 1, "f"), askFile(2, 2, "g"))
	x.tick(1500, "evict 1.1 #1, grant 3.1 #2")
	x.at(1600, "grant 2.2 #3", end(3, 1))
	x.at(1700, "grant 1.1 #3, grant 2.1 #3", release(1, 1, 1))
}

func TestLongestWait(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "srpt", MaxWait: 10 * second})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 1<<20))
	x.at(1, "", ask(2, 1, 1<<40))
	burst := uint64(1)
	for now := 400; now < 20000; now += 400 { // A stream of short bursts, two at a time.
		a, b := iosched.Conn(1+2*(burst%2)), iosched.Conn(1+2*((burst+1)%2))
		x.at(now-200, "", iosched.Alive{Conn: 2}, ask(a, burst, 1<<20))
		_ = b
		actions, err := x.a.Step(time.Duration(now)*ms, end(b, max(1, burst-1)))
		if err != nil {
			t.Fatal(err)
		}
		if len(actions) != 1 {
			t.Fatalf("%d ms: %v", now, actions)
		}
		if actions[0].Conn == 2 {
			if now < 10001 || now > 10001+400 {
				t.Errorf("the long burst has its turn after %d ms, want 10 s", now)
			}
			// It keeps its window.
			x.at(now+1, "", ask(b, burst+1, 1))
			x.tick(now+500, "revoke 2.1 #"+fmt.Sprint(actions[0].Turn))
			return
		}
		burst++
	}
	t.Error("the long burst has no turn")
}

func TestRulesOfConnections(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{MaxConns: 2, MaxBursts: 2})
	x.at(0, "grant 1.1 #1, grant 1.2 #1", join(1, "a", "u"), join(2, "a", "u"), ask(1, 1, 1), ask(1, 2, 1))
	for want, e := range map[string]iosched.Event{
		"connection 1 has joined already": join(1, "a", "u"),
		"2 connections have joined":       join(3, "a", "u"),
		"connection 1 has 2 bursts":       ask(1, 3, 1),
		"connection 7 has not joined":     ask(7, 1, 1),
		"connection 1 has no burst 9":     end(1, 9),
		"connection 2 has no burst 1":     progress(2, 1, 1),
		"progress of burst 1 is -1 bytes": progress(1, 1, -1),
		"connection 8 has not joined":     iosched.Leave{Conn: 8},
		"connection 2 has no burst 3":     release(2, 3, 1),
		"connection 2 has no burst 4":     iosched.Idle{Conn: 2, Burst: 4},
		"connection 6 has not joined":     iosched.Alive{Conn: 6},
		"unknown event <nil>":             nil,
	} {
		if _, err := x.a.Step(0, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: %v, want %q", e, err, want)
		}
	}
}

func TestWeights(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{})
	for _, w := range []float64{math.NaN(), math.Inf(1), -1, 1 << 21} {
		if _, err := x.a.Step(0, iosched.Join{Conn: 1, Weight: w}); err == nil || !strings.Contains(err.Error(), "weight") {
			t.Errorf("weight %v: %v, want an error", w, err)
		}
	}
	// Twice the weight is half the length, among bursts of one user.
	x.at(0, "grant 1.1 #1", join(1, "a", "u"), ask(1, 1, 1<<20))
	x.at(1, "", iosched.Join{Conn: 2, App: "b", User: "u", Weight: 2}, ask(2, 1, 30<<20))
	x.at(2, "", join(3, "c", "u"), ask(3, 1, 20<<20))
	x.at(3, "grant 2.1 #2", end(1, 1))
}

// A user is not held back for bytes that it was given while no other wanted the
// unit, nor for bytes of a time after which all had what they wanted.
func TestAccountsOfUsers(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{})
	x.at(0, "grant 1.1 #1", join(1, "a", "u"), ask(1, 1, 9<<30))
	x.at(1000, "", progress(1, 1, 8<<30))
	// u has 1 GiB left and is ahead by nothing: v, with 2 GiB, waits.
	x.at(1001, "", join(2, "b", "v"), ask(2, 1, 2<<30))
	x.at(1400, "", progress(1, 1, 1<<30))
	x.at(1401, "grant 2.1 #2", end(1, 1))
	// Now u is ahead by 1 GiB, so that its next GiB counts as two.
	x.at(1402, "", ask(1, 2, 1<<30), progress(2, 1, 1))
	x.tick(1901, "")
	x.at(2000, "", progress(2, 1, 2<<30-1))
	x.at(2001, "grant 1.2 #3", end(2, 1))
	x.at(2002, "", end(1, 2))
	// The unit is idle: all start alike.
	x.at(3000, "grant 1.3 #4", join(3, "c", "w"), ask(1, 3, 1<<20))
	x.at(3001, "", ask(3, 1, 4<<20), ask(2, 2, 3<<20))
	x.at(3002, "grant 2.2 #5", end(1, 3))
}

// Sums do not overflow, whatever a client says.
func TestHugeBursts(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{})
	x.at(0, "grant 1.1 #1, grant 1.2 #1", join(1, "a", "u"), ask(1, 1, math.MaxInt64), ask(1, 2, math.MaxInt64))
	if r := *x.a.Status(ms).Apps[0].Remaining; r <= 0 {
		t.Errorf("%d bytes remain", r)
	}
	x.at(1, "", progress(1, 1, math.MaxInt64), progress(1, 2, math.MaxInt64))
	if s := x.a.Status(ms); s.Bytes <= 0 || s.Apps[0].Bytes <= 0 || *s.Apps[0].Remaining != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]iosched.TurnOptions{
		`unknown policy "best"`:             {Policy: "best"},
		"window of storage turns is -1s":    {Window: -second},
		"lease of storage turns is -1ns":    {Lease: -1},
		"grace of storage turns is -1ms":    {Grace: -ms},
		"longest wait of storage turns is ": {MaxWait: -1},
	} {
		if _, err := iosched.NewArbiter("disk", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// TestRanksThatAskInTurn: jobs of the same size, whose ranks ask one after the other, do
// not take the unit from each other if they said how large they are.
func TestRanksThatAskInTurn(t *testing.T) {
	for whole, want := range map[int64]string{0: "revoke 1.1 #1, revoke 3.1 #1", 8 << 20: ""} {
		x := newTable(t, iosched.TurnOptions{Policy: "wsjf"})
		x.at(0, "", join(1, "a", "u"), join(2, "b", "u"), join(3, "a", "u"), join(4, "b", "u"))
		part := func(c iosched.Conn) iosched.Event {
			return iosched.Ask{Conn: c, Burst: 1, Bytes: 4 << 20, Whole: whole}
		}
		x.at(1, "grant 1.1 #1", part(1))
		x.at(2, "grant 3.1 #1", part(3))
		x.at(3, want, part(2))
	}
}

// TestMoreThanSaid: a burst that goes beyond its bytes does not seem to have everything left.
func TestMoreThanSaid(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "wsjf"})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 64<<20))
	x.at(1, "", ask(2, 1, 64<<20))
	x.at(2, "", progress(1, 1, 66<<20))
	x.at(3, "", ask(3, 1, 32<<20))
	x.tick(500, "")
}

// TestTimeToCommit: a job whose ranks have ended keeps the turn for a moment, though what
// is left of it is idle.
func TestTimeToCommit(t *testing.T) {
	for _, commits := range []bool{true, false} {
		x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
		x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
		x.at(0, "grant 1.1 #1", ask(1, 1, 0))
		x.at(0, "grant 2.1 #1", ask(2, 1, 1<<20))
		x.at(1, "", ask(3, 1, 1<<20))
		x.at(2, "", iosched.Idle{Conn: 1, Burst: 1})
		x.at(10, "", end(2, 1))
		if commits {
			x.at(60, "", progress(1, 1, 0))
			x.at(70, "grant 3.1 #2", end(1, 1))
		} else {
			x.tick(110, "revoke 1.1 #1")
			x.at(111, "grant 3.1 #2", release(1, 1, 1))
		}
	}
}

// TestRRKeepsWindows: who asks within a window of rr does not end it, whoever joined first.
func TestRRKeepsWindows(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "rr"})
	three(x)
	x.at(0, "grant 2.1 #1", ask(2, 1, 1<<30))
	x.at(10, "", ask(1, 1, 1<<30))
	x.tick(500, "revoke 2.1 #1")
}

// TestWholeOfTheNext: what an application says of its next work counts, though bursts of
// the last are not over.
func TestWholeOfTheNext(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "wsjf"})
	three(x)
	x.at(0, "grant 1.1 #1", ask(1, 1, 8<<20))
	x.at(1, "", progress(1, 1, 7<<20))
	x.at(2, "grant 1.2 #1", iosched.Ask{Conn: 1, Burst: 2, Whole: 8 << 20})
	x.at(3, "revoke 1.1 #1, revoke 1.2 #1", ask(2, 1, 4<<20))
}

// TestStatusUnknown: numbers that are not known are null, not 0.
func TestStatusUnknown(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{})
	x.at(0, "grant 1.1 #1", join(1, "a", "u"), ask(1, 1, -1))
	if s := x.a.Status(ms).Apps[0]; s.Remaining != nil || s.FlowTime != nil || s.LongestFlow != nil || s.Stretch != nil {
		t.Errorf("%+v", s)
	}
}
